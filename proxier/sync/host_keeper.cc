#include "proxier/sync/host_keeper.h"

#include <utility>

#include <fmt/format.h>

#include "proxier/plan/pitfalls.h"
#include "proxier/sync/append.h"

namespace ipvsproxier::sync {

namespace {

constexpr const char* kReserved = "net/ipv4/ip_local_reserved_ports";

// Those of both families: the kernel has one range of local ports.
std::set<std::uint16_t> node_ports(const plan::DesiredState& desired,
                                   const std::vector<netlink::InterfaceAddress>& on_links) {
  std::set<netlink::IpAddress> addresses;
  for (const auto& one : on_links) addresses.insert(one.address);
  std::set<std::uint16_t> ports;
  for (const auto& [key, service] : desired.services)
    if (addresses.contains(key.address)) ports.insert(key.port);
  return ports;
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
  const auto before = setup_->paths.sysctls.read(kReserved);
  const auto wanted = before ? plan::with_reserved(*before, node_ports) : std::nullopt;
  if (!wanted) return;
  if (const auto wrote = setup_->paths.sysctls.ensure(kReserved, *wanted); !wrote)
    problems_.push_back({.severity = api::Severity::warning,
                         .origin = "",
                         .object = "--reserve-node-ports",
                         .field = "",
                         .message = netlink::to_string(wrote.error())});
  else
    logger_.info("set sysctl {} from \"{}\" to \"{}\"", kReserved, *before, *wanted);
}

void HostKeeper::look(const plan::DesiredState& desired, const plan::PlannerOptions& options) {
  if (!setup_) return;
  problems_.clear();
  const auto ports = node_ports(desired, addresses_);
  if (setup_->reserve_node_ports) reserve(ports);
  const auto settings = read_node_settings(setup_->paths);
  auto pods = pod_cidrs_;
  pods.insert(pods.end(), options.cluster_cidrs.begin(), options.cluster_cidrs.end());
  if (auto found = plan::local_port_pitfall(settings, ports))
    problems_.push_back(problem_of(*std::move(found)));
  if (auto found = plan::bridge_pitfall(settings, addresses_, pods))
    problems_.push_back(problem_of(*std::move(found)));
}

}  // namespace ipvsproxier::sync
