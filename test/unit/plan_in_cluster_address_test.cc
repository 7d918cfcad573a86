// Services whose external and internal policies are both Local: the address by which clients within
// the cluster reach them (PlannerOptions::in_cluster_ranges), with both packet filters.

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/plan/in_cluster.h"
#include "proxier/plan/in_cluster_address.h"
#include "test/unit/planned_lines.h"

namespace ipvsproxier::plan {
namespace {

using test::e1;
using test::e2;
using test::Lines;
using test::planned;
using test::servers_of;
using test::starting;

api::Service both_local() {
  auto service = test::local_load_balancer();
  service.internal_policy_local = true;
  return service;
}

PlannerOptions ranged_options(const char* range = "240.0.0.0/4") {
  auto options = test::vector_options();
  options.packet_filter = ipset::PacketFilter::nftables;
  options.differences.in_cluster_clients = true;
  options.node_port_addresses = {test::prefix("10.0.0.0/24")};
  options.in_cluster_ranges = {test::prefix(range)};
  return options;
}

TEST_CASE("both policies Local: in-cluster clients go to an address of the node's own") {
  {
    auto options = ranged_options();
    const auto lines = planned(both_local(), {e1(), e2()}, options);
    const auto servers = servers_of(lines);
    const Lines here{"10.244.0.3:8080"};
    CHECK(servers.at("192.0.2.10:443/TCP") == here);
    CHECK(servers.at("10.0.0.1:30443/TCP") == here);
    CHECK(servers.at("10.96.0.9:443/TCP") == here);
    CHECK(servers.at("250.96.0.9:443/TCP") == Lines{"10.244.0.3:8080", "10.244.1.4:8080"});
    CHECK(starting(lines, "address 250.96.0.9").size() == 1);
    CHECK(starting(lines, "element ip kube-ipvs in_cluster ") ==
          Lines{"element ip kube-ipvs in_cluster 10.0.0.1,tcp:30443,250.96.0.9:443",
                "element ip kube-ipvs in_cluster 192.0.2.10,tcp:443,250.96.0.9:443"});
    CHECK(starting(lines, "element ip kube-ipvs services 250.96.0.9,tcp:443,cluster").size() == 1);
    options.differences.in_cluster_clients = false;
    const auto off = servers_of(planned(both_local(), {e1(), e2()}, options));
    CHECK(off.size() == 3);
    CHECK_FALSE(off.contains("250.96.0.9:443/TCP"));
  }
}

TEST_CASE("both policies Local: the address is the cluster IP's last bits behind a range") {
  const auto made = [](const char* range, const char* cluster_ip) {
    return in_cluster_address(test::prefix(range), test::ip(cluster_ip)).to_string();
  };
  CHECK(made("240.0.0.0/4", "10.96.0.9") == "250.96.0.9");
  CHECK(made("198.18.0.0/15", "10.97.3.9") == "198.19.3.9");
  CHECK(made("198.51.100.0/24", "10.96.7.9") == "198.51.100.9");
  CHECK(made("fd69:7076:7300::/64", "fd00:96::a:9") == "fd69:7076:7300::a:9");
}

TEST_CASE("both policies Local: an address that somebody has is not used, and told") {
  const auto result_with = [](const PlannerOptions& options, const plan::NodeInfo& node) {
    const auto service = both_local();
    const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e1(), e2()})});
    return plan(cluster, node, options);
  };
  const auto is_told = [&](const PlannerOptions& options, const plan::NodeInfo& node) {
    const auto result = result_with(options, node);
    const auto& services = result.state.services;
    const bool has_own = std::ranges::any_of(
        services, [](const auto& one) { return one.second.facet == Facet::in_cluster; });
    CHECK_FALSE(has_own);
    for (const auto& set : {ipset::SetId::nft_in_cluster})
      CHECK(result.state.sets.at({netlink::Family::ipv4, set}).empty());
    REQUIRE(result.problems.size() == 1);
    return result.problems.front().message.find("--in-cluster-ranges") != std::string::npos;
  };
  const auto node = test::vector_node();
  auto options = ranged_options();
  CHECK(result_with(options, node).problems.empty());
  auto busy = node;
  busy.addresses.push_back({"eth1", test::ip("250.96.4.4"), 16});
  CHECK(is_told(options, busy));
  busy = node;
  busy.pod_cidrs.push_back(test::prefix("250.96.0.0/24"));
  CHECK(is_told(options, busy));
  CHECK(is_told(ranged_options("10.0.0.0/8"), node));
  options.cluster_cidrs.push_back(test::prefix("250.0.0.0/8"));
  CHECK(is_told(options, node));
}

// Whoever may write a Service may write externalIPs.
TEST_CASE("both policies Local: nobody takes the address by naming it, and of two one has it") {
  auto taker = test::web_service();
  taker.name.name = "a-taker";
  taker.cluster_ips = {test::ip("10.96.0.88")};
  taker.external_ips = {test::ip("250.96.0.9")};
  taker.ports.front().port = 443;
  taker.creation_time = 1;
  auto owner = both_local();
  owner.creation_time = 2;
  auto twin = both_local();
  twin.name.name = "z-twin";
  twin.cluster_ips = {test::ip("42.96.0.9")};  // of another /8, the same last 28 bits
  twin.load_balancer_ips = {test::ip("192.0.2.11")};
  twin.ports.front().node_port = 30444;
  twin.health_check_node_port = 0;
  twin.creation_time = 3;
  const auto cluster =
      test::cluster_of({taker, owner, twin, test::slice_of(owner, 8080, {e1(), e2()}),
                        test::slice_of(twin, 8080, {e1(), e2()})});
  Planner planner(ranged_options());
  planner.set_node(test::vector_node());
  planner.update_all(cluster);
  const netlink::VirtualServiceKey key{test::ip("250.96.0.9"), netlink::Protocol::tcp, 443};
  REQUIRE(planner.owner_of(key) != nullptr);
  CHECK(*planner.owner_of(key) == owner.name);
  CHECK(planner.desired().services.at(key).servers.size() == 2);
  CHECK(planner.problems().size() == 2);
  CHECK_FALSE(
      in_cluster_way_of(planner.desired(), {test::ip("192.0.2.11"), netlink::Protocol::tcp, 443}));
}

}  // namespace
}  // namespace ipvsproxier::plan
