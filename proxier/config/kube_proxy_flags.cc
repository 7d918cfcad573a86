#include "proxier/config/kube_proxy_flags.h"

#include <array>

#include "proxier/config/listen_address.h"
#include "proxier/config/text.h"

namespace ipvsproxier::config {

namespace {

using netlink::IpAddress;
using K = KubeProxyConfig;

constexpr auto kConfig = &FlagConfig::config;

// A `set` function for a member of the configuration.
template <auto... Path>
constexpr auto to_config = &set_member<FlagConfig, kConfig, Path...>;

// Accepts a value without effect, after checking its type.
template <typename Value>
std::string drop(std::string_view text, FlagConfig&) {
  Value value{};
  return set_value(text, value);
}

std::string set_bind_address(std::string_view text, FlagConfig& flags) {
  if (text.empty()) return "";
  if (!IpAddress::parse(text)) return "must be an IP address";
  flags.config.bind_address = text;
  return "";
}

// kube-proxy's parser ignores an empty text.
template <auto Address>
std::string set_listen_address(std::string_view text, FlagConfig& flags) {
  if (text.empty()) return "";
  if (!IpAddress::parse(text) && !parse_listen_address(text))
    return "must be an IP address or IP:port";
  flags.config.*Address = text;
  return "";
}

template <auto... Path>
std::string set_quantity(std::string_view text, FlagConfig& flags) {
  if (!is_quantity(text)) return "must be a quantity such as 0 or 64Ki";
  return set_member<FlagConfig, kConfig, Path...>(text, flags);
}

constexpr auto kConfigFlags = std::to_array<ConfigFlag>({
    // The API server
    {"kubeconfig", "FILE", "How to reach the API server; none: as a pod of the cluster",
     to_config<&K::client_connection, &ClientConnectionConfig::kubeconfig>},
    {"kube-api-content-type", "TYPE",
     "Accepted: objects are read as JSON (default application/vnd.kubernetes.protobuf)",
     to_config<&K::client_connection, &ClientConnectionConfig::content_type>},
    {"kube-api-qps", "N", "Requests to the API server per second (default 5)",
     to_config<&K::client_connection, &ClientConnectionConfig::qps>},
    {"kube-api-burst", "N", "Requests to the API server at once (default 10)",
     to_config<&K::client_connection, &ClientConnectionConfig::burst>},
    {"config-sync-period", "DURATION", "Accepted, no effect: watches need no resync (default 15m)",
     to_config<&K::config_sync_period>},
    // This node and its servers
    {"bind-address", "IP",
     "Instead of the Node's own address; nothing listens there (default 0.0.0.0)",
     set_bind_address},
    {"healthz-bind-address", "IP[:PORT]", "Where health is told (default 0.0.0.0:10256)",
     set_listen_address<&K::healthz_bind_address>},
    {"healthz-port", "PORT",
     "For a --healthz-bind-address without one; 0: health is not told (default 10256)",
     set_member<FlagConfig, &FlagConfig::healthz_port>},
    {"metrics-bind-address", "IP[:PORT]", "Where metrics are told (default 127.0.0.1:10249)",
     set_listen_address<&K::metrics_bind_address>},
    {"metrics-port", "PORT", "For a --metrics-bind-address without one (default 10249)",
     set_member<FlagConfig, &FlagConfig::metrics_port>},
    {"bind-address-hard-fail", "", "End when a server cannot listen, instead of trying again",
     to_config<&K::bind_address_hard_fail>},
    {"profiling", "", "Accepted, no effect", to_config<&K::enable_profiling>},
    {"show-hidden-metrics-for-version", "VERSION", "Accepted, no effect",
     to_config<&K::show_hidden_metrics_for_version>},
    {"oom-score-adj", "N", "From -1000 to 1000 (default -999)", to_config<&K::oom_score_adj>},
    // What is proxied, and how
    {"proxy-mode", "MODE", "ipvs, or nothing", to_config<&K::mode>},
    {"feature-gates", "NAME=BOOL,...", "Feature gates of Kubernetes", to_config<&K::feature_gates>},
    {"ipvs-scheduler", "NAME", "Of virtual services (default rr)",
     to_config<&K::ipvs, &IpvsConfig::scheduler>},
    {"ipvs-sync-period", "DURATION", "The kernel is read whole so often (default 30s)",
     to_config<&K::ipvs, &IpvsConfig::sync_period>},
    {"ipvs-min-sync-period", "DURATION", "Between two syncs (default 1s)",
     to_config<&K::ipvs, &IpvsConfig::min_sync_period>},
    {"ipvs-exclude-cidrs", "CIDR,...", "Virtual services there are left alone",
     to_config<&K::ipvs, &IpvsConfig::exclude_cidrs>},
    {"ipvs-strict-arp", "", "Do not answer ARP for service addresses",
     to_config<&K::ipvs, &IpvsConfig::strict_arp>},
    {"ipvs-tcp-timeout", "DURATION", "Of idle TCP connections; 0s: left alone",
     to_config<&K::ipvs, &IpvsConfig::tcp_timeout>},
    {"ipvs-tcpfin-timeout", "DURATION", "Of TCP connections after a FIN; 0s: left alone",
     to_config<&K::ipvs, &IpvsConfig::tcp_fin_timeout>},
    {"ipvs-udp-timeout", "DURATION", "Of UDP flows; 0s: left alone",
     to_config<&K::ipvs, &IpvsConfig::udp_timeout>},
    {"iptables-masquerade-bit", "BIT", "Of the mark of what is masqueraded (default 14)",
     to_config<&K::iptables, &IptablesConfig::masquerade_bit>},
    {"masquerade-all", "", "Masquerade all traffic to cluster IPs",
     to_config<&K::iptables, &IptablesConfig::masquerade_all>},
    {"iptables-localhost-nodeports", "", "Accepted, no effect with ipvs (default true)",
     to_config<&K::iptables, &IptablesConfig::localhost_node_ports>},
    {"iptables-sync-period", "DURATION", "Accepted, no effect with ipvs (default 30s)",
     drop<Nanoseconds>},
    {"iptables-min-sync-period", "DURATION", "Accepted, no effect with ipvs (default 1s)",
     drop<Nanoseconds>},
    {"detect-local-mode", "MODE",
     "ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix (default ClusterCIDR)",
     to_config<&K::detect_local_mode>},
    {"pod-bridge-interface", "NAME", "For BridgeInterface",
     to_config<&K::detect_local, &DetectLocalConfig::bridge_interface>},
    {"pod-interface-name-prefix", "PREFIX", "For InterfaceNamePrefix",
     to_config<&K::detect_local, &DetectLocalConfig::interface_name_prefix>},
    {"cluster-cidr", "CIDR[,CIDR]", "Of pods, one a family; for ClusterCIDR",
     to_config<&K::cluster_cidr>},
    {"nodeport-addresses", "CIDR,...",
     "Where node ports are: ranges; primary (the Node's own addresses); all",
     to_config<&K::node_port_addresses>},
    // Conntrack
    {"conntrack-max-per-core", "N", "Connections for each CPU; 0: left alone (default 32768)",
     to_config<&K::conntrack, &ConntrackConfig::max_per_core>},
    {"conntrack-min", "N", "Connections at least (default 131072)",
     to_config<&K::conntrack, &ConntrackConfig::min>},
    {"conntrack-tcp-timeout-established", "DURATION", "0s: left alone (default 24h)",
     to_config<&K::conntrack, &ConntrackConfig::tcp_established_timeout>},
    {"conntrack-tcp-timeout-close-wait", "DURATION", "0s: left alone (default 1h)",
     to_config<&K::conntrack, &ConntrackConfig::tcp_close_wait_timeout>},
    {"conntrack-tcp-be-liberal", "", "Do not mark packets outside of the window as invalid",
     to_config<&K::conntrack, &ConntrackConfig::tcp_be_liberal>},
    {"conntrack-udp-timeout", "DURATION", "0s: left alone",
     to_config<&K::conntrack, &ConntrackConfig::udp_timeout>},
    {"conntrack-udp-timeout-stream", "DURATION", "0s: left alone",
     to_config<&K::conntrack, &ConntrackConfig::udp_stream_timeout>},
    // Flags of libraries that kube-proxy uses
    {"boot-id-file", "FILE,...", "Accepted, no effect", drop<std::string>},
    {"machine-id-file", "FILE,...", "Accepted, no effect", drop<std::string>},
});

constexpr auto kLoggingFlags = std::to_array<ConfigFlag>({
    {"v", "N", "Verbosity: from 4 on every operation is told",
     to_config<&K::logging, &LoggingConfig::verbosity>},
    {"vmodule", "PATTERN=N,...", "Accepted, no effect: the patterns name kube-proxy's sources",
     set_member<FlagConfig, &FlagConfig::vmodule>},
    {"logging-format", "FORMAT", "text or json (default text)",
     to_config<&K::logging, &LoggingConfig::format>},
    {"log-flush-frequency", "DURATION",
     "Accepted, no effect: lines are written at once (default 5s)",
     to_config<&K::logging, &LoggingConfig::flush_frequency>},
    {"log-text-split-stream", "", "Accepted, no effect; needs feature gate LoggingAlphaOptions",
     to_config<&K::logging, &LoggingConfig::text, &LogOutputConfig::split_stream>},
    {"log-text-info-buffer-size", "QUANTITY",
     "Accepted, no effect; needs feature gate LoggingAlphaOptions",
     set_quantity<&K::logging, &LoggingConfig::text, &LogOutputConfig::info_buffer_size>},
    {"log-json-split-stream", "", "Accepted, no effect; needs feature gate LoggingAlphaOptions",
     to_config<&K::logging, &LoggingConfig::json, &LogOutputConfig::split_stream>},
    {"log-json-info-buffer-size", "QUANTITY",
     "Accepted, no effect; needs feature gate LoggingAlphaOptions",
     set_quantity<&K::logging, &LoggingConfig::json, &LogOutputConfig::info_buffer_size>},
});

// Combines an address with the port flag that belongs to it, as kube-proxy does.
void settle(std::string& address, std::int32_t port) {
  if (port == 0) {
    address.clear();
  } else if (port > 0 && port <= UINT16_MAX) {
    add_port(address, static_cast<std::uint16_t>(port));
  }
}

}  // namespace

std::span<const ConfigFlag> config_flags() {
  return kConfigFlags;
}

std::span<const ConfigFlag> logging_flags() {
  return kLoggingFlags;
}

KubeProxyConfig take_config(FlagConfig flags) {
  KubeProxyConfig config = std::move(flags.config);
  settle(config.healthz_bind_address, flags.healthz_port);
  settle(config.metrics_bind_address, flags.metrics_port);
  if (config.detect_local_mode.empty())
    config.detect_local_mode = KubeProxyConfig{}.detect_local_mode;
  config.logging.vmodule.insert(config.logging.vmodule.begin(), flags.vmodule.begin(),
                                flags.vmodule.end());
  return config;
}

}  // namespace ipvsproxier::config
