// Two Services that ask for one virtual service.

#include <random>

#include <catch2/catch.hpp>

#include "proxier/plan/planner.h"
#include "test/support/cluster_builder.h"
#include "test/unit/plan_options.h"

namespace ipvsproxier::plan {
namespace {

using netlink::Family;
using netlink::Protocol;
using test::ip;

api::Service claimant(const std::string& name, const std::string& cluster_ip,
                      std::optional<std::int64_t> created) {
  auto service = test::web_service();
  service.name.name = name;
  service.origin = name + ".yaml";
  service.creation_time = created;
  service.cluster_ips = {ip(cluster_ip)};
  service.external_ips = {ip("198.51.100.20")};
  return service;
}

struct Settled : Plan {
  std::string owner_of_shared;
};

Settled plan_of(std::vector<api::Service> services) {
  std::vector<api::Object> objects;
  for (auto& service : services) {
    objects.emplace_back(test::slice_of(service, 8080, {test::endpoint("10.244.0.3", "n1")}));
    objects.emplace_back(std::move(service));
  }
  const auto cluster = test::cluster_of(std::move(objects));
  std::set<api::NamespacedName> names;
  for (const auto& [name, service] : cluster.services) names.insert(name);
  Planner planner(test::options_v4());
  planner.set_node(test::vector_node());
  planner.update(names, cluster);
  const auto* owner = planner.owner_of({ip("198.51.100.20"), Protocol::tcp, 80});
  return {{planner.desired(), planner.problems()}, owner == nullptr ? "" : owner->name};
}

TEST_CASE("the older Service keeps a contested VIP, whatever the names") {
  const auto result = plan_of({claimant("a", "10.96.0.1", 200), claimant("b", "10.96.0.2", 100)});
  CHECK(result.owner_of_shared == "b");
  REQUIRE(result.problems.size() == 1);
  CHECK(api::to_string(result.problems[0]) ==
        "a.yaml: Service default/a: spec.externalIPs: 198.51.100.20:80/TCP is claimed by Service "
        "default/b (b.yaml) too, which is older: it keeps it, and this Service is not programmed "
        "there");
  // The loser keeps what nobody contests.
  CHECK(result.state.services.contains({ip("10.96.0.1"), Protocol::tcp, 80}));
  CHECK(result.state.addresses.contains(ip("10.96.0.1")));
}

TEST_CASE("at equal or missing age the name decides") {
  using Age = std::optional<std::int64_t>;
  const auto [first, second] = GENERATE(
      table<Age, Age>({{Age(7), Age(7)}, {Age(9), Age()}, {Age(), Age(1)}, {Age(), Age()}}));
  const auto result =
      plan_of({claimant("a", "10.96.0.1", first), claimant("b", "10.96.0.2", second)});
  CHECK(result.owner_of_shared == "a");
  REQUIRE(result.problems.size() == 1);
  CHECK(result.problems[0].object == "Service default/b");
  CHECK(result.problems[0].severity == api::Severity::error);
}

TEST_CASE("among three every loser is told") {
  const auto result = plan_of({claimant("a", "10.96.0.1", 3), claimant("b", "10.96.0.2", 1),
                               claimant("c", "10.96.0.3", 2)});
  CHECK(result.owner_of_shared == "b");
  CHECK(result.problems.size() == 2);
}

// The address of `old` is that of `young`, which has it from the API server.
TEST_CASE("what a Service was given is not another's that names it in externalIPs, however old") {
  auto old = claimant("a", "10.96.0.1", 1);
  auto young = claimant("b", "10.96.0.2", 2);
  young.external_ips.clear();
  SECTION("a cluster IP") {
    old.external_ips = young.cluster_ips;
  }
  SECTION("a cluster IP that is among its own externalIPs, too") {
    young.external_ips = old.external_ips = young.cluster_ips;
  }
  SECTION("a cluster IP that a load balancer's status names") {
    old.type = api::ServiceType::load_balancer;
    old.external_ips.clear();
    old.load_balancer_ips = young.cluster_ips;
  }
  SECTION("a node port") {
    young.ports[0].node_port = 30080;
    old.ports[0].port = 30080;
    old.external_ips = {ip("10.0.0.1")};
  }
  const auto of_young = plan_of({young}).state;
  const auto result = plan_of({old, young});
  for (const auto& [key, planned] : of_young.services) {
    INFO(to_string(key));
    CHECK(result.state.services.at(key).servers.size() == planned.servers.size());
    CHECK(result.state.services.at(key).facet == planned.facet);
  }
  REQUIRE(result.problems.size() == 1);
  CHECK_THAT(api::to_string(result.problems[0]),
             Catch::StartsWith("a.yaml: Service default/a: ") &&
                 Catch::Contains("to which it was given: it keeps it"));
}

// Controllers take wishes (spec.loadBalancerIP, annotations) or name node IPs.
TEST_CASE("a load balancer's status takes no address from an older Service that names it") {
  auto old = claimant("a", "10.96.0.1", 1);
  auto young = claimant("b", "10.96.0.2", 2);
  young.external_ips.clear();
  young.type = api::ServiceType::load_balancer;
  young.load_balancer_ips = old.external_ips;
  const auto result = plan_of({old, young});
  for (const auto& [key, planned] : plan_of({old}).state.services) {
    INFO(to_string(key));
    CHECK(result.state.services.at(key).facet == planned.facet);
  }
  REQUIRE(result.problems.size() == 1);
  CHECK_THAT(api::to_string(result.problems[0]), Catch::Contains("which is older: it keeps it"));
}

TEST_CASE("who loses a VIP lets nobody in there: its source ranges and elements do not count") {
  auto owner = claimant("a", "10.96.0.1", 1);
  owner.type = api::ServiceType::load_balancer;
  owner.external_ips.clear();
  owner.load_balancer_ips = {ip("192.0.2.10")};
  owner.source_ranges = {test::prefix("203.0.113.0/24")};
  auto intruder = claimant("b", "10.96.0.2", 2);
  intruder.type = api::ServiceType::load_balancer;
  intruder.load_balancer_ips = intruder.external_ips = owner.load_balancer_ips;
  intruder.external_policy_local = true;
  SECTION("no ranges") {}
  SECTION("everybody") {
    intruder.source_ranges = {test::prefix("0.0.0.0/0")};
  }
  SECTION("others") {
    intruder.source_ranges = {test::prefix("198.51.100.0/24")};
  }
  const auto alone = plan_of({owner}).state;
  const auto both = plan_of({owner, intruder}).state;
  for (const auto& [key, elements] : both.sets) {
    if (key.id == ipset::SetId::cluster_ip || key.id == ipset::SetId::ipvs_ips) continue;
    INFO(ipset::set_name(key.id, key.family));
    CHECK(elements.size() == alone.sets.at(key).size());
  }
  CHECK(both.rules == alone.rules);
}

TEST_CASE("of very many losers the first are told, and that there are more") {
  std::vector<api::Service> services;
  for (int i = 0; i < 150; ++i)
    services.push_back(claimant(std::to_string(1000 + i), "10.96.1." + std::to_string(i + 1), i));
  const auto all = plan_of(services);
  REQUIRE(all.problems.size() == Claims::kMostTold + 1);
  CHECK(all.problems.front().object == "Service default/1001");
  CHECK(api::to_string(all.problems.back()) ==
        "Services: more of them claim what others have: `ipvsctl service NAMESPACE/NAME` tells it "
        "of one");
  services.resize(Claims::kMostTold + 1);
  CHECK(plan_of(services).problems.size() == Claims::kMostTold);
}

TEST_CASE("node ports are contested too, and named with their field") {
  auto a = claimant("a", "10.96.0.1", 1);
  auto b = claimant("b", "10.96.0.2", 2);
  for (auto* service : {&a, &b}) {
    service->external_ips.clear();
    service->ports[0].node_port = 30080;
  }
  const auto result = plan_of({a, b});
  REQUIRE(result.problems.size() == 2);  // one an address
  CHECK(result.problems[0].field == "spec.ports[0].nodePort");
  CHECK(result.problems[0].object == "Service default/b");
  CHECK(result.state.sets.at({Family::ipv4, ipset::SetId::node_port_tcp}).size() == 1);
}

TEST_CASE("one VIP with different ports or protocols is shared in peace") {
  auto a = claimant("a", "10.96.0.1", 1);
  auto b = claimant("b", "10.96.0.2", 2);
  b.ports[0].protocol = Protocol::udp;
  CHECK(plan_of({a, b}).problems.empty());
  b.ports[0] = {"", Protocol::tcp, 81, 0};
  CHECK(plan_of({a, b}).problems.empty());
}

// All that claim one VIP come, change and go in any order: who has it is what planning all at once
// says.
TEST_CASE("who has a contested VIP does not depend on the order of what happened") {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
    Planner planner(test::options_v4());
    planner.set_node(test::vector_node());
    model::ClusterState cluster;
    for (int step = 0; step < 60; ++step) {
      const auto number = random() % 8;
      auto service = claimant(std::string(1, static_cast<char>('a' + number)),
                              "10.96.0." + std::to_string(number + 1), std::nullopt);
      if (chance(90)) service.creation_time = random() % 4;
      if (chance(30)) service.external_ips.clear();
      // Two ports may claim the same.
      if (chance(30)) service.ports.push_back(service.ports[0]);
      model::Changes changes;
      if (chance(30))
        changes.services[service.name] = std::nullopt;
      else
        changes.put(service);
      planner.update(cluster.take(std::move(changes)).services, cluster);
      const auto fresh = plan(cluster, test::vector_node(), test::options_v4());
      REQUIRE(planner.desired() == fresh.state);
      REQUIRE(planner.problems() == fresh.problems);
    }
  }
}

TEST_CASE("of many who claim one VIP those are planned again that win or lose it") {
  Planner planner(test::options_v4());
  planner.set_node(test::vector_node());
  std::vector<api::Object> objects;
  for (int i = 0; i < 50; ++i)
    objects.emplace_back(claimant("s" + std::to_string(i), "10.96.1." + std::to_string(i + 1), i));
  auto cluster = test::cluster_of(std::move(objects));
  planner.update_all(cluster);
  const auto services_after = [&](const std::string& name, std::optional<std::int64_t> created) {
    model::Changes changes;
    auto& service = changes.services[{"default", name}];
    if (created) service = claimant(name, "10.96.2." + name.substr(1), *created);
    const auto scope = planner.update(cluster.take(std::move(changes)).services, cluster);
    return scope.services.size();
  };
  // A loser: its own cluster IP, as it was and as it is.
  CHECK(services_after("s30", 30) == 2);
  // The one that had the VIP goes, and comes back.
  CHECK(services_after("s0", std::nullopt) == 3);
  CHECK(planner.owner_of({ip("198.51.100.20"), Protocol::tcp, 80})->name == "s1");
  CHECK(services_after("s0", 0) == 3);
  CHECK(planner.problems().size() == 49);
}

TEST_CASE("one Service may reach a VIP in two ways") {
  auto service = claimant("a", "10.96.0.1", 1);
  service.type = api::ServiceType::load_balancer;
  service.load_balancer_ips = service.external_ips;
  const auto result = plan_of({service});
  CHECK(result.problems.empty());
  CHECK(result.state.sets.at({Family::ipv4, ipset::SetId::load_balancer}).size() == 1);
  CHECK(result.state.sets.at({Family::ipv4, ipset::SetId::external_ip}).size() == 1);
}

}  // namespace
}  // namespace ipvsproxier::plan
