#include "proxier/sync/host_keeper.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "proxier/plan/pitfalls.h"
#include "proxier/sync/append.h"

namespace ipvsproxier::sync {

namespace {

constexpr const char* kReserved = "net/ipv4/ip_local_reserved_ports";
// The kernel takes less than a page of 4,096 bytes in one write (kernel/sysctl.c,
// proc_do_large_bitmap()), and netlink::Sysctl reads no more: others' ports would be lost.
constexpr std::size_t kLongestList = 4000;

// By the Services' fields, whose values the API server bounds, and not by addresses: a Service may
// name this node's address and any port as an external IP.
std::set<std::uint16_t> node_ports(const model::ClusterState& cluster) {
  std::set<std::uint16_t> ports;
  for (const auto& [name, service] : cluster.services)
    for (const auto& port : service.ports)
      if (port.node_port != 0) ports.insert(port.node_port);
  return ports;
}

std::set<netlink::IpAddress> endpoints_on(std::string_view node_name,
                                          const model::ClusterState& cluster) {
  std::set<netlink::IpAddress> addresses;
  for (const auto& [service, slices] : cluster.slices)
    for (const auto& slice : slices)
      for (const auto& endpoint : slice.endpoints)
        if (endpoint.node_name == node_name) addresses.insert(endpoint.address);
  return addresses;
}

api::Problem problem_of(plan::Pitfall pitfall) {
  return {.severity = api::Severity::warning,
          .origin = "",
          .object = std::move(pitfall.about),
          .field = "",
          .message = fmt::format("{}; {}", pitfall.message, pitfall.remedy)};
}

}  // namespace

std::size_t HostKeeper::keep(netlink::IpvsTable& ipvs, bool again, SyncProblems& problems) {
  if (!setup_) return 0;
  auto report = prepare_host(*setup_, ipvs);
  failed_ = !report.failures.empty();
  append(problems.failures, std::move(report.failures));
  append(problems.warnings, std::move(report.warnings));
  for (const auto& what : report.written) {
    if (again)
      logger_.warn("others changed what this node needs: set {} again", what);
    else
      logger_.info("set {}", what);
  }
  if (!again)
    for (const auto& note : report.notes) logger_.info("{}", note);
  return report.written.size();
}

void HostKeeper::reserve(const std::set<std::uint16_t>& node_ports) {
  const auto& sysctls = setup_->paths.sysctls;
  const auto before = sysctls.read(kReserved);
  const auto wanted = before ? plan::with_reserved(*before, node_ports) : std::nullopt;
  if (!wanted) return;
  const auto fail = [&](std::string why) {
    problems_.push_back({.severity = api::Severity::warning,
                         .origin = "",
                         .object = "--reserve-node-ports",
                         .field = "",
                         .message = std::move(why)});
  };
  if (std::max(before->size(), wanted->size()) >= kLongestList)
    return fail(
        "the list of reserved ports is too long for one write; reserve the API server's whole "
        "range of node ports in net.ipv4.ip_local_reserved_ports");
  if (const auto wrote = sysctls.ensure(kReserved, *wanted); !wrote)
    return fail(netlink::to_string(wrote.error()));
  logger_.info("set sysctl {} from \"{}\" to \"{}\"", kReserved, *before, *wanted);
}

// The local detector and the ranges of pods tell it.
bool HostKeeper::is_of_pods(const netlink::InterfaceAddress& address,
                            const plan::PlannerOptions& options) const {
  if (plan::detects_link(options, address.link)) return true;
  const auto has = [&](const netlink::IpPrefix& range) { return range.contains(address.address); };
  return std::ranges::any_of(pod_cidrs_, has) || std::ranges::any_of(options.cluster_cidrs, has);
}

void HostKeeper::look(const model::ClusterState& cluster, const plan::PlannerOptions& options,
                      std::string_view node_name) {
  if (!setup_) return;
  problems_.clear();
  const auto ports = node_ports(cluster);
  if (setup_->reserve_node_ports) reserve(ports);
  const auto settings = read_node_settings(setup_->paths, addresses_);
  if (auto found = plan::local_port_pitfall(settings, ports))
    problems_.push_back(problem_of(*std::move(found)));
  // A cluster has many endpoints: they are read once, and only if a bridge asks for them.
  std::optional<std::set<netlink::IpAddress>> endpoints;
  const auto has_pods = [&](const netlink::InterfaceAddress& one) {
    if (is_of_pods(one, options)) return true;
    if (!endpoints) endpoints = endpoints_on(node_name, cluster);
    const auto network = netlink::IpPrefix::of(one.address, one.prefix_length);
    const auto next = endpoints->lower_bound(network.address);
    return next != endpoints->end() && network.contains(*next);
  };
  if (auto found = plan::bridge_pitfall(settings, addresses_, has_pods))
    problems_.push_back(problem_of(*std::move(found)));
}

}  // namespace ipvsproxier::sync
