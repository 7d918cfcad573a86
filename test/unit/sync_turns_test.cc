// Turns: a Service with very much to write has others wait for one turn.

#include "proxier/sync/turns.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using ServiceName = api::NamespacedName;
using ServiceNames = std::vector<ServiceName>;
using test::FakeDaemon;
using test::ip;

// So many keys.
plan::Scope scope_of_size(std::uint32_t size) {
  plan::Scope scope;
  for (std::uint32_t i = 1; i <= size; ++i) scope.addresses.insert(netlink::IpAddress::v4(i));
  return scope;
}

ServiceNames take_names(Turns& turns) {
  ServiceNames names;
  for (auto& part :
       turns.take([](const plan::Scope& scope) { return scope.addresses.size(); }).parts)
    names.push_back(part.service);
  return names;
}

TEST_CASE("turns: Services that need little have one turn together") {
  Turns turns;
  for (const ServiceName& name : ServiceNames{{"a", "1"}, {"a", "2"}, {"b", "1"}})
    turns.put(name, scope_of_size(1));
  CHECK(take_names(turns) == ServiceNames{{"a", "1"}, {"b", "1"}, {"a", "2"}});
  CHECK(turns.empty());
  CHECK(take_names(turns).empty());
  turns.put({"a", "1"}, {});
  CHECK(turns.empty());
}

TEST_CASE("turns: namespaces take turns, and within one of them its Services") {
  Turns turns;
  const auto big = scope_of_size(Turns::kMost);
  const auto huge = scope_of_size(100'000);
  turns.put({"a", "big"}, big);
  turns.put({"a", "huge"}, huge);
  turns.put({"b", "big"}, big);
  CHECK(take_names(turns) == ServiceNames{{"a", "big"}});
  CHECK(take_names(turns) == ServiceNames{{"b", "big"}});
  CHECK(take_names(turns) == ServiceNames{{"a", "huge"}});
  // What is left of its turn comes after the others, those of its own namespace as well.
  turns.put({"a", "huge"}, huge);
  turns.put({"a", "big"}, big);
  turns.put({"z", "little"}, scope_of_size(1));
  CHECK(turns.contains({"a", "huge"}));
  CHECK(take_names(turns) == ServiceNames{{"z", "little"}});
  CHECK(take_names(turns) == ServiceNames{{"a", "big"}});
  CHECK(take_names(turns) == ServiceNames{{"a", "huge"}});
  CHECK(turns.empty());
}

TEST_CASE("turns: rules that a waiting Service needs are compared in each turn") {
  Turns turns;
  auto needs_rules = scope_of_size(Turns::kMost);
  needs_rules.rules.insert(netlink::Family::ipv4);
  turns.put({"a", "little"}, scope_of_size(1));
  turns.put({"b", "big"}, needs_rules);
  const auto turn = turns.take([](const plan::Scope& scope) { return scope.addresses.size(); });
  REQUIRE(turn.parts.size() == 1);
  CHECK(turn.parts.front().service == ServiceName{"a", "little"});
  CHECK(turn.scope.rules == needs_rules.rules);
  CHECK(take_names(turns) == ServiceNames{{"b", "big"}});
}

// A Service of so many ports, whose numbers begin at `first`, with so many endpoints, at the
// address 10.97.0.WHICH.
void put_wide(model::ClusterState& cluster, std::uint16_t first, std::uint16_t ports,
              std::uint32_t endpoints, netlink::Protocol protocol = netlink::Protocol::tcp,
              int which = 1) {
  auto service = test::web_service();
  service.name = {"tenant", which == 1 ? "wide" : "wide-" + std::to_string(which)};
  service.cluster_ips = {ip("10.97.0." + std::to_string(which))};
  std::vector<api::Endpoint> all;
  for (std::uint32_t i = 0; i < endpoints; ++i) {
    auto endpoint = test::e2();
    endpoint.address = netlink::IpAddress::v4(0x0af50001U + i);
    all.push_back(endpoint);
  }
  auto slice = test::slice_of(service, 8080, all);
  slice.ports.clear();
  service.ports.clear();
  for (std::uint16_t i = 0; i < ports; ++i) {
    const auto name = "p" + std::to_string(first + i);
    const auto number = static_cast<std::uint16_t>(first + i);
    service.ports.push_back({.name = name, .protocol = protocol, .port = number, .node_port = 0});
    slice.ports.push_back({.name = name, .protocol = protocol, .port = 8080});
  }
  cluster.put(service);
  cluster.put(slice);
}

bool serves_web_by(FakeDaemon& daemon, const std::string& address) {
  return std::ranges::any_of(daemon.weights(test::kWeb), [&](const auto& one) {
    return one.first.address == ip(address) && one.second > 0;
  });
}

TEST_CASE("a Service whose 30,000 real servers are renumbered twice has others wait for a turn") {
  test::FakeDaemonSettings settings;
  const bool compat = GENERATE(false, true);
  CAPTURE(compat);
  if (compat) settings.options.differences = plan::kKubeProxyCompat;
  FakeDaemon daemon(settings);
  auto cluster = test::web_with({test::e1()});
  put_wide(cluster, 1000, 300, 100);
  daemon.see(cluster);
  put_wide(cluster, 2000, 300, 100);
  daemon.hear(cluster);
  daemon.input_waits = true;
  for (int i = 0; i < 3; ++i) daemon.run();
  put_wide(cluster, 3000, 300, 100);
  daemon.hear(cluster);
  for (int i = 0; i < 3; ++i) daemon.run();

  const auto before = daemon.writes();
  CHECK_FALSE(serves_web_by(daemon, "10.244.1.4"));
  const auto web = test::web_with({test::e1(), test::e2()});
  cluster.slices[test::web_service().name] = web.slices.at(test::web_service().name);
  daemon.hear(cluster);
  while (!serves_web_by(daemon, "10.244.1.4")) {
    REQUIRE(daemon.has_turns());
    const auto at = daemon.writes();
    // Work in turns is no fault of the node.
    CHECK(daemon.run().well == std::set{netlink::Family::ipv4});
    CHECK(daemon.writes() - at <= Turns::kMost);
  }
  CHECK(daemon.writes() - before <= Turns::kMost);
  CHECK(daemon.has_turns());
  CHECK(daemon.watch.broken == std::vector<std::string>{});
  daemon.run_turns();
  CHECK(daemon.missing() == std::set<std::string>{});
}

TEST_CASE("a comparison of everything ends early when input waits, and goes on after it") {
  FakeDaemon daemon;
  auto cluster = test::web_with({test::e1()});
  put_wide(cluster, 1000, 100, 100);
  daemon.input_waits = true;
  daemon.hear(cluster);
  auto report = daemon.run();
  CHECK(daemon.writes() <= Turns::kMost + 100);
  CHECK(report.unfinished);
  CHECK_FALSE(report.settled);
  CHECK(report.well.empty());
  report = daemon.run_turns();
  CHECK(report.settled);
  CHECK(daemon.differences() == std::set<std::string>{});
  CHECK(daemon.watch.broken == std::vector<std::string>{});
}

TEST_CASE("a turn whose operations the kernel refuses ends, and has no others wait") {
  FakeDaemon daemon;
  auto cluster = test::web_with({test::e1()});
  daemon.see(cluster);
  put_wide(cluster, 1000, 300, 100);
  daemon.ipvs.faults.fail("to virtual service 10.97.0.1", {netlink::ErrorKind::malformed, 22, ""});
  daemon.hear(cluster);
  daemon.input_waits = true;
  const auto web = test::web_with({test::e1(), test::e2()});
  cluster.slices[test::web_service().name] = web.slices.at(test::web_service().name);
  for (int i = 0; i < 3; ++i) daemon.run();
  daemon.hear(cluster);
  const auto before = daemon.writes();
  while (!serves_web_by(daemon, "10.244.1.4")) daemon.run();
  CHECK(daemon.writes() - before <= Turns::kMost + 100);
  // Each failure is tried once in a turn, and then when it is due.
  const auto refused = daemon.writes();
  for (int i = 0; i < 40 && daemon.has_turns(); ++i) daemon.run();
  CHECK_FALSE(daemon.has_turns());
  CHECK(daemon.writes() - refused <= 40'000);
}

// The first 4,096 operations of each of the two are refused.
TEST_CASE("turns of two Services end although the kernel refuses much of both") {
  FakeDaemon daemon;
  auto cluster = test::web_with({test::e1()});
  daemon.see(cluster);
  for (int number = 1; number <= 2; ++number)
    put_wide(cluster, 1000, 60, 100, netlink::Protocol::tcp, number);
  for (int port = 0; port < 50; ++port)
    daemon.ipvs.faults.fail(
        ":10" + std::string(port < 10 ? "0" : "") + std::to_string(port) + "/TCP",
        {netlink::ErrorKind::malformed, 22, ""});
  daemon.hear(cluster);
  const auto before = daemon.writes();
  for (int i = 0; i < 20 && (i == 0 || daemon.has_turns()); ++i) daemon.run();
  CHECK_FALSE(daemon.has_turns());
  CHECK(daemon.writes() - before < 20'000);
  const netlink::VirtualServiceKey last{ip("10.97.0.2"), netlink::Protocol::tcp, 1059};
  CHECK(daemon.weights(last).size() == 100);
}

// Whatever of them is refused: none is tried again in each turn.
TEST_CASE("turns of two Services end although the kernel refuses nearly all of both, or all") {
  const auto [ports, refused] = GENERATE(table<int, int>({{110, 100}, {99, 99}, {61, 60}}));
  CAPTURE(ports, refused);
  FakeDaemon daemon;
  auto cluster = test::web_with({test::e1()});
  daemon.see(cluster);
  for (int number = 1; number <= 2; ++number)
    put_wide(cluster, 1000, static_cast<std::uint16_t>(ports), 100, netlink::Protocol::tcp, number);
  for (int port = 0; port < refused; ++port)
    daemon.ipvs.faults.fail(":" + std::to_string(1000 + port) + "/TCP",
                            {netlink::ErrorKind::malformed, 22, ""});
  daemon.hear(cluster);
  const auto before = daemon.writes();
  for (int i = 0; i < 40 && (i == 0 || daemon.has_turns()); ++i) daemon.run();
  CHECK_FALSE(daemon.has_turns());
  CHECK(daemon.writes() - before < 40'000);
  for (const auto* address : {"10.97.0.1", "10.97.0.2"}) {
    const netlink::VirtualServiceKey last{ip(address), netlink::Protocol::tcp,
                                          static_cast<std::uint16_t>(1000 + ports - 1)};
    CHECK(daemon.weights(last).size() == (refused < ports ? 100 : 0));
    CHECK(daemon.is_bound(address) == (refused < ports));
  }
}

// The two Services fit into one turn by what they have, and not by what they have to do.
TEST_CASE("a Service whose turn ends early waits under its own name") {
  FakeDaemon daemon;
  auto cluster = test::web_with({test::e1()});
  put_wide(cluster, 1000, 10, 300);
  daemon.see(cluster);
  put_wide(cluster, 2000, 10, 300);
  const auto web = test::web_with({test::e1(), test::e2()});
  cluster.slices[test::web_service().name] = web.slices.at(test::web_service().name);
  daemon.input_waits = true;
  daemon.hear(cluster);
  const auto before = daemon.writes();
  while (!serves_web_by(daemon, "10.244.1.4")) daemon.run();
  CHECK(daemon.writes() - before <= Turns::kMost + 100);
  daemon.run_turns();
  CHECK(daemon.weights({ip("10.97.0.1"), netlink::Protocol::tcp, 2009}).size() == 300);
}

}  // namespace
}  // namespace ipvsproxier::sync
