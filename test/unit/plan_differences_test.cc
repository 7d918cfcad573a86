// Each difference from kube-proxy that can be seen in a state at rest: what both make of the same.

#include <catch2/catch.hpp>

#include "proxier/plan/node_ports.h"
#include "test/unit/planned_lines.h"

namespace ipvsproxier::plan {
namespace {

using netlink::Family;
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

TEST_CASE("an endpoint that is ready and not ready, in one slice, is ready") {
  auto gone = e1();
  gone.ready = gone.serving = false;
  const auto ready_wins = with(&Differences::ready_wins);
  const auto key = "10.96.0.9:80/TCP";
  const auto service = test::node_port_service();
  CHECK(servers_of(planned(service, {e1(), gone})).at(key).empty());
  CHECK(servers_of(planned(service, {e1(), gone}, ready_wins)).at(key) == Lines{"10.244.0.3:8080"});
  CHECK(servers_of(planned(service, {gone, e1()}, ready_wins)).at(key) == Lines{"10.244.0.3:8080"});
}

TEST_CASE("endpoints whose source tells no pod are in a set, for what drops invalid packets") {
  auto options = with(&Differences::drop_invalid);
  const auto others = [&](const auto& endpoints) {
    return starting(planned(test::node_port_service(), endpoints, options),
                    "element KUBE-OTHER-ENDPOINTS");
  };
  const std::vector both{e1(), e2()};
  options.cluster_cidrs = {prefix("10.244.0.0/16")};
  CHECK(others(both).empty());
  options.cluster_cidrs = {prefix("10.244.0.0/24")};
  CHECK(others(both) == Lines{"element KUBE-OTHER-ENDPOINTS 10.244.1.4"});
  options.cluster_cidrs = {};
  CHECK(others(both) == Lines{"element KUBE-OTHER-ENDPOINTS 10.244.0.3",
                              "element KUBE-OTHER-ENDPOINTS 10.244.1.4"});
  auto of_udp = test::node_port_service();
  for (auto& port : of_udp.ports) port.protocol = netlink::Protocol::udp;
  CHECK(starting(planned(of_udp, both, options), "element KUBE-OTHER-ENDPOINTS").empty());
  options.differences.drop_invalid = false;
  CHECK(others(both).empty());
}

TEST_CASE("addresses of load balancers are in a set, for the port of our health server") {
  auto options = with(&Differences::open_health_check_ports);
  auto web = test::node_port_service();
  web.external_ips = {test::ip("192.0.2.7")};
  web.load_balancer_ips = {test::ip("192.0.2.1"), test::ip("192.0.2.2")};
  const auto open_at = [&] {
    return starting(planned(web, {e1()}, options), "element KUBE-HEALTHZ");
  };
  CHECK(open_at().empty());
  options.healthz_port = 10256;
  CHECK(open_at() == Lines{"element KUBE-HEALTHZ 192.0.2.1", "element KUBE-HEALTHZ 192.0.2.2"});
  web.load_balancer_ips = {};
  CHECK(open_at().empty());
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

TEST_CASE("schedulers with a table of real servers pass over those that drain") {
  const auto fallback = with(&Differences::scheduler_fallback);
  const auto flags = [](const char* scheduler, PlannerOptions options) {
    options.scheduler = scheduler;
    const auto cluster = test::cluster_of({test::web_service()});
    const auto state = plan(cluster, test::vector_node(), options).state;
    return state.services.begin()->second.service.flags;
  };
  using netlink::kSchedulerFlag1;
  using netlink::kSchedulerFlag2;
  CHECK(flags("mh", fallback) == (kSchedulerFlag1 | kSchedulerFlag2));
  CHECK(flags("mh", test::vector_options()) == kSchedulerFlag2);
  CHECK(flags("sh", fallback) == kSchedulerFlag1);
  CHECK(flags("sh", test::vector_options()) == 0);
  CHECK(flags("rr", fallback) == 0);
}

TEST_CASE("source ranges are judged by the node's IP as it is now", "[item-7]") {
  auto service = test::load_balancer();
  service.source_ranges = {prefix("10.0.0.0/24")};
  const auto cluster = test::cluster_of({service});
  const auto covered_after = [&](const char* node_ip) {
    Planner planner(test::vector_options());
    auto node = test::vector_node();
    planner.set_node(node);
    planner.update({service.name}, cluster);
    node.ips[Family::ipv4] = ip(node_ip);
    planner.set_node(node);
    planner.update({}, cluster);
    const auto& sets = planner.desired().sets;
    return !sets.at({Family::ipv4, ipset::SetId::load_balancer_source_ip}).empty();
  };
  CHECK(covered_after("10.0.0.7"));
  CHECK_FALSE(covered_after("192.168.0.1"));
}

using Node = std::optional<api::Node>;

// Of each family, after these were seen one after the other.
Lines ips_after(const std::vector<Node>& seen, bool follow,
                const std::optional<netlink::IpAddress>& bind_address = std::nullopt) {
  NodeIps ips(follow, bind_address);
  for (const auto& node : seen) ips.take(node);
  return {ips.of(Family::ipv4).to_string(), ips.of(Family::ipv6).to_string()};
}

Node node_with(const std::vector<netlink::IpAddress>& internal,
               const std::vector<netlink::IpAddress>& external = {}) {
  return api::Node{.name = "n1", .internal_ips = internal, .external_ips = external};
}

TEST_CASE("the node's IPs are the first of its Node, internal ones before external ones") {
  const auto one = ip("10.0.0.1");
  const auto two = ip("10.0.0.2");
  const auto six = ip("fd00:1::1");
  const bool follow = GENERATE(true, false);
  CHECK(ips_after({}, follow) == Lines{"127.0.0.1", "::1"});
  CHECK(ips_after({std::nullopt, node_with({})}, follow) == Lines{"127.0.0.1", "::1"});
  CHECK(ips_after({node_with({one, two}, {six})}, follow) == Lines{"10.0.0.1", "fd00:1::1"});
  CHECK(ips_after({node_with({six}, {two, one})}, follow) == Lines{"10.0.0.2", "fd00:1::1"});
  CHECK(ips_after({node_with({one, six})}, follow, two) == Lines{"10.0.0.2", "fd00:1::1"});
  CHECK(ips_after({node_with({one})}, follow, ip("0.0.0.0")) == Lines{"10.0.0.1", "::1"});
  // One that was not known at the start is not missed.
  CHECK(ips_after({std::nullopt, node_with({}), node_with({one})}, follow) ==
        Lines{"10.0.0.1", "::1"});
}

TEST_CASE("the node's IPs follow the Node, and stay while it names none", "[item-7]") {
  const auto one = ip("10.0.0.1");
  const auto two = ip("10.0.0.2");
  const auto six = ip("fd00:1::1");
  const auto far = ip("203.0.113.9");
  CHECK(ips_after({node_with({one}), node_with({two, six})}, true) ==
        Lines{"10.0.0.2", "fd00:1::1"});
  CHECK(ips_after({node_with({one, six}), node_with({six})}, true) ==
        Lines{"10.0.0.1", "fd00:1::1"});
  CHECK(ips_after({node_with({one, six}), node_with({}), std::nullopt}, true) ==
        Lines{"10.0.0.1", "fd00:1::1"});
  CHECK(ips_after({node_with({one}, {far}), node_with({}, {far})}, true) ==
        Lines{"10.0.0.1", "::1"});
  CHECK(ips_after({node_with({}, {far}), node_with({}, {two}), node_with({one}, {two})}, true) ==
        Lines{"10.0.0.1", "::1"});
  // kube-proxy keeps those of its start, also that a family has none.
  CHECK(ips_after({node_with({one}), node_with({two, six})}, false) == Lines{"10.0.0.1", "::1"});
}

TEST_CASE("an IP that is recalled counts until the Node names one") {
  NodeIps ips;
  ips.recall(ip("10.0.0.7"));
  ips.take(std::nullopt);
  CHECK(ips.of(Family::ipv4) == ip("10.0.0.7"));
  CHECK_FALSE(ips.is_current(Family::ipv4));
  ips.take(node_with({}, {ip("203.0.113.9")}));
  CHECK(ips.of(Family::ipv4) == ip("203.0.113.9"));
  CHECK(ips.is_current(Family::ipv4));
  ips.recall(ip("10.0.0.7"));
  CHECK(ips.of(Family::ipv4) == ip("203.0.113.9"));
}

TEST_CASE("while the primary address is not known, node ports are nowhere") {
  auto options = with(&Differences::follow_node_ip);
  options.node_port_primary = true;
  auto node = test::vector_node();
  node.ips[Family::ipv4] = NodeIps().of(Family::ipv4);
  const auto service = test::node_port_service();
  CHECK(servers_of(planned(service, {e1()}, options, node)).size() == 1);
  const std::set<netlink::IpAddress> loopback = {ip("127.0.0.1")};
  CHECK(health_addresses(node, Family::ipv4, options) == loopback);
  // kube-proxy's way.
  options.differences.follow_node_ip = false;
  CHECK(servers_of(planned(service, {e1()}, options, node)).size() == 3);
  CHECK(health_addresses(node, Family::ipv4, options) == std::nullopt);
}

TEST_CASE("node ports are on the primary address and in the ranges beside it") {
  auto options = test::vector_options();
  options.node_port_primary = true;
  options.node_port_addresses = {prefix("192.168.7.0/24")};
  auto node = test::vector_node();
  node.addresses.push_back({"eth1", ip("192.168.7.9"), 24});
  node.addresses.push_back({"eth2", ip("172.16.0.9"), 24});
  const auto services = servers_of(planned(test::node_port_service(), {e1()}, options, node));
  CHECK(services.contains(node.ips[Family::ipv4].to_string() + ":30080/TCP"));
  CHECK(services.contains("192.168.7.9:30080/TCP"));
  CHECK_FALSE(services.contains("172.16.0.9:30080/TCP"));
}

TEST_CASE("the primary address carries node ports where it is an address of a Service alone") {
  auto options = test::vector_options();
  options.node_port_primary = true;
  auto node = test::vector_node();
  node.ips[Family::ipv4] = ip("198.51.100.20");
  auto service = test::node_port_service();
  service.external_ips = {ip("198.51.100.20")};
  const auto services = servers_of(planned(service, {e1()}, options, node));
  CHECK(services.size() == 3);
  CHECK(services.contains("198.51.100.20:30080/TCP"));
}

TEST_CASE("a loopback address is no Service's: bound, it would be closed but for that port") {
  auto web = test::web_service();
  web.external_ips = {test::ip("127.0.0.1"), test::ip("192.0.2.1")};
  web.load_balancer_ips = {test::ip("127.8.8.8")};
  const auto cluster = test::cluster_of({web, test::slice_of(web, 8080, {test::e1()})});
  for (const bool ours : {true, false}) {
    PlannerOptions options;
    options.differences.unbind_special = ours;
    const auto [state, problems] = plan(cluster, test::vector_node(), options);
    CHECK(state.addresses.contains(test::ip("192.0.2.1")));
    REQUIRE(problems.size() == (ours ? 1 : 0));
    if (ours) {
      CHECK(problems[0].object == "Service default/web");
      CHECK(problems[0].field == "spec.externalIPs");
      CHECK_THAT(problems[0].message, Catch::StartsWith("127.0.0.1 is a loopback address"));
    }
    for (const char* address : {"127.0.0.1", "127.8.8.8"}) {
      CHECK(state.addresses.contains(test::ip(address)) != ours);
      CHECK(state.services.contains({test::ip(address), netlink::Protocol::tcp, 80}) != ours);
    }
  }
}

}  // namespace
}  // namespace ipvsproxier::plan
