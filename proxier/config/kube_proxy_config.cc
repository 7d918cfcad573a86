#include "proxier/config/kube_proxy_config.h"

#include <algorithm>

#include "proxier/config/feature_gates.h"
#include "proxier/config/listen_address.h"
#include "proxier/config/text.h"

namespace ipvsproxier::config {

namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;

template <typename T>
void default_if_empty(T& value, const T& fallback) {
  if (value == T{}) value = fallback;
}

}  // namespace

void apply_defaults(KubeProxyConfig& config) {
  const KubeProxyConfig defaults;
  default_if_empty(config.bind_address, defaults.bind_address);
  const auto bind = IpAddress::parse(config.bind_address);
  const bool ipv6 = bind && bind->family() == Family::ipv6;
  default_if_empty(config.healthz_bind_address, std::string(ipv6 ? "::" : "0.0.0.0"));
  default_if_empty(config.metrics_bind_address, std::string(ipv6 ? "::1" : "127.0.0.1"));
  add_port(config.healthz_bind_address, kHealthzPort);
  add_port(config.metrics_bind_address, kMetricsPort);
  default_if_empty(config.client_connection.content_type, defaults.client_connection.content_type);
  default_if_empty(config.client_connection.qps, defaults.client_connection.qps);
  default_if_empty(config.client_connection.burst, defaults.client_connection.burst);
  default_if_empty(config.logging.format, defaults.logging.format);
  default_if_empty(config.logging.flush_frequency, defaults.logging.flush_frequency);
  default_if_empty(config.iptables.sync_period, defaults.iptables.sync_period);
  default_if_empty(config.iptables.min_sync_period, defaults.iptables.min_sync_period);
  default_if_empty(config.ipvs.sync_period, defaults.ipvs.sync_period);
  default_if_empty(config.nftables.sync_period, defaults.nftables.sync_period);
  default_if_empty(config.nftables.min_sync_period, defaults.nftables.min_sync_period);
  default_if_empty(config.detect_local_mode, defaults.detect_local_mode);
  default_if_empty(config.config_sync_period, defaults.config_sync_period);
}

std::vector<std::string> cluster_cidr_list(const KubeProxyConfig& config) {
  if (config.cluster_cidr.empty()) return {};
  return split_list(config.cluster_cidr);
}

std::optional<IpPrefix> cluster_cidr(const KubeProxyConfig& config, Family family) {
  for (const auto& text : cluster_cidr_list(config)) {
    const auto prefix = IpPrefix::parse(text);
    if (prefix && prefix->family() == family) return prefix;
  }
  return std::nullopt;
}

std::vector<IpPrefix> exclude_prefixes(const KubeProxyConfig& config) {
  std::vector<IpPrefix> prefixes;
  for (const auto& text : config.ipvs.exclude_cidrs) {
    if (const auto prefix = IpPrefix::parse(text)) prefixes.push_back(*prefix);
  }
  return prefixes;
}

NodePortAddresses node_port_addresses(const KubeProxyConfig& config) {
  const auto& list = config.node_port_addresses;
  NodePortAddresses addresses;
  addresses.localhost = std::find(list.begin(), list.end(), "localhost") != list.end();
  if (std::find(list.begin(), list.end(), "all") != list.end()) {
    for (const auto family : netlink::kFamilies)
      addresses.prefixes.push_back(IpPrefix::of(IpAddress::any(family), 0));
    return addresses;
  }
  for (const auto& text : list) {
    if (text == "primary") addresses.primary = true;
    if (const auto prefix = IpPrefix::parse(text)) addresses.prefixes.push_back(*prefix);
  }
  return addresses;
}

std::optional<IpAddress> node_ip_override(const KubeProxyConfig& config) {
  const auto address = IpAddress::parse(config.bind_address);
  if (!address || address->is_any()) return std::nullopt;
  return address;
}

bool external_ips_allowed(const KubeProxyConfig& config) {
  return feature_enabled(config.feature_gates, "AllowServiceExternalIPs");
}

}  // namespace ipvsproxier::config
