#include "proxier/config/config_warnings.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "proxier/config/listen_address.h"

namespace ipvsproxier::config {

namespace {

using netlink::Family;
using netlink::IpPrefix;

std::string_view name_of(Family family) {
  return family == Family::ipv4 ? "IPv4" : "IPv6";
}

Family other(Family family) {
  return family == Family::ipv4 ? Family::ipv6 : Family::ipv4;
}

bool has(const std::vector<IpPrefix>& list, Family family) {
  return std::any_of(list.begin(), list.end(),
                     [family](const auto& prefix) { return prefix.family() == family; });
}

std::vector<IpPrefix> cluster_cidrs(const KubeProxyConfig& config) {
  std::vector<IpPrefix> list;
  for (const auto family : netlink::kFamilies)
    if (const auto cidr = cluster_cidr(config, family)) list.push_back(*cidr);
  return list;
}

class Warnings {
 public:
  Warnings(const KubeProxyConfig& config, const NodeFamilies& node, const std::string& origin)
      : config_(config),
        node_(node),
        origin_(origin),
        wrong_(other(node.primary)),
        node_ports_(node_port_addresses(config)) {}

  api::Problems take() {
    if (node_.primary_missing) {
      add(api::Severity::error, node_ip_override(config_) ? "bindAddress" : "addresses of the Node",
          fmt::format("the first family is {0}, but this host cannot proxy {0}",
                      name_of(node_.primary)));
      return std::move(problems_);
    }
    check_node_ports();
    const bool fatal_clusters = config_.detect_local_mode == "ClusterCIDR" && !node_.dual_stack;
    check_family("clusterCIDR", cluster_cidrs(config_), fatal_clusters);
    check_family("spec.podCIDRs of the Node", node_.pod_cidrs,
                 config_.detect_local_mode == "NodeCIDR");
    if (!node_.dual_stack) {
      check_family("ipvs.excludeCIDRs", exclude_prefixes(config_), false);
      check_address("healthzBindAddress", config_.healthz_bind_address);
      check_address("metricsBindAddress", config_.metrics_bind_address);
    }
    return std::move(problems_);
  }

 private:
  void add(api::Severity severity, std::string field, std::string message) {
    problems_.push_back(api::Problem{.severity = severity,
                                     .origin = origin_,
                                     .field = std::move(field),
                                     .message = std::move(message)});
  }
  void warn(std::string field, std::string message) {
    add(api::Severity::warning, std::move(field), std::move(message));
  }

  std::string kind_of_node() const {
    return fmt::format("the node{} {}{}", node_.dual_stack ? "'s first family is" : " has",
                       name_of(node_.primary), node_.dual_stack ? "" : " only");
  }

  // Whether the configuration has values of both families.
  bool looks_dual_stack() const {
    for (const auto& list : {cluster_cidrs(config_), node_.pod_cidrs, exclude_prefixes(config_)})
      if (has(list, Family::ipv4) && has(list, Family::ipv6)) return true;
    return false;
  }

  void check_node_ports() {
    constexpr auto kField = "nodePortAddresses";
    const auto open = [](Family family) {
      return fmt::format("node ports are open on all {} addresses", name_of(family));
    };
    if (config_.node_port_addresses.empty())
      return warn(kField, "is not set: node ports are open on all addresses; consider [primary]");
    // These are of both families.
    if (node_ports_.primary || node_ports_.localhost) return;
    if (!has(node_ports_.prefixes, node_.primary)) {
      warn(kField, fmt::format("{}, but only {} ranges are here: {}", kind_of_node(),
                               name_of(wrong_), open(node_.primary)));
    } else if (!has(node_ports_.prefixes, wrong_) && looks_dual_stack()) {
      warn(kField, fmt::format("the cluster seems to have both families, but only {} ranges are "
                               "here: {}",
                               name_of(node_.primary), open(wrong_)));
    }
  }

  void check_family(const std::string& field, const std::vector<IpPrefix>& list, bool fatal) {
    if (list.empty() || has(list, node_.primary)) return;
    add(fatal ? api::Severity::error : api::Severity::warning, field,
        fmt::format("{}, but only {} ranges are here", kind_of_node(), name_of(wrong_)));
  }

  void check_address(const std::string& field, const std::string& text) {
    const auto listen = parse_listen_address(text);
    if (!listen || listen->address.is_any() || listen->address.family() == node_.primary) return;
    warn(field, fmt::format("{}, but this is an {} address", kind_of_node(), name_of(wrong_)));
  }

  const KubeProxyConfig& config_;
  const NodeFamilies& node_;
  const std::string& origin_;
  Family wrong_;
  NodePortAddresses node_ports_;
  api::Problems problems_;
};

}  // namespace

NodeFamilies node_families(const KubeProxyConfig& config, const std::vector<Family>& families,
                           const std::optional<api::Node>& node) {
  NodeFamilies result{.dual_stack = families.size() > 1};
  if (const auto bind_address = node_ip_override(config)) {
    result.primary = bind_address->family();
  } else if (node) {
    const auto& ips = node->internal_ips.empty() ? node->external_ips : node->internal_ips;
    if (!ips.empty()) result.primary = ips.front().family();
  }
  result.primary_missing =
      std::find(families.begin(), families.end(), result.primary) == families.end();
  if (node) result.pod_cidrs = node->pod_cidrs;
  return result;
}

api::Problems config_warnings(const KubeProxyConfig& config, const NodeFamilies& node,
                              const std::string& origin) {
  return Warnings(config, node, origin).take();
}

}  // namespace ipvsproxier::config
