#include "cmd/settings.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "proxier/config/listen_address.h"

namespace ipvsproxier::cmd {

namespace {

// Whole seconds; less than one is 0, as in kube-proxy.
std::uint32_t seconds(config::Nanoseconds duration) {
  const auto count = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  constexpr auto kMax = std::numeric_limits<std::uint32_t>::max();
  return count > kMax ? kMax : static_cast<std::uint32_t>(count);
}

plan::DetectLocalMode detect_local_mode(const std::string& name) {
  if (name == "NodeCIDR") return plan::DetectLocalMode::node_cidr;
  if (name == "BridgeInterface") return plan::DetectLocalMode::bridge_interface;
  if (name == "InterfaceNamePrefix") return plan::DetectLocalMode::interface_name_prefix;
  return plan::DetectLocalMode::cluster_cidr;
}

sync::HostSettings host_settings(const Options& options,
                                 const std::vector<netlink::Family>& families) {
  const bool has_ipv6 =
      std::find(families.begin(), families.end(), netlink::Family::ipv6) != families.end();
  const config::KubeProxyConfig& config = options.config;
  const config::ConntrackConfig& conntrack = config.conntrack;
  return {
      .ipvs = {.strict_arp = config.ipvs.strict_arp,
               .ipv6_forwarding = options.ipv6_forwarding && has_ipv6,
               .estimators = options.ipvs_estimators},
      .conntrack = {.max_per_core = static_cast<std::uint32_t>(conntrack.max_per_core),
                    .min = static_cast<std::uint32_t>(conntrack.min),
                    .tcp_established_timeout = seconds(conntrack.tcp_established_timeout),
                    .tcp_close_wait_timeout = seconds(conntrack.tcp_close_wait_timeout),
                    .udp_timeout = seconds(conntrack.udp_timeout),
                    .udp_stream_timeout = seconds(conntrack.udp_stream_timeout),
                    .tcp_be_liberal = conntrack.tcp_be_liberal},
      .timeouts = {.tcp = seconds(config.ipvs.tcp_timeout),
                   .tcp_fin = seconds(config.ipvs.tcp_fin_timeout),
                   .udp = seconds(config.ipvs.udp_timeout)},
  };
}

// Load balancers may send health checks to their own addresses. 0: nobody answers there.
std::uint16_t open_healthz_port(const Options& options) {
  const auto listens = config::parse_listen_address(options.config.healthz_bind_address);
  const bool opens = options.differences.open_health_check_ports;
  return opens && listens && listens->address.is_any() ? listens->port : 0;
}

}  // namespace

plan::PlannerOptions planner_options(const Options& options,
                                     const std::vector<netlink::Family>& families) {
  const config::KubeProxyConfig& config = options.config;
  plan::PlannerOptions result;
  result.families = families;
  if (!config.ipvs.scheduler.empty()) result.scheduler = config.ipvs.scheduler;
  result.scheduler_flags = options.scheduler_flags;
  result.max_connections = options.max_connections;
  result.masquerade_mark = std::uint32_t{1} << config.iptables.masquerade_bit;
  result.masquerade_all = config.iptables.masquerade_all;
  result.detect_local = detect_local_mode(config.detect_local_mode);
  for (auto family : netlink::kFamilies)
    if (auto cidr = config::cluster_cidr(config, family)) result.cluster_cidrs.push_back(*cidr);
  result.bridge_interface = config.detect_local.bridge_interface;
  result.interface_prefix = config.detect_local.interface_name_prefix;
  const auto node_ports = config::node_port_addresses(config);
  result.node_port_addresses = node_ports.prefixes;
  result.node_port_primary = node_ports.primary;
  result.node_port_localhost = node_ports.localhost;
  result.exclude_cidrs = config::exclude_prefixes(config);
  result.allow_external_ips = options.external_ips.value_or(config::external_ips_allowed(config));
  result.drain_deleted_services = options.drain_deleted_services;
  result.bind_by_routes = options.bind_by_routes;
  result.in_cluster_ranges = options.in_cluster_ranges;
  result.differences = options.differences;
  result.healthz_port = open_healthz_port(options);
  if (config.conntrack.tcp_be_liberal) result.differences.drop_invalid = false;
  return result;
}

sync::ReconcilerSettings reconciler_settings(const Options& options,
                                             const std::vector<netlink::Family>& families,
                                             unsigned cpus) {
  using std::chrono::milliseconds;
  sync::ReconcilerSettings settings;
  settings.node_name = options.node_name;
  settings.bind_address = config::node_ip_override(options.config);
  settings.options = planner_options(options, families);
  settings.config_origin = options.config_file;
  settings.sync_period = std::chrono::ceil<milliseconds>(options.config.ipvs.sync_period);
  if (options.drain_timeout)
    settings.drain.timeout = std::chrono::ceil<milliseconds>(*options.drain_timeout);
  settings.early_flows = !options.compat;
  settings.service_metrics = options.service_metrics;
  settings.host.emplace();
  settings.host->settings = host_settings(options, families);
  settings.host->cpus = cpus;
  settings.host->reserve_node_ports = options.reserve_node_ports;
  return settings;
}

}  // namespace ipvsproxier::cmd
