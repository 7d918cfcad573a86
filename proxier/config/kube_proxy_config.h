#pragma once

// KubeProxyConfig: all fields of kubeproxy.config.k8s.io/v1alpha1 KubeProxyConfiguration, with the
// file's names in snake_case and kube-proxy's defaults, and pure functions that interpret them. A
// field without a comment has the same effect as in kube-proxy. A value.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "netlink/ip_address.h"

namespace ipvsproxier::config {

using Nanoseconds = std::chrono::nanoseconds;

// The default ports of healthzBindAddress and metricsBindAddress.
inline constexpr std::uint16_t kHealthzPort = 10256;
inline constexpr std::uint16_t kMetricsPort = 10249;

struct ClientConnectionConfig {
  std::string kubeconfig;
  std::string accept_content_types;
  std::string content_type = "application/vnd.kubernetes.protobuf";
  double qps = 5;  // negative: no limit
  std::int32_t burst = 10;

  friend bool operator==(const ClientConnectionConfig&, const ClientConnectionConfig&) = default;
};

struct VModule {
  std::string file_pattern;
  std::uint32_t verbosity = 0;

  friend bool operator==(const VModule&, const VModule&) = default;
};

// Options of one log format.
struct LogOutputConfig {
  bool split_stream = false;
  std::string info_buffer_size = "0";  // a Kubernetes quantity: "64Ki"

  friend bool operator==(const LogOutputConfig&, const LogOutputConfig&) = default;
};

struct LoggingConfig {
  std::string format = "text";
  Nanoseconds flush_frequency = std::chrono::seconds(5);
  std::uint32_t verbosity = 0;
  std::vector<VModule> vmodule;
  LogOutputConfig text;
  LogOutputConfig json;

  friend bool operator==(const LoggingConfig&, const LoggingConfig&) = default;
};

struct IptablesConfig {
  std::int32_t masquerade_bit = 14;
  bool masquerade_all = false;
  bool localhost_node_ports = true;                       // no effect with IPVS
  Nanoseconds sync_period = std::chrono::seconds(30);     // no effect with IPVS
  Nanoseconds min_sync_period = std::chrono::seconds(1);  // no effect with IPVS

  friend bool operator==(const IptablesConfig&, const IptablesConfig&) = default;
};

struct IpvsConfig {
  Nanoseconds sync_period = std::chrono::seconds(30);
  Nanoseconds min_sync_period{0};
  std::string scheduler;  // "" means rr
  std::vector<std::string> exclude_cidrs;
  bool strict_arp = false;
  Nanoseconds tcp_timeout{0};  // 0: keep the kernel's value; also for the next two
  Nanoseconds tcp_fin_timeout{0};
  Nanoseconds udp_timeout{0};

  friend bool operator==(const IpvsConfig&, const IpvsConfig&) = default;
};

// Types are checked; no effect here.
struct NftablesConfig {
  std::int32_t masquerade_bit = 14;
  bool masquerade_all = false;
  Nanoseconds sync_period = std::chrono::seconds(30);
  Nanoseconds min_sync_period = std::chrono::seconds(1);

  friend bool operator==(const NftablesConfig&, const NftablesConfig&) = default;
};

// Types are checked; no effect here.
struct WinkernelConfig {
  std::string network_name;
  std::string source_vip;
  bool enable_dsr = false;
  std::string root_hns_endpoint_name;
  bool forward_health_check_vip = false;

  friend bool operator==(const WinkernelConfig&, const WinkernelConfig&) = default;
};

struct DetectLocalConfig {
  std::string bridge_interface;
  std::string interface_name_prefix;

  friend bool operator==(const DetectLocalConfig&, const DetectLocalConfig&) = default;
};

struct ConntrackConfig {
  std::int32_t max_per_core = 32768;
  std::int32_t min = 131072;
  Nanoseconds tcp_established_timeout = std::chrono::hours(24);  // 0: leave alone
  Nanoseconds tcp_close_wait_timeout = std::chrono::hours(1);    // 0: leave alone
  bool tcp_be_liberal = false;
  Nanoseconds udp_timeout{0};
  Nanoseconds udp_stream_timeout{0};

  friend bool operator==(const ConntrackConfig&, const ConntrackConfig&) = default;
};

struct KubeProxyConfig {
  std::map<std::string, bool> feature_gates;
  ClientConnectionConfig client_connection;
  LoggingConfig logging;
  std::string hostname_override;
  std::string bind_address = "0.0.0.0";
  std::string healthz_bind_address = "0.0.0.0:10256";
  std::string metrics_bind_address = "127.0.0.1:10249";
  bool bind_address_hard_fail = false;
  bool enable_profiling = false;
  std::string show_hidden_metrics_for_version;
  std::string mode;  // "" means ipvs
  IptablesConfig iptables;
  IpvsConfig ipvs;
  NftablesConfig nftables;
  WinkernelConfig winkernel;
  std::string detect_local_mode = "ClusterCIDR";
  DetectLocalConfig detect_local;
  std::string cluster_cidr;                      // comma-separated, at most one of each family
  std::vector<std::string> node_port_addresses;  // CIDRs, "primary", "localhost", "all"
  std::int32_t oom_score_adj = -999;
  ConntrackConfig conntrack;
  Nanoseconds config_sync_period = std::chrono::minutes(15);
  std::string port_range;               // no effect
  bool windows_run_as_service = false;  // no effect

  friend bool operator==(const KubeProxyConfig&, const KubeProxyConfig&) = default;
};

// Sets fields that depend on other fields, and those whose empty or zero value means a default.
void apply_defaults(KubeProxyConfig& config);

// The elements of clusterCIDR, trimmed; none if it is empty.
std::vector<std::string> cluster_cidr_list(const KubeProxyConfig& config);

// The following functions expect a validated configuration and skip texts that do not parse.

// The first prefix of the family, host bits clear.
std::optional<netlink::IpPrefix> cluster_cidr(const KubeProxyConfig& config,
                                              netlink::Family family);
std::vector<netlink::IpPrefix> exclude_prefixes(const KubeProxyConfig& config);

struct NodePortAddresses {
  bool primary = false;    // the node's own IPs as well
  bool localhost = false;  // 127.0.0.1 and ::1 as well
  // Of both families; if empty, and neither primary nor localhost: all addresses.
  std::vector<netlink::IpPrefix> prefixes;

  friend bool operator==(const NodePortAddresses&, const NodePortAddresses&) = default;
};
NodePortAddresses node_port_addresses(const KubeProxyConfig& config);

// bindAddress unless it is unspecified: the node IP of its family, which is the primary one.
std::optional<netlink::IpAddress> node_ip_override(const KubeProxyConfig& config);

// By feature gate AllowServiceExternalIPs.
bool external_ips_allowed(const KubeProxyConfig& config);

}  // namespace ipvsproxier::config
