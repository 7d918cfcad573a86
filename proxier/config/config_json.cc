#include "proxier/config/config_json.h"

#include <cerrno>
#include <cmath>
#include <fstream>
#include <ostream>
#include <system_error>

#include <nlohmann/json.hpp>

#include "proxier/api/json_text.h"
#include "proxier/api/yaml_writer.h"
#include "proxier/config/go_duration.h"

namespace ipvsproxier::config {

namespace {

// Keeps members in the order of kube-proxy's declarations.
using OrderedJson = nlohmann::ordered_json;

std::string show(Nanoseconds duration) {
  return format_go_duration(duration);
}

// Go writes 5, not 5.0.
OrderedJson number(double value) {
  const double whole = std::trunc(value);
  if (whole == value && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

// An empty list means that none was given.
OrderedJson list(const std::vector<std::string>& elements) {
  return elements.empty() ? OrderedJson(nullptr) : OrderedJson(elements);
}

OrderedJson log_output(const LogOutputConfig& output) {
  OrderedJson json = OrderedJson::object();
  if (output.split_stream) json["splitStream"] = true;
  json["infoBufferSize"] = output.info_buffer_size;
  return json;
}

OrderedJson logging(const LoggingConfig& logging) {
  OrderedJson json = {{"format", logging.format},
                      {"flushFrequency", show(logging.flush_frequency)},
                      {"verbosity", logging.verbosity}};
  for (const auto& module : logging.vmodule)
    json["vmodule"].push_back(
        OrderedJson{{"filePattern", module.file_pattern}, {"verbosity", module.verbosity}});
  json["options"] = {{"text", log_output(logging.text)}, {"json", log_output(logging.json)}};
  return json;
}

OrderedJson client_connection(const ClientConnectionConfig& client) {
  return {{"kubeconfig", client.kubeconfig},
          {"acceptContentTypes", client.accept_content_types},
          {"contentType", client.content_type},
          {"qps", number(client.qps)},
          {"burst", client.burst}};
}

// Without the periods, which belong to modes that are not selected.
OrderedJson iptables(const IptablesConfig& iptables) {
  return {{"masqueradeBit", iptables.masquerade_bit},
          {"masqueradeAll", iptables.masquerade_all},
          {"localhostNodePorts", iptables.localhost_node_ports},
          {"syncPeriod", "0s"},
          {"minSyncPeriod", "0s"}};
}

OrderedJson nftables(const NftablesConfig& nftables) {
  return {{"masqueradeBit", nftables.masquerade_bit},
          {"masqueradeAll", false},
          {"syncPeriod", "0s"},
          {"minSyncPeriod", "0s"}};
}

OrderedJson ipvs(const IpvsConfig& ipvs) {
  return {{"syncPeriod", show(ipvs.sync_period)},
          {"minSyncPeriod", show(ipvs.min_sync_period)},
          {"scheduler", ipvs.scheduler},
          {"excludeCIDRs", list(ipvs.exclude_cidrs)},
          {"strictARP", ipvs.strict_arp},
          {"tcpTimeout", show(ipvs.tcp_timeout)},
          {"tcpFinTimeout", show(ipvs.tcp_fin_timeout)},
          {"udpTimeout", show(ipvs.udp_timeout)}};
}

OrderedJson winkernel(const WinkernelConfig& winkernel) {
  return {{"networkName", winkernel.network_name},
          {"sourceVip", winkernel.source_vip},
          {"enableDSR", winkernel.enable_dsr},
          {"rootHnsEndpointName", winkernel.root_hns_endpoint_name},
          {"forwardHealthCheckVip", winkernel.forward_health_check_vip}};
}

OrderedJson conntrack(const ConntrackConfig& conntrack) {
  return {{"maxPerCore", conntrack.max_per_core},
          {"min", conntrack.min},
          {"tcpEstablishedTimeout", show(conntrack.tcp_established_timeout)},
          {"tcpCloseWaitTimeout", show(conntrack.tcp_close_wait_timeout)},
          {"tcpBeLiberal", conntrack.tcp_be_liberal},
          {"udpTimeout", show(conntrack.udp_timeout)},
          {"udpStreamTimeout", show(conntrack.udp_stream_timeout)}};
}

OrderedJson to_json(const KubeProxyConfig& config) {
  OrderedJson json = {{"kind", "KubeProxyConfiguration"},
                      {"apiVersion", "kubeproxy.config.k8s.io/v1alpha1"}};
  if (!config.feature_gates.empty()) json["featureGates"] = config.feature_gates;
  json["clientConnection"] = client_connection(config.client_connection);
  json["logging"] = logging(config.logging);
  json["hostnameOverride"] = config.hostname_override;
  json["bindAddress"] = config.bind_address;
  json["healthzBindAddress"] = config.healthz_bind_address;
  json["metricsBindAddress"] = config.metrics_bind_address;
  json["bindAddressHardFail"] = config.bind_address_hard_fail;
  json["enableProfiling"] = config.enable_profiling;
  json["showHiddenMetricsForVersion"] = config.show_hidden_metrics_for_version;
  json["mode"] = "ipvs";  // also for "", which has another meaning in kube-proxy
  json["iptables"] = iptables(config.iptables);
  json["ipvs"] = ipvs(config.ipvs);
  json["nftables"] = nftables(config.nftables);
  json["winkernel"] = winkernel(config.winkernel);
  json["detectLocalMode"] = config.detect_local_mode;
  json["detectLocal"] = {{"bridgeInterface", config.detect_local.bridge_interface},
                         {"interfaceNamePrefix", config.detect_local.interface_name_prefix}};
  json["clusterCIDR"] = config.cluster_cidr;
  json["nodePortAddresses"] = list(config.node_port_addresses);
  json["oomScoreAdj"] = config.oom_score_adj;
  json["conntrack"] = conntrack(config.conntrack);
  json["configSyncPeriod"] = show(config.config_sync_period);
  json["portRange"] = config.port_range;
  if (config.windows_run_as_service) json["windowsRunAsService"] = true;
  return json;
}

}  // namespace

std::string config_json(const KubeProxyConfig& config) {
  return api::to_json_text(OrderedJson{{"kubeproxy.config.k8s.io", to_json(config)}});
}

std::string config_yaml(const KubeProxyConfig& config) {
  return api::write_yaml(nlohmann::json::parse(api::to_json_text(to_json(config)), nullptr, false));
}

std::string write_config_file(const std::string& path, const KubeProxyConfig& config) {
  const auto text = config_yaml(config);
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (file) file << text << std::flush;
  const int cause = errno;
  if (file) return "";
  return "cannot be written: " + std::generic_category().message(cause);
}

}  // namespace ipvsproxier::config
