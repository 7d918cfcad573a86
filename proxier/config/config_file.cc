#include "proxier/config/config_file.h"

#include <utility>

#include <fmt/format.h>

#include "proxier/api/documents.h"
#include "proxier/api/json_tree.h"
#include "proxier/config/config_section.h"
#include "proxier/config/feature_gates.h"

namespace ipvsproxier::config {

namespace {

using api::Severity;

constexpr std::string_view kApiVersion = "kubeproxy.config.k8s.io/v1alpha1";
constexpr std::string_view kKind = "KubeProxyConfiguration";

void read_client_connection(ConfigSection& section, ClientConnectionConfig& config) {
  section.read("kubeconfig", config.kubeconfig);
  section.read("qps", config.qps);
  section.read("burst", config.burst);
  section.without_effect();
  section.read("acceptContentTypes", config.accept_content_types);
  section.read("contentType", config.content_type);
}

void read_log_output(ConfigSection& section, LogOutputConfig& config) {
  section.read("splitStream", config.split_stream);
  section.read_quantity("infoBufferSize", config.info_buffer_size);
}

// Reads the member object `key` with `read`, and reports its unknown fields.
template <typename Config, typename Read>
void read_section(ConfigSection& parent, std::string_view key, Config& config, Read read) {
  auto section = parent.section(key);
  if (!section) return;
  read(*section, config);
  section->report_unknown();
}

void read_log_options(ConfigSection& section, LoggingConfig& config) {
  read_section(section, "text", config.text, read_log_output);
  read_section(section, "json", config.json, read_log_output);
}

void read_logging(ConfigSection& section, LoggingConfig& config) {
  section.read("format", config.format);
  section.read("verbosity", config.verbosity);
  for (auto& element : section.sections("vmodule")) {
    VModule module;
    element.read("filePattern", module.file_pattern);
    element.read("verbosity", module.verbosity);
    element.report_unknown();
    config.vmodule.push_back(std::move(module));
  }
  section.without_effect();
  section.read_with_nanoseconds("flushFrequency", config.flush_frequency);
  read_section(section, "options", config, read_log_options);
}

void read_iptables(ConfigSection& section, IptablesConfig& config) {
  section.read("masqueradeBit", config.masquerade_bit);
  section.read("masqueradeAll", config.masquerade_all);
  section.without_effect();
  section.read("localhostNodePorts", config.localhost_node_ports);
  section.read("syncPeriod", config.sync_period);
  section.read("minSyncPeriod", config.min_sync_period);
}

void read_ipvs(ConfigSection& section, IpvsConfig& config) {
  section.read("syncPeriod", config.sync_period);
  section.read("minSyncPeriod", config.min_sync_period);
  section.read("scheduler", config.scheduler);
  section.read("excludeCIDRs", config.exclude_cidrs);
  section.read("strictARP", config.strict_arp);
  section.read("tcpTimeout", config.tcp_timeout);
  section.read("tcpFinTimeout", config.tcp_fin_timeout);
  section.read("udpTimeout", config.udp_timeout);
}

void read_nftables(ConfigSection& section, NftablesConfig& config) {
  section.without_effect();
  section.read("masqueradeBit", config.masquerade_bit);
  section.read("masqueradeAll", config.masquerade_all);
  section.read("syncPeriod", config.sync_period);
  section.read("minSyncPeriod", config.min_sync_period);
}

void read_winkernel(ConfigSection& section, WinkernelConfig& config) {
  section.without_effect();
  section.read("networkName", config.network_name);
  section.read("sourceVip", config.source_vip);
  section.read("enableDSR", config.enable_dsr);
  section.read("rootHnsEndpointName", config.root_hns_endpoint_name);
  section.read("forwardHealthCheckVip", config.forward_health_check_vip);
}

void read_detect_local(ConfigSection& section, DetectLocalConfig& config) {
  section.read("bridgeInterface", config.bridge_interface);
  section.read("interfaceNamePrefix", config.interface_name_prefix);
}

void read_conntrack(ConfigSection& section, ConntrackConfig& config) {
  section.read("maxPerCore", config.max_per_core);
  section.read("min", config.min);
  section.read("tcpEstablishedTimeout", config.tcp_established_timeout);
  section.read("tcpCloseWaitTimeout", config.tcp_close_wait_timeout);
  section.read("tcpBeLiberal", config.tcp_be_liberal);
  section.read("udpTimeout", config.udp_timeout);
  section.read("udpStreamTimeout", config.udp_stream_timeout);
}

void read_top(ConfigSection& top, KubeProxyConfig& config) {
  top.read("featureGates", config.feature_gates);
  read_section(top, "clientConnection", config.client_connection, read_client_connection);
  read_section(top, "logging", config.logging, read_logging);
  top.read("hostnameOverride", config.hostname_override);
  top.read("bindAddress", config.bind_address);
  top.read("healthzBindAddress", config.healthz_bind_address);
  top.read("metricsBindAddress", config.metrics_bind_address);
  top.read("bindAddressHardFail", config.bind_address_hard_fail);
  top.read("mode", config.mode);
  read_section(top, "iptables", config.iptables, read_iptables);
  read_section(top, "ipvs", config.ipvs, read_ipvs);
  top.read("detectLocalMode", config.detect_local_mode);
  read_section(top, "detectLocal", config.detect_local, read_detect_local);
  top.read("clusterCIDR", config.cluster_cidr);
  top.read("nodePortAddresses", config.node_port_addresses);
  top.read("oomScoreAdj", config.oom_score_adj);
  read_section(top, "conntrack", config.conntrack, read_conntrack);
  top.without_effect();
  read_section(top, "nftables", config.nftables, read_nftables);
  read_section(top, "winkernel", config.winkernel, read_winkernel);
  top.read("enableProfiling", config.enable_profiling);
  top.read("showHiddenMetricsForVersion", config.show_hidden_metrics_for_version);
  top.read("configSyncPeriod", config.config_sync_period);
  top.read("portRange", config.port_range);
  top.read("windowsRunAsService", config.windows_run_as_service);
}

// Whether apiVersion and kind are right.
bool check_type(ConfigSection& top) {
  std::string api_version;
  std::string kind;
  top.read("apiVersion", api_version);
  top.read("kind", kind);
  const auto check = [&top](std::string_view key, std::string_view got, std::string_view wanted) {
    if (got == wanted) return true;
    const std::string shown = got.empty() ? "missing" : api::show(std::string(got));
    top.problem(Severity::error, key, fmt::format("must be {}, not {}", wanted, shown));
    return false;
  };
  const bool version_fits = check("apiVersion", api_version, kApiVersion);
  const bool kind_fits = check("kind", kind, kKind);
  return version_fits && kind_fits;
}

}  // namespace

KubeProxyConfig read_config_text(std::string_view text, const std::string& origin,
                                 api::Problems& problems) {
  KubeProxyConfig config;
  const auto refuse = [&](std::string message) {
    problems.push_back(api::Problem{.origin = origin, .message = std::move(message)});
    return KubeProxyConfig{};
  };
  auto parsed = api::parse_documents(text, origin);
  if (!parsed.problems.empty()) {
    problems.insert(problems.end(), parsed.problems.begin(), parsed.problems.end());
    return config;
  }
  if (parsed.documents.size() != 1)
    return refuse(
        fmt::format("must hold one {}, not {} documents", kKind, parsed.documents.size()));
  const auto& document = parsed.documents[0];
  const auto tree = api::to_tree(document.json.root());
  if (!tree.is_object()) return refuse(fmt::format("must be an object, not {}", api::show(tree)));
  ConfigSection top(tree, "", origin, problems);
  for (const auto& path : document.duplicates)
    top.problem(Severity::warning, path, "is given more than once; the last one counts");
  if (!check_type(top)) return config;
  // The defaults of both depend on the family of bindAddress.
  config.healthz_bind_address.clear();
  config.metrics_bind_address.clear();
  read_top(top, config);
  top.report_unknown();
  auto gates = check_feature_gates(config.feature_gates, origin);
  problems.insert(problems.end(), gates.begin(), gates.end());
  apply_defaults(config);
  return config;
}

}  // namespace ipvsproxier::config
