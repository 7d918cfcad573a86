#include <catch2/catch.hpp>

#include "proxier/api/text_file.h"
#include "proxier/config/config_file.h"
#include "proxier/config/config_validation.h"
#include "test/support/paths.h"
#include "test/unit/config_files.h"
#include "test/unit/kubeadm_config.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::config {
namespace {

using namespace std::chrono_literals;
using test::config_of_fields;
using test::kConfigHead;
using test::lines_of;
using Lines = std::vector<std::string>;

Lines problems_of(const std::string& text) {
  api::Problems problems;
  read_config_text(text, "f", problems);
  return lines_of(problems);
}

TEST_CASE("an empty configuration is the default one") {
  CHECK(config_of_fields("") == KubeProxyConfig{});
  CHECK(config_of_fields(
            "mode: null\nnftables:\nbindAddress: ''\nhealthzBindAddress: ''\n"
            "ipvs: {syncPeriod: 0, minSyncPeriod: 0s}\nlogging: {flushFrequency: 0}\n"
            "clientConnection: {qps: 0, burst: 0, contentType: ''}\ndetectLocalMode: ''\n"
            "iptables: {syncPeriod: 0s, minSyncPeriod: '0'}\nconfigSyncPeriod: 0s\n") ==
        KubeProxyConfig{});
}

TEST_CASE("what kubeadm writes is the default configuration, without a word") {
  std::string text = test::kKubeadmConfig;
  if (GENERATE(false, true)) {  // as an editor on Windows leaves it
    for (auto at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 2))
      text.insert(at, "\r");
    text.insert(0, "\xef\xbb\xbf");
  }
  api::Problems problems;
  const auto config = read_config_text(text, "f", problems);
  CHECK(lines_of(problems) == Lines{});
  CHECK(validate(config).empty());
  KubeProxyConfig expected;
  expected.client_connection.kubeconfig = "/var/lib/kube-proxy/kubeconfig.conf";
  expected.cluster_cidr = "10.244.0.0/16";
  expected.mode = "ipvs";
  CHECK(config == expected);
}

TEST_CASE("every field is read") {
  const auto config = config_of_fields(R"(
featureGates: {AllowServiceExternalIPs: false, PreferSameTrafficDistribution: true}
clientConnection: {kubeconfig: /k, acceptContentTypes: a, contentType: c, qps: 1.5, burst: 7}
logging:
  format: json
  flushFrequency: 1500000000
  verbosity: 4
  vmodule: [{filePattern: sync, verbosity: 9}]
  options: {text: {splitStream: true, infoBufferSize: 64Ki}, json: {splitStream: true, infoBufferSize: 12}}
hostnameOverride: kp
bindAddress: 10.0.0.1
healthzBindAddress: 10.0.0.2
metricsBindAddress: "[::1]:99"
bindAddressHardFail: true
enableProfiling: true
showHiddenMetricsForVersion: "1.35"
mode: ipvs
iptables: {masqueradeBit: 0, masqueradeAll: true, localhostNodePorts: false, syncPeriod: 2s, minSyncPeriod: 3s}
ipvs:
  syncPeriod: 1m30s
  minSyncPeriod: 250ms
  scheduler: mh
  excludeCIDRs: [10.1.0.0/16, "fd00::/64"]
  strictARP: true
  tcpTimeout: 600s
  tcpFinTimeout: 60s
  udpTimeout: 2m
nftables: {masqueradeBit: 3, masqueradeAll: true, syncPeriod: 4s, minSyncPeriod: 5s}
winkernel: {networkName: net, sourceVip: v, enableDSR: true, rootHnsEndpointName: r, forwardHealthCheckVip: true}
detectLocalMode: BridgeInterface
detectLocal: {bridgeInterface: br0, interfaceNamePrefix: veth}
clusterCIDR: "10.244.1.0/16, fd00:244::1/64"
nodePortAddresses: [10.0.0.0/8]
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 1, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 2s, tcpBeLiberal: true, udpTimeout: 3s, udpStreamTimeout: 4s}
configSyncPeriod: 1m
portRange: 1-2
windowsRunAsService: true
)");
  KubeProxyConfig expected;
  expected.feature_gates = {{"AllowServiceExternalIPs", false},
                            {"PreferSameTrafficDistribution", true}};
  expected.client_connection = {"/k", "a", "c", 1.5, 7};
  expected.logging = {"json", 1500ms, 4, {{"sync", 9}}, {true, "64Ki"}, {true, "12"}};
  expected.hostname_override = "kp";
  expected.bind_address = "10.0.0.1";
  expected.healthz_bind_address = "10.0.0.2:10256";
  expected.metrics_bind_address = "[::1]:99";
  expected.bind_address_hard_fail = true;
  expected.enable_profiling = true;
  expected.show_hidden_metrics_for_version = "1.35";
  expected.mode = "ipvs";
  expected.iptables = {0, true, false, 2s, 3s};
  expected.ipvs = {90s, 250ms, "mh", {"10.1.0.0/16", "fd00::/64"}, true, 600s, 60s, 120s};
  expected.nftables = {3, true, 4s, 5s};
  expected.winkernel = {"net", "v", true, "r", true};
  expected.detect_local_mode = "BridgeInterface";
  expected.detect_local = {"br0", "veth"};
  expected.cluster_cidr = "10.244.1.0/16, fd00:244::1/64";
  expected.node_port_addresses = {"10.0.0.0/8"};
  expected.oom_score_adj = 0;
  expected.conntrack = {0, 1, 0s, 2s, true, 3s, 4s};
  expected.config_sync_period = 1min;
  expected.port_range = "1-2";
  expected.windows_run_as_service = true;
  CHECK(config == expected);

  CHECK_FALSE(external_ips_allowed(config));
  CHECK(cluster_cidr(config, netlink::Family::ipv4)->to_string() == "10.244.0.0/16");
  CHECK(cluster_cidr(config, netlink::Family::ipv6)->to_string() == "fd00:244::/64");
  CHECK(exclude_prefixes(config).size() == 2);
  CHECK(node_ip_override(config)->to_string() == "10.0.0.1");
  CHECK(node_port_addresses(config) ==
        NodePortAddresses{.primary = false, .prefixes = {*netlink::IpPrefix::parse("10.0.0.0/8")}});
}

TEST_CASE("defaults follow the family of bindAddress") {
  const auto config = config_of_fields("bindAddress: '::'\n");
  CHECK(config.healthz_bind_address == "[::]:10256");
  CHECK(config.metrics_bind_address == "[::1]:10249");
  CHECK_FALSE(node_ip_override(config));
  CHECK(external_ips_allowed(config));
  CHECK_FALSE(cluster_cidr(config, netlink::Family::ipv4));
  CHECK(node_port_addresses(config_of_fields("nodePortAddresses: [primary]\n")).primary);
  CHECK(node_port_addresses(config_of_fields("nodePortAddresses: [10.0.0.0/8, primary]\n")) ==
        NodePortAddresses{.primary = true, .prefixes = {*netlink::IpPrefix::parse("10.0.0.0/8")}});
  CHECK(node_port_addresses(config_of_fields("nodePortAddresses: [primary, localhost]\n")) ==
        NodePortAddresses{.primary = true, .localhost = true, .prefixes = {}});
  const auto everywhere =
      node_port_addresses(config_of_fields("nodePortAddresses: [all, localhost]\n"));
  CHECK(everywhere.localhost);
  CHECK(everywhere.prefixes.size() == 2);
  // An opt-in.
  for (const auto* range : {"all", "127.0.0.0/8, '::1/128'", "0.0.0.0/0"})
    CHECK_FALSE(
        node_port_addresses(config_of_fields("nodePortAddresses: [" + std::string(range) + "]\n"))
            .localhost);
  CHECK(node_port_addresses(config_of_fields("nodePortAddresses: [primary, all]\n")) ==
        NodePortAddresses{.primary = false,
                          .prefixes = {*netlink::IpPrefix::parse("0.0.0.0/0"),
                                       *netlink::IpPrefix::parse("::/0")}});
}

TEST_CASE("JSON is read as well") {
  api::Problems problems;
  const auto config = read_config_text(
      R"({"kind":"KubeProxyConfiguration","apiVersion":"kubeproxy.config.k8s.io/v1alpha1","mode":"ipvs"})",
      "f", problems);
  CHECK(problems.empty());
  CHECK(config.mode == "ipvs");
}

TEST_CASE("unknown and repeated fields are warnings by their full name") {
  CHECK(problems_of(kConfigHead +
                    "ipvs: {shceduler: rr}\nMode: ipvs\nlogging: {vmodule: [{file: a}]}\n"
                    "conntrack: {min: 1, min: 2}\nfeatureGates: {Nonsense: true}\n") ==
        Lines{"warning: f: conntrack.min: is given more than once; the last one counts",
              "warning: f: logging.vmodule[0].file: unknown field; it is ignored",
              "warning: f: ipvs.shceduler: unknown field; it is ignored",
              "warning: f: Mode: unknown field; it is ignored",
              "warning: f: featureGates.Nonsense: unknown feature gate; it is ignored"});
}

TEST_CASE("a wrong type is an error that names file and field") {
  const auto [text, line] = GENERATE(table<std::string, std::string>({
      {"ipvs: {scheduler: 5}", "ipvs.scheduler: must be text, not 5"},
      {"ipvs: rr", "ipvs: must be an object, not \"rr\""},
      {"ipvs: {strictARP: 'yes'}", "ipvs.strictARP: must be true or false, not \"yes\""},
      {"ipvs: {syncPeriod: 30}",
       "ipvs.syncPeriod: must be a duration such as \"30s\" or \"1m30s\", not 30"},
      {"ipvs: {syncPeriod: soon}",
       "ipvs.syncPeriod: must be a duration such as \"30s\" or \"1m30s\", not \"soon\""},
      {"ipvs: {excludeCIDRs: 10.0.0.0/8}", "ipvs.excludeCIDRs: must be a list, not \"10.0.0.0/8\""},
      {"ipvs: {excludeCIDRs: [1]}", "ipvs.excludeCIDRs[0]: must be text, not 1"},
      {"oomScoreAdj: 2147483648",
       "oomScoreAdj: must be a whole number from -2147483648 to 2147483647, not 2147483648"},
      {"oomScoreAdj: 1.5",
       "oomScoreAdj: must be a whole number from -2147483648 to 2147483647, not 1.5"},
      {"logging: {verbosity: -1}",
       "logging.verbosity: must be a whole number from 0 to 4294967295, not -1"},
      {"logging: {vmodule: [a]}", "logging.vmodule[0]: must be an object, not \"a\""},
      {"clientConnection: {qps: fast}", "clientConnection.qps: must be a number, not \"fast\""},
      {"featureGates: [a]", "featureGates: must be an object, not a list"},
      {"featureGates: {AllAlpha: 1}", "featureGates.AllAlpha: must be true or false, not 1"},
      {"featureGates: {MultiCIDRServiceAllocator: false}",
       "featureGates.MultiCIDRServiceAllocator: cannot be set to false, it is locked to true"},
      {"nodePortAddresses: primary", "nodePortAddresses: must be a list, not \"primary\""},
  }));
  CAPTURE(text);
  CHECK(problems_of(kConfigHead + text) == Lines{"error: f: " + line});
}

// Of a later version's file.
TEST_CASE("a wrong type is a warning where the field has no effect") {
  const auto [text, line] = GENERATE(table<std::string, std::string>({
      {"nftables: {masqueradeBit: none}",
       "nftables.masqueradeBit: must be a whole number from -2147483648 to 2147483647, not "
       "\"none\""},
      {"nftables: [a]", "nftables: must be an object, not a list"},
      {"winkernel: {enableDSR: maybe}",
       "winkernel.enableDSR: must be true or false, not \"maybe\""},
      {"iptables: {syncPeriod: often}",
       "iptables.syncPeriod: must be a duration such as \"30s\" or \"1m30s\", not \"often\""},
      {"logging: {options: {text: {infoBufferSize: lots}}}",
       "logging.options.text.infoBufferSize: must be a quantity such as 0 or \"64Ki\", not "
       "\"lots\""},
      {"portRange: {from: 1}", "portRange: must be text, not an object"},
      {"clientConnection: {contentType: [a]}",
       "clientConnection.contentType: must be text, not a list"},
  }));
  CAPTURE(text);
  CHECK(problems_of(kConfigHead + text) ==
        Lines{"warning: f: " + line + "; it has no effect here"});
}

TEST_CASE("a feature gate of a later version ends nothing, whatever its value") {
  for (const auto* value : {"true", "maybe", "[a]", "{stage: beta}", "1"})
    CHECK(problems_of(kConfigHead + "featureGates: {Later: " + value + ", AllBeta: true}\n") ==
          Lines{"warning: f: featureGates.Later: unknown feature gate; it is ignored"});
}

TEST_CASE("what is no KubeProxyConfiguration is refused") {
  CHECK(problems_of("") ==
        Lines{"error: f: must hold one KubeProxyConfiguration, not 0 documents"});
  CHECK(problems_of(kConfigHead + "---\n" + kConfigHead) ==
        Lines{"error: f: must hold one KubeProxyConfiguration, not 2 documents"});
  CHECK(problems_of("[1]") == Lines{"error: f: must be an object, not a list"});
  CHECK(problems_of("mode: ipvs\n") ==
        Lines{"error: f: apiVersion: must be kubeproxy.config.k8s.io/v1alpha1, not missing",
              "error: f: kind: must be KubeProxyConfiguration, not missing"});
  CHECK(problems_of("apiVersion: kubeproxy.config.k8s.io/v1\nkind: KubeProxyConfiguration\n") ==
        Lines{"error: f: apiVersion: must be kubeproxy.config.k8s.io/v1alpha1, not "
              "\"kubeproxy.config.k8s.io/v1\""});
  CHECK(problems_of(kConfigHead + "a: b: c\n") ==
        Lines{"error: f: line 3, column 5: illegal map value"});
}

TEST_CASE("configurations of the reference are sound") {
  for (const std::string name : {"clustercidr", "masqall-mh", "nolocaldetect"}) {
    const auto file = test::data_path("reference/shop/") + name + "/config.yaml";
    api::Problems problems;
    const auto text = api::read_text_file(file, problems);
    REQUIRE(text);
    const auto config = read_config_text(*text, file, problems);
    CHECK(lines_of(problems) == Lines{});
    CHECK(config.hostname_override == "kp");
    CHECK(validate(config).empty());
    CHECK(config.iptables.masquerade_bit == (name == "nolocaldetect" ? 10 : 14));
    CHECK(config.ipvs.tcp_timeout == (name == "masqall-mh" ? 600s : 0s));
  }
}

}  // namespace
}  // namespace ipvsproxier::config
