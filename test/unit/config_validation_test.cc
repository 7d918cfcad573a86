#include <catch2/catch.hpp>

#include "proxier/config/config_validation.h"
#include "test/unit/config_files.h"

namespace ipvsproxier::config {
namespace {

using Lines = std::vector<std::string>;

// "field | error" of each.
Lines errors_of(const std::string& text) {
  Lines lines;
  for (const auto& error : validate(test::config_of_fields(text)))
    lines.push_back(error.field + " | " + to_string(error));
  return lines;
}

TEST_CASE("sound configurations pass") {
  const std::string text = GENERATE(
      "", "mode: ipvs", "iptables: {masqueradeBit: 31}", "oomScoreAdj: -1000",
      "nodePortAddresses: [primary]", "nodePortAddresses: [10.0.0.0/8, primary]",
      "nodePortAddresses: [all, primary]", "nodePortAddresses: [010.0.0.0/8, '::/0']",
      "clusterCIDR: 10.0.0.0/8", "clusterCIDR: 'fd00::/64,10.0.0.0/8'",
      "detectLocalMode: NodeCIDR\nclusterCIDR: nonsense",
      "detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: br0}",
      "showHiddenMetricsForVersion: '1.35'", "healthzBindAddress: '[::1]:1'",
      "ipvs: {syncPeriod: 1s, minSyncPeriod: 1s}", "iptables: {syncPeriod: 1s, minSyncPeriod: 2s}",
      "clientConnection: {qps: -1}",
      "featureGates: {LoggingAlphaOptions: true}\nlogging: {options: {json: {splitStream: true}}}");
  CAPTURE(text);
  CHECK(errors_of(text) == Lines{});
}

TEST_CASE("each rule has kube-proxy's path and detail") {
  const std::string mode_detail =
      "must be ipvs or blank (blank means ipvs): this program only does ipvs; "
      "--ignore-mode takes the rest of the configuration";
  const std::string conntrack = "KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration.";
  const auto [text, field, error] = GENERATE_COPY(table<std::string, std::string, std::string>({
      {"iptables: {masqueradeBit: 32}", "iptables.masqueradeBit",
       "KubeProxyIPTablesConfiguration.MasqueradeBit: Invalid value: 32: must be within the range "
       "[0, 31]"},
      {"iptables: {masqueradeBit: -1}", "iptables.masqueradeBit",
       "KubeProxyIPTablesConfiguration.MasqueradeBit: Invalid value: -1: must be within the range "
       "[0, 31]"},
      {"ipvs: {tcpTimeout: -10s}", "ipvs.tcpTimeout",
       "KubeProxyIPVSConfiguration.TCPTimeout: Invalid value: \"-10s\": must be greater than or "
       "equal to 0"},
      {"ipvs: {tcpFinTimeout: -1m}", "ipvs.tcpFinTimeout",
       "KubeProxyIPVSConfiguration.TCPFinTimeout: Invalid value: \"-1m0s\": must be greater than "
       "or "
       "equal to 0"},
      {"ipvs: {udpTimeout: -1ms}", "ipvs.udpTimeout",
       "KubeProxyIPVSConfiguration.UDPTimeout: Invalid value: \"-1ms\": must be greater than or "
       "equal to 0"},
      {"ipvs: {excludeCIDRs: [10.0.0.0/8, 10.0.0.1]}", "ipvs.excludeCIDRs[1]",
       "KubeProxyIPVSConfiguration.ExcludeCidrs[1]: Invalid value: \"10.0.0.1\": must be a valid "
       "CIDR"},
      {"conntrack: {maxPerCore: -1}", "conntrack.maxPerCore",
       conntrack + "MaxPerCore: Invalid value: -1: must be greater than or equal to 0"},
      {"conntrack: {min: -2}", "conntrack.min",
       conntrack + "Min: Invalid value: -2: must be greater than or equal to 0"},
      {"conntrack: {tcpEstablishedTimeout: -1s}", "conntrack.tcpEstablishedTimeout",
       conntrack +
           "TCPEstablishedTimeout: Invalid value: \"-1s\": must be greater than or equal to "
           "0"},
      {"conntrack: {tcpCloseWaitTimeout: -1s}", "conntrack.tcpCloseWaitTimeout",
       conntrack + "TCPCloseWaitTimeout: Invalid value: \"-1s\": must be greater than or equal to "
                   "0"},
      {"conntrack: {udpTimeout: -1s}", "conntrack.udpTimeout",
       conntrack + "UDPTimeout: Invalid value: \"-1s\": must be greater than or equal to 0"},
      {"conntrack: {udpStreamTimeout: -1s}", "conntrack.udpStreamTimeout",
       conntrack + "UDPStreamTimeout: Invalid value: \"-1s\": must be greater than or equal to 0"},
      {"oomScoreAdj: 1001", "oomScoreAdj",
       "KubeProxyLinuxConfiguration.OOMScoreAdj: Invalid value: 1001: must be within the range "
       "[-1000, 1000]"},
      {"mode: iptables", "mode", "Mode.ProxyMode: Invalid value: \"iptables\": " + mode_detail},
      {"mode: nftables", "mode", "Mode.ProxyMode: Invalid value: \"nftables\": " + mode_detail},
      {"mode: IPVS", "mode", "Mode.ProxyMode: Invalid value: \"IPVS\": " + mode_detail},
      {"clientConnection: {burst: -1}", "clientConnection.burst",
       "ClientConnection.Burst: Invalid value: -1: must be greater than or equal to 0"},
      {"configSyncPeriod: -1s", "configSyncPeriod",
       "ConfigSyncPeriod: Invalid value: \"-1s\": must be greater than 0"},
      {"ipvs: {syncPeriod: 1s, minSyncPeriod: 2s}", "ipvs.syncPeriod",
       "SyncPeriod: Invalid value: \"2s\": must be greater than or equal to "
       "KubeProxyConfiguration.MinSyncPeriod"},
      {"ipvs: {minSyncPeriod: -1s}", "ipvs.minSyncPeriod",
       "MinSyncPeriod: Invalid value: \"-1s\": must be greater than or equal to 0"},
      {"bindAddress: here", "bindAddress",
       "BindAddress: Invalid value: \"here\": not a valid textual representation of an IP address"},
      {"healthzBindAddress: nowhere", "healthzBindAddress",
       "HealthzBindAddress: Invalid value: \"nowhere\": must be IP:port"},
      {"healthzBindAddress: '::1:80:'", "healthzBindAddress",
       "HealthzBindAddress: Invalid value: \"::1:80:\": must be IP:port"},
      {"healthzBindAddress: 'localhost:80'", "healthzBindAddress",
       "HealthzBindAddress: Invalid value: \"localhost\": must be a valid IP"},
      {"metricsBindAddress: '0.0.0.0:http'", "metricsBindAddress",
       "MetricsBindAddress: Invalid value: \"http\": must be a valid port"},
      {"metricsBindAddress: '0.0.0.0:0'", "metricsBindAddress",
       "MetricsBindAddress: Invalid value: \"0\": must be a valid port"},
      {"metricsBindAddress: '0.0.0.0:65536'", "metricsBindAddress",
       "MetricsBindAddress: Invalid value: \"65536\": must be a valid port"},
      {"nodePortAddresses: [10.0.0.0/8, 10.0.0.1]", "nodePortAddresses[1]",
       "NodePortAddresses[1]: Invalid value: \"10.0.0.1\": must be primary, localhost, all or a "
       "valid CIDR"},
      {"showHiddenMetricsForVersion: '1.34'", "showHiddenMetricsForVersion",
       "ShowHiddenMetricsForVersion: Invalid value: \"1.34\": must be empty or \"1.35\", the "
       "previous minor version"},
      {"detectLocalMode: Guess", "detectLocalMode",
       "DetectLocalMode: Unsupported value: \"Guess\": supported values: \"ClusterCIDR\", "
       "\"NodeCIDR\", \"BridgeInterface\", \"InterfaceNamePrefix\", \"\""},
      {"detectLocalMode: BridgeInterface", "detectLocal.bridgeInterface",
       "DetectLocalConfiguration.InterfaceName: Invalid value: \"\": must not be empty"},
      {"detectLocalMode: InterfaceNamePrefix", "detectLocal.interfaceNamePrefix",
       "DetectLocalConfiguration.InterfacePrefix: Invalid value: \"\": must not be empty"},
      {"clusterCIDR: 10.0.0.0/8,x", "clusterCIDR",
       "DetectLocalConfiguration.ClusterCIDRs[1]: Invalid value: \"x\": must be a valid CIDR "
       "block"},
      {"clusterCIDR: 10.0.0.0/8,11.0.0.0/8", "clusterCIDR",
       "DetectLocalConfiguration.ClusterCIDRs: Invalid value: [\"10.0.0.0/8\",\"11.0.0.0/8\"]: "
       "must "
       "be a single CIDR or a dual-stack pair of CIDRs"},
      {"clusterCIDR: '10.0.0.0/8,fd00::/8,fe00::/8'", "clusterCIDR",
       "DetectLocalConfiguration.ClusterCIDRs: Invalid value: "
       "[\"10.0.0.0/8\",\"fd00::/8\",\"fe00::/8\"]: must be a single CIDR or a dual-stack pair of "
       "CIDRs"},
      {"logging: {format: xml}", "logging.format",
       "logging.format: Invalid value: \"xml\": must be text or json"},
      {"logging: {flushFrequency: -1s}", "logging.flushFrequency",
       "logging.flushFrequency: Invalid value: \"-1s\": must be greater than or equal to 0"},
      {"logging: {verbosity: 2147483648}", "logging.verbosity",
       "logging.verbosity: Invalid value: 2147483648: must be at most 2147483647"},
      {"logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}", "logging.vmodule",
       "logging.vmodule: Forbidden: only the text log format supports it"},
      {"logging: {vmodule: [{verbosity: 1}]}", "logging.vmodule[0].filePattern",
       "logging.vmodule[0].filePattern: Required value: must not be empty"},
      {"logging: {vmodule: [{filePattern: a=b}]}", "logging.vmodule[0].filePattern",
       "logging.vmodule[0].filePattern: Invalid value: \"a=b\": must not hold an equals sign or a "
       "comma"},
      {"logging: {options: {text: {infoBufferSize: 1Ki}}}", "logging.options.text.infoBufferSize",
       "logging.options.text.infoBufferSize: Forbidden: feature LoggingAlphaOptions is disabled"},
      {"logging: {options: {json: {splitStream: true}}}", "logging.options.json.splitStream",
       "logging.options.json.splitStream: Forbidden: feature LoggingAlphaOptions is disabled"},
  }));
  CAPTURE(text);
  CHECK(errors_of(text) == Lines{field + " | KubeProxyConfiguration." + error});
}

TEST_CASE("all errors are collected") {
  CHECK(errors_of("mode: nftables\noomScoreAdj: 5000\nipvs: {syncPeriod: -1s}\n").size() == 4);
  auto config = KubeProxyConfig{};
  config.metrics_bind_address = "";
  config.healthz_bind_address = "";
  REQUIRE(validate(config).size() == 1);
  CHECK(to_string(validate(config)[0]) ==
        "KubeProxyConfiguration.MetricsBindAddress: Invalid value: \"\": must be IP:port");
}

TEST_CASE("together they are one problem, in kube-proxy's form") {
  const auto one = validate(test::config_of_fields("oomScoreAdj: 1001"));
  const std::string oom =
      "KubeProxyConfiguration.KubeProxyLinuxConfiguration.OOMScoreAdj: Invalid value: 1001: must "
      "be "
      "within the range [-1000, 1000]";
  CHECK(api::to_string(to_problems(one, "f").at(0)) == "f: oomScoreAdj: failed validate: " + oom);
  CHECK(api::to_string(to_problems(one, "").at(0)) == "failed validate: " + oom);
  const auto two = validate(test::config_of_fields("oomScoreAdj: 1001\nbindAddress: here"));
  REQUIRE(to_problems(two, "f").size() == 1);
  CHECK(api::to_string(to_problems(two, "f")[0]) ==
        "f: bindAddress, oomScoreAdj: failed validate: [" + oom +
            ", KubeProxyConfiguration.BindAddress: Invalid value: \"here\": not a valid textual "
            "representation of an IP address]");
  CHECK(api::has_error(to_problems(two, "f")));
}

// Of a later version's file.
TEST_CASE("a value that is not known ends nothing where the field has no effect") {
  const auto text =
      GENERATE(as<std::string>(), "showHiddenMetricsForVersion: '1.37'", "configSyncPeriod: -1s",
               "logging: {flushFrequency: -1s}", "logging: {options: {json: {splitStream: true}}}");
  const auto problems = to_problems(validate(test::config_of_fields(text)), "f");
  REQUIRE(problems.size() == 1);
  CHECK_FALSE(api::has_error(problems));
  const auto line = api::to_string(problems[0]);
  CHECK_THAT(line, Catch::StartsWith("f: " + text.substr(0, 5)));
  CHECK_THAT(line, Catch::EndsWith("; it has no effect here"));
}

}  // namespace
}  // namespace ipvsproxier::config
