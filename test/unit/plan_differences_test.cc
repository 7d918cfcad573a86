// Each difference from kube-proxy that can be seen in a state at rest: what both make of the same.

#include <catch2/catch.hpp>

#include "test/unit/planned_lines.h"

namespace ipvsproxier::plan {
namespace {

using test::e1;
using test::e2;
using test::ip;
using test::Lines;
using test::planned;
using test::prefix;
using test::servers_of;
using test::starting;

// Kube-proxy's way, but for one.
PlannerOptions with(bool Differences::*difference) {
  auto options = test::vector_options();
  options.differences.*difference = true;
  return options;
}

TEST_CASE("internalTrafficPolicy Local of a Service that can be reached from outside means Local",
          "[item-5]") {
  auto service = test::node_port_service();
  service.internal_policy_local = true;
  const auto strict = with(&Differences::strict_internal_traffic_policy);
  const auto key = "10.96.0.9:80/TCP";
  CHECK(servers_of(planned(service, {e2()})).at(key) == Lines{"10.244.1.4:8080"});
  const auto far = servers_of(planned(service, {e2()}, strict));
  CHECK(far.at(key).empty());
  // From outside, the policy is another one.
  CHECK(far.at("10.0.0.1:30080/TCP") == Lines{"10.244.1.4:8080"});
  CHECK(servers_of(planned(service, {e1(), e2()}, strict)).at(key) == Lines{"10.244.0.3:8080"});
}

TEST_CASE("a load balancer without local endpoints keeps its fallback for clients on the node") {
  const auto strict = with(&Differences::strict_internal_traffic_policy);
  const auto services = servers_of(planned(test::local_load_balancer(), {e2()}, strict));
  CHECK(services.at("192.0.2.10:443/TCP") == Lines{"10.244.1.4:8080"});
}

TEST_CASE("a health check port is open where no address carries node ports", "[item-6]") {
  auto nowhere = test::vector_options();
  nowhere.node_port_addresses = {prefix("203.0.113.0/24")};
  const Lines open = {"element KUBE-HEALTH-CHECK-NODE-PORT 32000"};
  const auto health = [](const PlannerOptions& options) {
    return starting(planned(test::local_load_balancer(), {e1()}, options), "element KUBE-HEALTH");
  };
  CHECK(health(test::vector_options()) == open);
  CHECK(health(nowhere).empty());
  nowhere.differences.open_health_check_ports = true;
  CHECK(health(nowhere) == open);
}

TEST_CASE("only endpoints that get traffic are masqueraded when they reach themselves",
          "[item-14]") {
  const auto lean = with(&Differences::lean_loop_back);
  const auto hairpins = [](const std::vector<api::Endpoint>& endpoints,
                           const PlannerOptions& options) {
    return starting(planned(test::web_service(), endpoints, options), "element KUBE-LOOP");
  };
  const Lines here = {"element KUBE-LOOP-BACK 10.244.0.3,tcp:8080,10.244.0.3"};
  CHECK(hairpins({e1(), e2()}, lean) == here);
  CHECK(hairpins({e2()}, lean).empty());
  auto unready = e1();
  unready.ready = false;
  unready.serving = false;
  CHECK(hairpins({unready, e2()}, test::vector_options()) == here);
  CHECK(hairpins({unready, e2()}, lean).empty());
}

TEST_CASE("source ranges are judged by the node's IP as it is now", "[item-7]") {
  auto service = test::load_balancer();
  service.source_ranges = {prefix("10.0.0.0/24")};
  const auto cluster = test::cluster_of({service});
  auto node = test::vector_node();
  auto moved = node;
  moved.ips[netlink::Family::ipv4] = ip("192.168.0.1");
  const auto covered = [&](const PlannerOptions& options) {
    Planner planner(options);
    planner.set_node(node);
    planner.update({service.name}, cluster);
    planner.set_node(moved);
    planner.update({}, cluster);
    const auto& sets = planner.desired().sets;
    return !sets.at({netlink::Family::ipv4, ipset::SetId::load_balancer_source_ip}).empty();
  };
  CHECK(covered(test::vector_options()));
  CHECK_FALSE(covered(with(&Differences::follow_node_ip)));
}

// Whether source ranges cover a node that has 10.0.0.1 only some time after the start.
bool covers_later_ip(bool ips_known, const PlannerOptions& options) {
  auto service = test::load_balancer();
  service.source_ranges = {prefix("10.0.0.0/24")};
  auto early = test::vector_node();
  early.ips[netlink::Family::ipv4] = ip("127.0.0.1");
  early.ips_known = ips_known;
  Planner planner(options);
  planner.set_node(early);
  planner.set_node(test::vector_node());
  planner.update({service.name}, test::cluster_of({service}));
  const auto& sets = planner.desired().sets;
  return !sets.at({netlink::Family::ipv4, ipset::SetId::load_balancer_source_ip}).empty();
}

TEST_CASE("an IP that was not known at the start is not missed") {
  CHECK(covers_later_ip(false, test::vector_options()));
}

TEST_CASE("a family in which the Node had no IP at the start has none later") {
  CHECK_FALSE(covers_later_ip(true, test::vector_options()));
  CHECK(covers_later_ip(true, with(&Differences::follow_node_ip)));
}

TEST_CASE("the IPs of a node are known when its Node names some") {
  const auto known = [](const std::optional<api::Node>& node) {
    return node_info("n1", node, ip("10.0.0.9"), {}).ips_known;
  };
  CHECK_FALSE(known(std::nullopt));
  CHECK_FALSE(known(api::Node{.name = "n1"}));
  CHECK(known(api::Node{.name = "n1", .internal_ips = {ip("10.0.0.1")}}));
  CHECK(known(api::Node{.name = "n1", .external_ips = {ip("fd00:1::1")}}));
}

TEST_CASE("the primary address carries node ports where it is an address of a Service alone") {
  auto options = test::vector_options();
  options.node_port_primary = true;
  auto node = test::vector_node();
  node.ips[netlink::Family::ipv4] = ip("198.51.100.20");
  auto service = test::node_port_service();
  service.external_ips = {ip("198.51.100.20")};
  const auto services = servers_of(planned(service, {e1()}, options, node));
  CHECK(services.size() == 3);
  CHECK(services.contains("198.51.100.20:30080/TCP"));
}

}  // namespace
}  // namespace ipvsproxier::plan
