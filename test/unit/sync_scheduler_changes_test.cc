// Changes of schedulers, for each of which the kernel waits: those of one Service in small steps.

#include "proxier/sync/scheduler_changes.h"

#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using test::FakeDaemon;

api::Service service_of_ports(const std::string& name, const std::string& address,
                              std::size_t ports) {
  auto service = test::web_service();
  service.name.name = name;
  service.cluster_ips = {test::ip(address)};
  service.ports.clear();
  for (std::size_t i = 0; i < ports; ++i)
    service.ports.push_back({.name = "p" + std::to_string(i),
                             .protocol = netlink::Protocol::tcp,
                             .port = static_cast<std::uint16_t>(1000 + i),
                             .node_port = 0});
  return service;
}

std::size_t count_with(const FakeDaemon& daemon, const std::string& address,
                       std::string_view scheduler) {
  const auto services = daemon.ipvs.services();
  return static_cast<std::size_t>(std::ranges::count_if(services, [&](const auto& service) {
    return service.key.address == test::ip(address) && service.scheduler.view() == scheduler;
  }));
}

TEST_CASE("a Service that changes many schedulers does so in steps, between others' changes") {
  constexpr std::size_t kPorts = 100;
  FakeDaemon daemon;
  model::ClusterState cluster;
  auto wide = service_of_ports("a-wide", "10.97.0.1", kPorts);
  auto other = service_of_ports("other", "10.97.0.2", 2);
  cluster.put(wide);
  cluster.put(other);
  daemon.see(cluster);
  daemon.run();
  wide.annotations = {{"ipvs-proxier/scheduler", "wrr"}};
  cluster.put(wide);
  daemon.see(cluster);
  CHECK(count_with(daemon, "10.97.0.1", "wrr") == SchedulerChanges::kMostOfService);

  // Another Service changes its own meanwhile, and asks for something else.
  other.annotations = {{"ipvs-proxier/scheduler", "lc"}};
  other.ports.push_back(
      {.name = "new", .protocol = netlink::Protocol::tcp, .port = 99, .node_port = 0});
  cluster.put(other);
  daemon.see(cluster);
  CHECK(count_with(daemon, "10.97.0.2", "lc") == 3);
  CHECK(count_with(daemon, "10.97.0.1", "wrr") == 2 * SchedulerChanges::kMostOfService);

  // It goes on by itself, until all are changed.
  std::size_t steps = 0;
  for (; count_with(daemon, "10.97.0.1", "wrr") < kPorts && steps < kPorts; ++steps) daemon.run();
  CHECK(steps == kPorts / SchedulerChanges::kMostOfService + 1 - 2);
  CHECK(daemon.differences().empty());
  daemon.wait(std::chrono::seconds(1));
  CHECK(daemon.watch.broken.empty());
}

TEST_CASE("many Services that change their schedulers share a step") {
  FakeDaemon daemon;
  model::ClusterState cluster;
  std::vector<api::Service> services;
  for (int i = 0; i < 4; ++i)
    services.push_back(
        service_of_ports("s" + std::to_string(i), "10.97.0." + std::to_string(i), 20));
  for (const auto& service : services) cluster.put(service);
  daemon.see(cluster);
  for (auto& service : services) {
    service.annotations = {{"ipvs-proxier/scheduler", "wrr"}};
    cluster.put(service);
  }
  const auto changed = [&] {
    std::size_t count = 0;
    for (int i = 0; i < 4; ++i) count += count_with(daemon, "10.97.0." + std::to_string(i), "wrr");
    return count;
  };
  daemon.see(cluster);
  CHECK(changed() == SchedulerChanges::kMost);
  daemon.run();
  CHECK(changed() == 2 * SchedulerChanges::kMost);
  daemon.run();
  CHECK(changed() == 80);
}

TEST_CASE("another scheduler of the node reaches all virtual services") {
  FakeDaemon daemon;
  model::ClusterState cluster;
  cluster.put(service_of_ports("wide", "10.97.0.1", 50));
  daemon.see(cluster);
  plan::PlannerOptions options{.families = {netlink::Family::ipv4}};
  options.scheduler = "wrr";
  daemon.restart(options);
  daemon.see(cluster);
  for (int step = 0; count_with(daemon, "10.97.0.1", "wrr") < 50 && step < 10; ++step) daemon.run();
  CHECK(daemon.differences().empty());
}

}  // namespace
}  // namespace ipvsproxier::sync
