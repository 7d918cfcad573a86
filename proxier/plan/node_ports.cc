#include "proxier/plan/node_ports.h"

#include <algorithm>
#include <utility>

#include "ipset/rules/localhost_rules.h"
#include "proxier/plan/bindings.h"
#include "proxier/plan/other_programs.h"

namespace ipvsproxier::plan {

using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;

namespace {

std::vector<IpPrefix> ranges_of(const NodeInfo& node, Family family,
                                const PlannerOptions& options) {
  std::vector<IpPrefix> ranges;
  if (options.node_port_primary) {
    // Without an IP of the family: loopback, which carries no node port. kube-proxy treats no range
    // as all.
    const IpAddress& ip = node.ips.at(family);
    if (!ip.is_loopback() || options.differences.follow_node_ip)
      ranges.push_back(IpPrefix::of(ip, netlink::address_bits(family)));
  }
  for (const auto& range : options.node_port_addresses)
    if (range.family() == family) ranges.push_back(range);
  if (options.serves_localhost()) ranges.push_back(ipset::localhost_loop(family).sources);
  return ranges;
}

bool matches_all(const std::vector<IpPrefix>& ranges) {
  return ranges.empty() || std::any_of(ranges.begin(), ranges.end(),
                                       [](const IpPrefix& range) { return range.length == 0; });
}

bool covers(const std::vector<IpPrefix>& ranges, const IpAddress& address) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const IpPrefix& range) { return range.contains(address); });
}

}  // namespace

std::set<IpAddress> other_link_addresses(const NodeInfo& node, Family family,
                                         std::string_view except) {
  std::set<IpAddress> result;
  for (const auto& [link, address, length, on_dummy] : node.addresses) {
    if (dummy_number(link) || address.family() != family || address.is_loopback()) continue;
    if (!except.empty() && link == except) continue;
    if (family == Family::ipv6 && address.is_link_local()) continue;
    result.insert(address);
  }
  return result;
}

std::set<IpAddress> node_port_addresses(const NodeInfo& node, Family family,
                                        const PlannerOptions& options,
                                        const std::set<IpAddress>& dummy_addresses) {
  const auto ranges = ranges_of(node, family, options);
  const auto others = program_addresses(node, family, options);
  std::set<IpAddress> result;
  if (matches_all(ranges)) {
    result = other_link_addresses(node, family);
    for (const auto& address : others) result.erase(address);
    return result;
  }
  const auto consider = [&](const IpAddress& address) {
    if (covers(ranges, address) && !address.is_loopback() && !others.contains(address))
      result.insert(address);
  };
  for (const auto& [link, address, length, on_dummy] : node.addresses)
    if (!dummy_number(link)) consider(address);
  for (const auto& address : dummy_addresses) consider(address);
  return result;
}

std::optional<IpAddress> left_node_port_address(
    const std::vector<netlink::VirtualService>& services, const model::ClusterState& cluster,
    const NodeInfo& node, Family family, const PlannerOptions& options) {
  auto own = other_link_addresses(node, family);
  // Addresses in nodePortAddresses carry node ports whether or not they are the node's IP.
  std::erase_if(own,
                [&](const auto& address) { return covers(options.node_port_addresses, address); });
  std::set<std::pair<netlink::Protocol, std::uint16_t>> node_ports;
  for (const auto& [name, service] : cluster.services) {
    for (const auto& port : service.ports)
      if (port.node_port != 0) node_ports.emplace(port.protocol, port.node_port);
    for (const auto* list : {&service.external_ips, &service.load_balancer_ips})
      for (const auto& ip : *list) own.erase(ip);
  }
  std::set<IpAddress> found;
  for (const auto& service : services)
    if (const auto& key = service.key;
        own.contains(key.address) && node_ports.contains({key.protocol, key.port}))
      found.insert(key.address);
  return found.size() == 1 ? std::optional(*found.begin()) : std::nullopt;
}

std::optional<std::set<IpAddress>> health_addresses(const NodeInfo& node, Family family,
                                                    const PlannerOptions& options) {
  const auto ranges = ranges_of(node, family, options);
  if (matches_all(ranges)) return std::nullopt;
  std::set<IpAddress> result;
  for (const auto& [link, address, length, on_dummy] : node.addresses) {
    const bool needs_link = family == Family::ipv6 && address.is_link_local();
    if (!dummy_number(link) && !needs_link && covers(ranges, address)) result.insert(address);
  }
  return result;
}

}  // namespace ipvsproxier::plan
