#include "proxier/plan/other_programs.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "proxier/plan/bindings.h"
#include "proxier/plan/planner.h"

namespace ipvsproxier::plan {

using netlink::Family;
using netlink::InterfaceAddress;
using netlink::IpAddress;

namespace {

constexpr std::size_t kMostNamed = 8;

bool is_of_node(const NodeInfo& node, const IpAddress& address) {
  return std::ranges::any_of(node.ips, [&](const auto& ip) { return ip.second == address; });
}

// Whether the link is there for addresses of a program alone.
bool is_programs_link(const NodeInfo& node, const std::string& link) {
  return std::ranges::none_of(node.addresses, [&](const InterfaceAddress& one) {
    if (one.link != link || one.address.is_link_local()) return false;
    const bool in_network = one.prefix_length < netlink::address_bits(one.address.family());
    return in_network || is_of_node(node, one.address);
  });
}

std::string text_of_ports(const ipset::UntrackedPorts& ports) {
  if (ports.first == 0 && ports.last == 65535)
    return fmt::format("all ports of {}", to_string(ports.protocol));
  if (ports.first == ports.last)
    return fmt::format("{}/{}", ports.first, to_string(ports.protocol));
  return fmt::format("{}-{}/{}", ports.first, ports.last, to_string(ports.protocol));
}

}  // namespace

std::vector<LeftPorts> left_ports(const NodeInfo& node, Family family) {
  std::vector<LeftPorts> left;
  for (const auto& ports : node.untracked) {
    if (ports.address.family() != family || is_of_node(node, ports.address)) continue;
    const auto found = std::ranges::find_if(node.addresses, [&](const InterfaceAddress& one) {
      return one.address == ports.address && !dummy_number(one.link);
    });
    if (found != node.addresses.end()) left.push_back({ports, found->link});
  }
  std::ranges::sort(left);
  return left;
}

const LeftPorts* left_to(const std::vector<LeftPorts>& left,
                         const netlink::VirtualServiceKey& key) {
  const auto found = std::ranges::find_if(left, [&](const LeftPorts& one) {
    return one.ports.address == key.address && one.ports.protocol == key.protocol &&
           one.ports.first <= key.port && key.port <= one.ports.last;
  });
  return found == left.end() ? nullptr : &*found;
}

std::set<IpAddress> program_addresses(const NodeInfo& node, Family family,
                                      const PlannerOptions& options) {
  auto addresses = inherited_addresses(node, options);
  if (!options.differences.leave_untracked) return addresses;
  for (const auto& one : left_ports(node, family)) {
    addresses.insert(one.ports.address);
    if (!is_programs_link(node, one.link)) continue;
    for (const auto& other : node.addresses)
      if (other.link == one.link) addresses.insert(other.address);
  }
  return addresses;
}

std::set<IpAddress> inherited_addresses(const NodeInfo& node, const PlannerOptions& options) {
  std::set<IpAddress> addresses;
  if (!options.differences.take_over_kube_router) return addresses;
  for (const auto& one : node.addresses)
    if (one.link == kKubeRouterLink && !is_of_node(node, one.address))
      addresses.insert(one.address);
  return addresses;
}

api::Problem inherited_problem() {
  return {.severity = api::Severity::warning,
          .object = fmt::format("link {}", kKubeRouterLink),
          .message = fmt::format(
              "it is of kube-router's service proxy, whose virtual services, chains and sets this "
              "daemon takes over; let kube-router run with --run-service-proxy=false, and remove "
              "the link, whose addresses outlive their Services: ip link delete {}",
              kKubeRouterLink)};
}

std::string text_of_left(const std::vector<LeftPorts>& left) {
  const auto& first = left.front();
  std::vector<std::string> ports;
  for (const auto& one : left)
    if (one.ports.address == first.ports.address && one.link == first.link &&
        ports.size() < kMostNamed)
      ports.push_back(text_of_ports(one.ports));
  return fmt::format(
      "link {} of another program has {}, and rules (NOTRACK, in {}) keep packets to {} there from "
      "connection tracking",
      first.link, first.ports.address.to_string(), first.ports.table, fmt::join(ports, ", "));
}

api::Problem left_problem(const api::Service& service, const std::vector<LeftPorts>& left,
                          bool is_left) {
  return {.severity = api::Severity::warning,
          .origin = service.origin,
          .object = "Service " + api::to_string(service.name),
          .field = "spec.ports",
          .message = fmt::format(
              "{}: {}; {}", text_of_left(left),
              is_left ? "on this node they are left to that program"
                      : "nothing masquerades them, and this node may get no answers there",
              kLeftRemedy)};
}

}  // namespace ipvsproxier::plan
