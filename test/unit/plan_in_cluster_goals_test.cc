// How many rules of iptables a Service of external policy Local asks for (in_cluster_goals.h).

#include <string>

#include <catch2/catch.hpp>

#include "test/unit/planned_lines.h"

namespace ipvsproxier::plan {
namespace {

PlannerOptions limited_options() {
  auto options = test::vector_options();
  options.differences = {};
  options.node_port_addresses = {test::prefix("10.0.0.0/24")};
  return options;
}

// What a Service asks for is a sum: ports without node ports take little of it.
TEST_CASE("policy Local with iptables: unequal ports are counted each for itself") {
  auto service = test::local_load_balancer();
  const auto last = service.ports.front();
  service.ports.clear();
  for (std::uint16_t i = 0; i < 40; ++i) {
    auto port = last;
    port.name = "p" + std::to_string(i);
    port.port = static_cast<std::uint16_t>(1000 + i);
    port.node_port = 0;
    service.ports.push_back(port);
  }
  service.ports.push_back(last);
  auto node = test::vector_node();
  for (int i = 10; i < 39; ++i)
    node.addresses.push_back({"eth0", test::ip("10.0.0." + std::to_string(i)), 24});
  const auto cluster =
      test::cluster_of({service, test::slice_of(service, 8080, {test::e1(), test::e2()})});
  const auto result = plan(cluster, node, limited_options());
  CHECK(result.problems.empty());
  CHECK(result.state.rules.at(netlink::Family::ipv4).in_cluster.size() == 41 + 30);
}

// Node ports on localhost have a way of their own.
TEST_CASE("policy Local with iptables: node ports on localhost take none of the share") {
  auto service = test::local_load_balancer();
  const auto last = service.ports.front();
  service.ports.clear();
  service.load_balancer_ips.clear();
  service.external_ips.clear();
  for (std::uint16_t i = 0; i < 12; ++i) {
    auto port = last;
    port.name = "p" + std::to_string(i);
    port.port = static_cast<std::uint16_t>(1000 + i);
    port.node_port = static_cast<std::uint16_t>(30'500 + i);
    service.ports.push_back(port);
  }
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {test::e1()})});
  auto options = limited_options();
  options.most_in_cluster_rules = 12 * 16;  // one a port and Service
  for (const bool localhost : {false, true}) {
    options.node_port_localhost = localhost;
    Planner planner(options);
    planner.set_node(test::vector_node());
    planner.update_all(cluster);
    CHECK(planner.problems().empty());
    CHECK(planner.desired().rules.at(netlink::Family::ipv4).in_cluster.size() == 12);
  }
}

// An address that another Service has takes no rule.
TEST_CASE("policy Local with iptables: what a Service does not get is not counted") {
  auto owner = test::local_load_balancer();
  owner.creation_time = 1;
  owner.external_policy_local = false;
  auto rival = test::local_load_balancer();
  rival.name.name = "rival";
  rival.creation_time = 2;
  rival.cluster_ips = {test::ip("10.96.0.77")};
  rival.external_ips = {test::ip("192.0.2.30")};
  rival.ports.front().node_port = 0;
  auto options = limited_options();
  options.most_in_cluster_rules = 16;  // one a Service
  const auto with = [&](const model::ClusterState& cluster) {
    const auto result = plan(cluster, test::vector_node(), options);
    return result.state.rules.at(netlink::Family::ipv4).in_cluster.size();
  };
  CHECK(with(test::cluster_of({rival})) == 0);
  CHECK(with(test::cluster_of({owner, rival})) == 1);
}

}  // namespace
}  // namespace ipvsproxier::plan
