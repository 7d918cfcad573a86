// Changes of schedulers, for each of which the kernel waits: those of one Service in small steps.

#include "proxier/sync/scheduler_changes.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

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

// A run, after the rest that the one before asked for.
void step(FakeDaemon& daemon) {
  daemon.now += std::chrono::seconds(1);
  daemon.run();
}

constexpr auto kOfService = SchedulerChanges::kMostOfService;

TEST_CASE("a Service that changes many schedulers does so in steps, between others' changes") {
  constexpr std::size_t kPorts = 10 * kOfService;
  FakeDaemon daemon;
  model::ClusterState cluster;
  auto wide = service_of_ports("a-wide", "10.97.0.1", kPorts);
  auto other = service_of_ports("other", "10.97.0.2", 2);
  cluster.put(wide);
  cluster.put(other);
  daemon.see(cluster);
  wide.annotations = {{"ipvs-proxier/scheduler", "wrr"}};
  wide.affinity_seconds = 60;
  cluster.put(wide);
  CHECK_FALSE(daemon.see(cluster).settled);
  CHECK(count_with(daemon, "10.97.0.1", "wrr") == kOfService);
  // All else that they shall be is so at once.
  CHECK(std::ranges::all_of(daemon.ipvs.services(), [](const auto& service) {
    return service.key.address != test::ip("10.97.0.1") || service.timeout == 60;
  }));

  // Another Service changes its own meanwhile, and asks for something else.
  other.annotations = {{"ipvs-proxier/scheduler", "lc"}};
  other.ports.push_back(
      {.name = "new", .protocol = netlink::Protocol::tcp, .port = 99, .node_port = 0});
  cluster.put(other);
  daemon.see(cluster);
  CHECK(count_with(daemon, "10.97.0.2", "lc") == 3);

  // The rest goes on by itself, after a rest, until all are changed.
  std::size_t steps = 1;
  for (; count_with(daemon, "10.97.0.1", "wrr") < kPorts && steps < kPorts; ++steps) step(daemon);
  CHECK(steps == kPorts / kOfService);
  CHECK(daemon.differences().empty());
  CHECK(daemon.watch.broken.empty());
}

TEST_CASE("a Service that changes its schedulers all the time takes no other's turn") {
  FakeDaemon daemon;
  model::ClusterState cluster;
  std::vector<api::Service> busy;
  for (int i = 0; i < 3; ++i)
    busy.push_back(service_of_ports("a" + std::to_string(i), "10.97.0." + std::to_string(i), 40));
  auto last = service_of_ports("z", "10.97.1.0", 4 * kOfService);
  for (const auto& service : busy) cluster.put(service);
  cluster.put(last);
  daemon.see(cluster);
  last.annotations = {{"ipvs-proxier/scheduler", "wrr"}};
  cluster.put(last);
  for (int flip = 0; flip < 10; ++flip) {
    for (auto& service : busy) {
      service.annotations = {{"ipvs-proxier/scheduler", flip % 2 == 0 ? "lc" : "wlc"}};
      cluster.put(service);
    }
    daemon.now += std::chrono::seconds(1);
    daemon.see(cluster);
  }
  CHECK(count_with(daemon, "10.97.1.0", "wrr") == 4 * kOfService);
}

TEST_CASE("many Services that change their schedulers share a step") {
  FakeDaemon daemon;
  model::ClusterState cluster;
  std::vector<api::Service> services;
  for (int i = 0; i < 4; ++i)
    services.push_back(
        service_of_ports("s" + std::to_string(i), "10.97.0." + std::to_string(i), kOfService));
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
  step(daemon);
  CHECK(changed() == 2 * SchedulerChanges::kMost);
  daemon.wait(std::chrono::seconds(1));
  CHECK(daemon.differences().empty());
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
  daemon.wait(std::chrono::seconds(1));
  CHECK(count_with(daemon, "10.97.0.1", "wrr") == 50);
  CHECK(daemon.differences().empty());
}

// While the kernel refuses those that it is asked for, the others have not been tried.
TEST_CASE("schedulers that the kernel refuses stay refused while others wait") {
  FakeDaemon daemon;
  model::ClusterState cluster;
  auto wide = service_of_ports("wide", "10.97.0.1", 3 * kOfService);
  cluster.put(wide);
  daemon.see(cluster);
  daemon.ipvs.faults.fail("edit virtual service", {netlink::ErrorKind::malformed, EINVAL, ""});
  wide.annotations = {{"ipvs-proxier/scheduler", "wrr"}};
  cluster.put(wide);
  daemon.see(cluster);
  step(daemon);
  CHECK_FALSE(daemon.says("no longer refused"));
  daemon.clear_faults();
  for (int i = 0; i < 20; ++i) daemon.wait(std::chrono::seconds(10));
  CHECK(count_with(daemon, "10.97.0.1", "wrr") == 3 * kOfService);
}

}  // namespace
}  // namespace ipvsproxier::sync
