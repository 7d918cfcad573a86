#include "proxier/plan/in_cluster_address.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "proxier/plan/bindings.h"

namespace ipvsproxier::plan {

using model::ServicePort;
using netlink::IpAddress;
using netlink::IpPrefix;

namespace {

bool needs_own_address(const ServicePort& port) {
  return port.external_policy_local && port.internal_policy_local && port.externally_accessible;
}

bool is_taken(const InClusterRange& range, const IpAddress& address, const IpAddress& cluster_ip) {
  const auto has = [](const IpAddress& one) {
    return [&one](const IpPrefix& prefix) { return prefix.contains(one); };
  };
  return range.range->contains(cluster_ip) || std::ranges::any_of(range.taken, has(address));
}

}  // namespace

InClusterRange in_cluster_range(netlink::Family family, const NodeInfo& node,
                                const PlannerOptions& options) {
  InClusterRange result;
  if (!options.sends_clients_on()) return result;
  for (const auto& range : options.in_cluster_ranges)
    if (range.family() == family) result.range = range;
  if (!result.range) return result;
  const auto take = [&](const IpPrefix& prefix) {
    if (prefix.family() == family) result.taken.push_back(prefix);
  };
  for (const auto& cidr : options.cluster_cidrs) take(cidr);
  for (const auto& cidr : node.pod_cidrs) take(cidr);
  for (const auto& one : node.addresses)
    if (!dummy_number(one.link)) take(IpPrefix::of(one.address, one.prefix_length));
  std::ranges::sort(result.taken);
  return result;
}

IpAddress in_cluster_address(const IpPrefix& range, const IpAddress& cluster_ip) {
  const auto first = range.address.bytes();
  const auto last = cluster_ip.bytes();
  std::vector<std::uint8_t> bytes(last.begin(), last.end());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto bits = std::clamp(int{range.length} - static_cast<int>(i) * 8, 0, 8);
    const auto of_range = static_cast<std::uint8_t>(0xff00U >> static_cast<unsigned>(bits));
    bytes[i] = static_cast<std::uint8_t>((first[i] & of_range) | (bytes[i] & ~of_range));
  }
  return *IpAddress::from_bytes(cluster_ip.family(), bytes);
}

std::optional<IpAddress> in_cluster_address(const ServicePort& port, const InClusterRange& range) {
  if (!range.range || !needs_own_address(port)) return std::nullopt;
  const auto address = in_cluster_address(*range.range, port.cluster_ip);
  return is_taken(range, address, port.cluster_ip) ? std::nullopt : std::optional(address);
}

std::optional<api::Problem> in_cluster_problem(const std::vector<ServicePort>& ports,
                                               const InClusterRange& range) {
  const auto needs = std::ranges::find_if(ports, needs_own_address);
  if (needs == ports.end() || !range.range || in_cluster_address(*needs, range))
    return std::nullopt;
  return api::Problem{
      .severity = api::Severity::warning,
      .origin = needs->service->origin,
      .object = "Service " + api::to_string(needs->name.service),
      .field = "spec.internalTrafficPolicy",
      .message = fmt::format(
          "is Local as the external policy is, and {} of --in-cluster-ranges is in a network of "
          "this node, of its pods or of cluster IPs: this node and its pods reach endpoints of "
          "this "
          "node alone",
          in_cluster_address(*range.range, needs->cluster_ip).to_string())};
}

}  // namespace ipvsproxier::plan
