#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/config/feature_gates.h"
#include "proxier/config/kube_proxy_flags.h"
#include "proxier/config/listen_address.h"
#include "test/unit/config_files.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::config {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

// What kube-proxy runs with when it has neither file nor flags.
KubeProxyConfig defaults() {
  return FlagConfig().config;
}

struct Case {
  Lines arguments;
  std::function<void(KubeProxyConfig&)> expect;
};

const std::vector<Case>& cases() {
  using C = KubeProxyConfig;
  static const std::vector<Case> all = {
      {{"--kubeconfig=/k"}, [](C& c) { c.client_connection.kubeconfig = "/k"; }},
      {{"--kube-api-content-type", "a/b"}, [](C& c) { c.client_connection.content_type = "a/b"; }},
      {{"--kube-api-qps=-1.5"}, [](C& c) { c.client_connection.qps = -1.5; }},
      {{"--kube-api-burst", "7"}, [](C& c) { c.client_connection.burst = 7; }},
      {{"--config-sync-period=1m"}, [](C& c) { c.config_sync_period = 1min; }},
      {{"--bind-address=::1"}, [](C& c) { c.bind_address = "::1"; }},
      {{"--bind-address="}, [](C&) {}},
      {{"--healthz-bind-address=10.0.0.1"},
       [](C& c) { c.healthz_bind_address = "10.0.0.1:10256"; }},
      {{"--healthz-bind-address=[::1]:9"}, [](C& c) { c.healthz_bind_address = "[::1]:9"; }},
      {{"--healthz-bind-address=::1", "--healthz-port=9"},
       [](C& c) { c.healthz_bind_address = "[::1]:9"; }},
      {{"--healthz-bind-address="}, [](C&) {}},
      {{"--healthz-port=9"}, [](C&) {}},  // the default address has its port
      {{"--healthz-port=0"}, [](C& c) { c.healthz_bind_address = ""; }},
      {{"--healthz-bind-address=1.2.3.4:5", "--healthz-port=0"},
       [](C& c) { c.healthz_bind_address = ""; }},
      {{"--metrics-bind-address=0.0.0.0"}, [](C& c) { c.metrics_bind_address = "0.0.0.0:10249"; }},
      {{"--metrics-bind-address=0.0.0.0", "--metrics-port=99"},
       [](C& c) { c.metrics_bind_address = "0.0.0.0:99"; }},
      {{"--metrics-bind-address="}, [](C&) {}},
      {{"--metrics-port=99"}, [](C&) {}},
      {{"--bind-address-hard-fail"}, [](C& c) { c.bind_address_hard_fail = true; }},
      {{"--profiling=T"}, [](C& c) { c.enable_profiling = true; }},
      {{"--show-hidden-metrics-for-version=1.35"},
       [](C& c) { c.show_hidden_metrics_for_version = "1.35"; }},
      {{"--oom-score-adj", "-500"}, [](C& c) { c.oom_score_adj = -500; }},
      {{"--proxy-mode=ipvs"}, [](C& c) { c.mode = "ipvs"; }},
      {{"--feature-gates=AllowServiceExternalIPs=false,AllAlpha=true"},
       [](C& c) {
         c.feature_gates = {{"AllowServiceExternalIPs", false}, {"AllAlpha", true}};
       }},
      {{"--feature-gates=AllAlpha=true", "--feature-gates=AllAlpha=false,AllBeta=true"},
       [](C& c) {
         c.feature_gates = {{"AllAlpha", false}, {"AllBeta", true}};
       }},
      {{"--ipvs-scheduler=mh"}, [](C& c) { c.ipvs.scheduler = "mh"; }},
      {{"--ipvs-sync-period=1m30s"}, [](C& c) { c.ipvs.sync_period = 90s; }},
      {{"--ipvs-min-sync-period=0s"}, [](C& c) { c.ipvs.min_sync_period = 0s; }},
      {{"--ipvs-exclude-cidrs=10.0.0.0/8,fd00::/8"},
       [](C& c) {
         c.ipvs.exclude_cidrs = {"10.0.0.0/8", "fd00::/8"};
       }},
      {{"--ipvs-exclude-cidrs=10.0.0.0/8", "--ipvs-exclude-cidrs", "fd00::/8"},
       [](C& c) {
         c.ipvs.exclude_cidrs = {"10.0.0.0/8", "fd00::/8"};
       }},
      {{"--ipvs-exclude-cidrs="}, [](C&) {}},
      {{"--ipvs-strict-arp"}, [](C& c) { c.ipvs.strict_arp = true; }},
      {{"--ipvs-tcp-timeout=1s"}, [](C& c) { c.ipvs.tcp_timeout = 1s; }},
      {{"--ipvs-tcpfin-timeout=2s"}, [](C& c) { c.ipvs.tcp_fin_timeout = 2s; }},
      {{"--ipvs-udp-timeout=3s"}, [](C& c) { c.ipvs.udp_timeout = 3s; }},
      {{"--iptables-masquerade-bit=3"}, [](C& c) { c.iptables.masquerade_bit = 3; }},
      {{"--masquerade-all"}, [](C& c) { c.iptables.masquerade_all = true; }},
      {{"--masquerade-all", "--masquerade-all=false"}, [](C&) {}},
      {{"--iptables-localhost-nodeports=false"},
       [](C& c) { c.iptables.localhost_node_ports = false; }},
      {{"--iptables-sync-period=5s", "--iptables-min-sync-period=4s"},
       [](C& c) {
         c.iptables.sync_period = std::chrono::seconds(5);
         c.iptables.min_sync_period = std::chrono::seconds(4);
       }},
      {{"--detect-local-mode=NodeCIDR"}, [](C& c) { c.detect_local_mode = "NodeCIDR"; }},
      {{"--detect-local-mode="}, [](C&) {}},
      {{"--pod-bridge-interface=br0"}, [](C& c) { c.detect_local.bridge_interface = "br0"; }},
      {{"--pod-interface-name-prefix=veth"},
       [](C& c) { c.detect_local.interface_name_prefix = "veth"; }},
      {{"--cluster-cidr=10.0.0.0/8,fd00::/8"},
       [](C& c) { c.cluster_cidr = "10.0.0.0/8,fd00::/8"; }},
      {{"--nodeport-addresses=primary"}, [](C& c) { c.node_port_addresses = {"primary"}; }},
      {{"--conntrack-max-per-core=0"}, [](C& c) { c.conntrack.max_per_core = 0; }},
      {{"--conntrack-min=1"}, [](C& c) { c.conntrack.min = 1; }},
      {{"--conntrack-tcp-timeout-established=0"},
       [](C& c) { c.conntrack.tcp_established_timeout = 0s; }},
      {{"--conntrack-tcp-timeout-close-wait=2s"},
       [](C& c) { c.conntrack.tcp_close_wait_timeout = 2s; }},
      {{"--conntrack-tcp-be-liberal"}, [](C& c) { c.conntrack.tcp_be_liberal = true; }},
      {{"--conntrack-udp-timeout=3s"}, [](C& c) { c.conntrack.udp_timeout = 3s; }},
      {{"--conntrack-udp-timeout-stream=4s"}, [](C& c) { c.conntrack.udp_stream_timeout = 4s; }},
      {{"--boot-id-file=/a,/b", "--machine-id-file=/c"}, [](C&) {}},
      {{"--v=3"}, [](C& c) { c.logging.verbosity = 3; }},
      {{"--vmodule=a*=1,b=2"},
       [](C& c) {
         c.logging.vmodule = {{"a*", 1}, {"b", 2}};
       }},
      {{"--logging-format=json"}, [](C& c) { c.logging.format = "json"; }},
      {{"--log-flush-frequency=1s"}, [](C& c) { c.logging.flush_frequency = 1s; }},
      {{"--feature-gates=LoggingAlphaOptions=true", "--log-text-split-stream",
        "--log-json-split-stream", "--log-text-info-buffer-size=64Ki",
        "--log-json-info-buffer-size=1"},
       [](C& c) {
         c.feature_gates = {{"LoggingAlphaOptions", true}};
         c.logging.text = {true, "64Ki"};
         c.logging.json = {true, "1"};
       }},
  };
  return all;
}

TEST_CASE("each flag sets its field and nothing else") {
  for (const auto& [arguments, expect] : cases()) {
    CAPTURE(arguments);
    auto expected = defaults();
    expect(expected);
    const auto options = test::options_of(arguments);
    CHECK(options.config == expected);
    CHECK(test::lines_of(options.warnings) == Lines{});
  }
}

TEST_CASE("no flag is left out of the table above") {
  std::set<std::string> tried;
  for (const auto& [arguments, expect] : cases())
    for (const auto& argument : arguments)
      if (argument.rfind("--", 0) == 0) tried.insert(argument.substr(2, argument.find('=') - 2));
  for (const auto& flags : {config_flags(), logging_flags()})
    for (const auto& flag : flags) {
      CAPTURE(flag.name);
      CHECK(tried.contains(std::string(flag.name)));
    }
  CHECK(config_flags().size() + logging_flags().size() == tried.size());
}

TEST_CASE("in every flag's name _ may stand for -") {
  for (const auto& [arguments, expect] : cases()) {
    auto spelled = arguments;
    for (auto& argument : spelled)
      if (argument.rfind("--", 0) == 0)
        for (std::size_t i = 2; i < argument.size() && argument[i] != '='; ++i)
          if (argument[i] == '-') argument[i] = '_';
    CAPTURE(spelled);
    auto expected = defaults();
    expect(expected);
    CHECK(test::options_of(spelled).config == expected);
  }
}

TEST_CASE("a flag's text must be of its type") {
  const auto [argument, wanted] = GENERATE(table<std::string, std::string>({
      {"--kube-api-qps=fast", "must be a number"},
      {"--kube-api-qps=5x", "must be a number"},
      {"--kube-api-burst=1.5", "must be a whole number from -2147483648 to 2147483647"},
      {"--oom-score-adj=2147483648", "must be a whole number from -2147483648 to 2147483647"},
      {"--config-sync-period=15", "must be a duration such as 30s or 1m30s"},
      {"--iptables-sync-period=x", "must be a duration such as 30s or 1m30s"},
      {"--bind-address=localhost", "must be an IP address"},
      {"--healthz-bind-address=localhost:1", "must be an IP address or IP:port"},
      {"--healthz-bind-address=1.2.3.4:", "must be an IP address or IP:port"},
      {"--metrics-bind-address=1.2.3.4:65536", "must be an IP address or IP:port"},
      {"--metrics-bind-address=[::1]", "must be an IP address or IP:port"},
      {"--healthz-port=", "must be a whole number from -2147483648 to 2147483647"},
      {"--bind-address-hard-fail=yes", "must be true or false"},
      {"--feature-gates=AllAlpha", "must be NAME=true or NAME=false, several separated by commas"},
      {"--feature-gates=AllAlpha=on",
       "must be NAME=true or NAME=false, several separated by commas"},
      {"--vmodule=a", "must be PATTERN=N, several separated by commas"},
      {"--vmodule=a=-1", "must be PATTERN=N, several separated by commas"},
      {"--log-text-info-buffer-size=lots", "must be a quantity such as 0 or 64Ki"},
      {"--log-json-info-buffer-size=", "must be a quantity such as 0 or 64Ki"},
  }));
  const auto equals = argument.find('=');
  const auto exit = test::exit_of({argument});
  CHECK(exit.status == 1);
  const auto line = "\nError: invalid argument \"" + argument.substr(equals + 1) + "\" for \"" +
                    argument.substr(0, equals) + "\" flag: " + wanted + "\n";
  CAPTURE(exit.text, line);
  CHECK(exit.text.find(line) != std::string::npos);
}

TEST_CASE("what no flag may leave behind fails validation") {
  CHECK(test::exit_of({"--metrics-port=0"}).text ==
        "Error: failed validate: KubeProxyConfiguration.MetricsBindAddress: Invalid value: \"\": "
        "must be IP:port\n");
  CHECK(test::exit_of({"--ipvs-sync-period=0s", "--ipvs-min-sync-period=0s"}).text ==
        "Error: failed validate: KubeProxyConfiguration.SyncPeriod: Invalid value: \"0s\": must be "
        "greater than 0\n");
  CHECK(test::exit_of({"--healthz-bind-address=1.2.3.4", "--healthz-port=70000"}).text ==
        "Error: failed validate: KubeProxyConfiguration.HealthzBindAddress: Invalid value: "
        "\"1.2.3.4\": must be IP:port\n");
}

TEST_CASE("--help names every flag") {
  const auto help = test::exit_of({"--help"}).text;
  for (const auto& flags : {config_flags(), logging_flags()})
    for (const auto& flag : flags) {
      CAPTURE(flag.name);
      CHECK(help.find("--" + std::string(flag.name) + " ") != std::string::npos);
    }
}

TEST_CASE("gates are as they were set, or as all of their stage, or as they are by default") {
  using Gates = std::map<std::string, bool>;
  const auto [set, name, enabled] = GENERATE(table<Gates, std::string, bool>({
      {{}, "LoggingAlphaOptions", false},
      {{}, "LoggingBetaOptions", true},
      {{}, "AllowServiceExternalIPs", true},
      {{}, "Unheard", false},
      {{{"Unheard", true}}, "Unheard", true},
      {{{"AllAlpha", true}}, "LoggingAlphaOptions", true},
      {{{"AllAlpha", true}, {"LoggingAlphaOptions", false}}, "LoggingAlphaOptions", false},
      {{{"AllBeta", true}}, "LoggingAlphaOptions", false},
      {{{"AllBeta", false}}, "LoggingBetaOptions", false},
      {{{"AllAlpha", false}, {"AllBeta", false}}, "AllowServiceExternalIPs", true},
      {{{"AllowServiceExternalIPs", false}}, "AllowServiceExternalIPs", false},
  }));
  CAPTURE(set, name);
  CHECK(feature_enabled(set, name) == enabled);
  CHECK(test::exit_of({"--feature-gates=PreferSameTrafficDistribution=false"}).status == 1);
  CHECK_NOTHROW(test::options_of({"--feature-gates=AllAlpha=true", "--log-json-split-stream"}));
}

TEST_CASE("what a server listens on") {
  CHECK(parse_listen_address("0.0.0.0:10256") ==
        serve::ListenAddress{*netlink::IpAddress::parse("0.0.0.0"), 10256});
  CHECK(parse_listen_address("[::1]:65535") ==
        serve::ListenAddress{*netlink::IpAddress::parse("::1"), 65535});
  for (const std::string text : {"", "10.0.0.1", "::1", "[::1]", "[::1:80", "a:80", "10.0.0.1:0",
                                 "10.0.0.1:65536", "10.0.0.1:x", "[1]2:80", "]:1", ":80"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_listen_address(text));
  }
}

}  // namespace
}  // namespace ipvsproxier::config
