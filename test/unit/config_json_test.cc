#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxier/config/config_file.h"
#include "proxier/config/config_json.h"
#include "test/unit/config_files.h"
#include "test/unit/kubeadm_config.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::config {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

TEST_CASE("/configz shows the default configuration") {
  CHECK(config_json(KubeProxyConfig{}) ==
        R"({"kubeproxy.config.k8s.io":{"kind":"KubeProxyConfiguration",)"
        R"("apiVersion":"kubeproxy.config.k8s.io/v1alpha1",)"
        R"("clientConnection":{"kubeconfig":"","acceptContentTypes":"",)"
        R"("contentType":"application/vnd.kubernetes.protobuf","qps":5,"burst":10},)"
        R"("logging":{"format":"text","flushFrequency":"5s","verbosity":0,)"
        R"("options":{"text":{"infoBufferSize":"0"},"json":{"infoBufferSize":"0"}}},)"
        R"("hostnameOverride":"","bindAddress":"0.0.0.0","healthzBindAddress":"0.0.0.0:10256",)"
        R"("metricsBindAddress":"127.0.0.1:10249","bindAddressHardFail":false,)"
        R"("enableProfiling":false,"showHiddenMetricsForVersion":"","mode":"ipvs",)"
        R"("iptables":{"masqueradeBit":14,"masqueradeAll":false,"localhostNodePorts":true,)"
        R"("syncPeriod":"0s","minSyncPeriod":"0s"},)"
        R"("ipvs":{"syncPeriod":"30s","minSyncPeriod":"0s","scheduler":"","excludeCIDRs":null,)"
        R"("strictARP":false,"tcpTimeout":"0s","tcpFinTimeout":"0s","udpTimeout":"0s"},)"
        R"("nftables":{"masqueradeBit":14,"masqueradeAll":false,"syncPeriod":"0s",)"
        R"("minSyncPeriod":"0s"},)"
        R"("winkernel":{"networkName":"","sourceVip":"","enableDSR":false,)"
        R"("rootHnsEndpointName":"","forwardHealthCheckVip":false},)"
        R"("detectLocalMode":"ClusterCIDR",)"
        R"("detectLocal":{"bridgeInterface":"","interfaceNamePrefix":""},"clusterCIDR":"",)"
        R"("nodePortAddresses":null,"oomScoreAdj":-999,)"
        R"("conntrack":{"maxPerCore":32768,"min":131072,"tcpEstablishedTimeout":"24h0m0s",)"
        R"("tcpCloseWaitTimeout":"1h0m0s","tcpBeLiberal":false,"udpTimeout":"0s",)"
        R"("udpStreamTimeout":"0s"},"configSyncPeriod":"15m0s","portRange":""}})");
}

// Every field with a value of its own.
KubeProxyConfig full() {
  KubeProxyConfig config;
  config.feature_gates = {{"AllowServiceExternalIPs", false}, {"AllAlpha", true}};
  config.client_connection = {"/k", "a", "c", 1.5, 7};
  config.logging = {"json", 1500ms, 4, {{"sync", 9}, {"b", 0}}, {true, "64Ki"}, {true, "12"}};
  config.hostname_override = "true";
  config.bind_address = "10.0.0.1";
  config.healthz_bind_address = "[::1]:98";
  config.metrics_bind_address = "[::1]:99";
  config.bind_address_hard_fail = true;
  config.enable_profiling = true;
  config.show_hidden_metrics_for_version = "1.35";
  config.mode = "ipvs";
  config.iptables = {0, true, false, 30s, 1s};
  config.ipvs = {90s, 250ms, "mh", {"10.1.0.0/16", "fd00::/64"}, true, 600s, 60s, 120s};
  config.nftables.masquerade_bit = 3;
  config.winkernel = {"net", "v", true, "r", true};
  config.detect_local_mode = "BridgeInterface";
  config.detect_local = {"br0", "veth"};
  config.cluster_cidr = "10.244.1.0/16, fd00:244::1/64";
  config.node_port_addresses = {"primary"};
  config.oom_score_adj = 0;
  config.conntrack = {0, 1, 0s, 2s, true, 3s, 4s};
  config.config_sync_period = 1min;
  config.port_range = "1-2";
  config.windows_run_as_service = true;
  return config;
}

TEST_CASE("what is written is what was configured") {
  const auto config = full();
  CHECK(test::config_of_text(config_yaml(config)) == config);
  const auto json = nlohmann::json::parse(config_json(config));
  REQUIRE(json.size() == 1);
  CHECK(test::config_of_text(json["kubeproxy.config.k8s.io"].dump()) == config);
  CHECK(json["kubeproxy.config.k8s.io"]["clientConnection"]["qps"] == 1.5);
}

TEST_CASE("of sections of other modes nothing is shown that has no effect") {
  auto config = full();
  config.iptables.sync_period = 7s;
  config.iptables.min_sync_period = 6s;
  config.nftables = {3, true, 5s, 4s};
  CHECK(config_json(config) == config_json(full()));
  config = full();
  config.mode = "";
  CHECK(config_json(config) == config_json(full()));
}

TEST_CASE("the file has its keys by name, and quotes where text would mean something else") {
  CHECK(config_yaml(test::config_of_text(test::kKubeadmConfig)) ==
        R"(apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 10
  contentType: application/vnd.kubernetes.protobuf
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 5
clusterCIDR: 10.244.0.0/16
configSyncPeriod: 15m0s
conntrack:
  maxPerCore: 32768
  min: 131072
  tcpBeLiberal: false
  tcpCloseWaitTimeout: 1h0m0s
  tcpEstablishedTimeout: 24h0m0s
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ClusterCIDR
enableProfiling: false
healthzBindAddress: 0.0.0.0:10256
hostnameOverride: ""
iptables:
  localhostNodePorts: true
  masqueradeAll: false
  masqueradeBit: 14
  minSyncPeriod: 0s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 30s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 5s
  format: text
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
metricsBindAddress: 127.0.0.1:10249
mode: ipvs
nftables:
  masqueradeAll: false
  masqueradeBit: 14
  minSyncPeriod: 0s
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: -999
portRange: ""
showHiddenMetricsForVersion: ""
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: ""
  rootHnsEndpointName: ""
  sourceVip: ""
)");
  CHECK(config_yaml(full()).find("hostnameOverride: \"true\"\n") != std::string::npos);
}

TEST_CASE("a written configuration is one to start with, and means the same") {
  const test::TempDir folder;
  const auto file = (folder.path() / "effective").string();
  test::write_file(file, std::string(10'000, '#'));
  const auto options =
      test::options_of({"--ipvs-scheduler=mh", "--metrics-bind-address=::", "--hostname-override=n",
                        "--write-config-to", file});
  CHECK(options.write_config_to == file);
  CHECK(write_config_file(file, options.config) == "");
  const auto again = test::options_of({"--config", file});
  CHECK(test::lines_of(again.warnings) == Lines{});
  auto expected = options.config;
  expected.mode = "ipvs";
  CHECK(again.config == expected);
  CHECK(again.config.ipvs.min_sync_period == 1s);
  CHECK(again.node_name == "n");
  CHECK(write_config_file((folder.path() / "none" / "x").string(), options.config) ==
        "cannot be written: No such file or directory");
  CHECK(write_config_file("/dev/full", options.config) ==
        "cannot be written: No space left on device");
}

}  // namespace
}  // namespace ipvsproxier::config
