// Node ports where nodePortAddresses covers addresses of Services.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/plan/planner.h"
#include "test/support/cluster_builder.h"
#include "test/unit/plan_options.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::plan {
namespace {

using netlink::Family;
using netlink::Protocol;
using test::ip;

// Another tenant's address and port, at which a node port might be.
const netlink::VirtualServiceKey kBalanced{ip("10.200.0.5"), Protocol::tcp, 30080};
const netlink::VirtualServiceKey kClusterIp{ip("10.96.0.10"), Protocol::tcp, 30080};

api::Service victim() {
  auto service = test::web_service();
  service.name = {"victims", "shop"};
  service.type = api::ServiceType::load_balancer;
  service.creation_time = 2020;
  service.cluster_ips = {kClusterIp.address};
  service.load_balancer_ips = {kBalanced.address};
  service.source_ranges = {test::prefix("192.0.2.0/24")};
  service.ports.front().port = 30080;
  return service;
}

api::Service with_node_port(std::int64_t created) {
  auto service = test::web_service();
  service.name = {"tenant", "grabber"};
  service.type = api::ServiceType::node_port;
  service.creation_time = created;
  service.ports.front().node_port = 30080;
  return service;
}

PlannerOptions wide_options(bool compat) {
  auto options = test::options_v4();
  options.node_port_addresses = {test::prefix("10.0.0.0/8")};
  if (compat) options.differences = kKubeProxyCompat;
  return options;
}

Plan both(std::int64_t created, bool compat) {
  std::vector<api::Object> objects;
  for (const auto& service : {victim(), with_node_port(created)}) {
    objects.emplace_back(test::slice_of(service, 8080, {test::e1()}));
    objects.emplace_back(service);
  }
  return plan(test::cluster_of(std::move(objects)), test::vector_node(), wide_options(compat));
}

TEST_CASE("a node port takes no address and port of another Service, whichever is older") {
  const bool compat = GENERATE(true, false);
  const std::int64_t created = GENERATE(2019, 2026);
  INFO(compat << " " << created);
  const auto result = both(created, compat);
  CHECK(result.state.services.at(kBalanced).facet == Facet::load_balancer);
  CHECK(result.state.services.at(kClusterIp).facet == Facet::cluster_ip);
  const auto ranges =
      result.state.sets.at({Family::ipv4, ipset::SetId::load_balancer_source_cidr}).size();
  CHECK(ranges == 1);
  CHECK(result.state.services.contains({ip("10.0.0.1"), Protocol::tcp, 30080}));
}

TEST_CASE("who loses an address to its owner is told so") {
  const auto result = both(2019, true);
  CHECK(
      test::lines_of(result.problems) ==
      std::vector<std::string>{
          "error: Service tenant/grabber: spec.ports[0].nodePort: 10.96.0.10:30080/TCP is claimed "
          "by Service victims/shop too, to which it was given: it keeps it, and this Service is "
          "not programmed there",
          "error: Service tenant/grabber: spec.ports[0].nodePort: 10.200.0.5:30080/TCP is claimed "
          "by Service victims/shop too, whose address it is: it keeps it, and this Service is "
          "not programmed there"});
  CHECK(both(2019, false).problems.empty());
}

TEST_CASE("node ports keep off addresses of Services, so that they do not multiply") {
  const auto count = [](bool compat) {
    std::vector<api::Object> objects;
    auto rich = test::web_service();
    for (int i = 1; i <= 50; ++i) rich.external_ips.push_back(ip("10.201.0." + std::to_string(i)));
    objects.emplace_back(rich);
    for (int i = 1; i <= 50; ++i) {
      auto service = with_node_port(i);
      service.name.name = "n" + std::to_string(i);
      service.cluster_ips = {ip("10.97.0." + std::to_string(i))};
      service.ports.front().node_port = static_cast<std::uint16_t>(30000 + i);
      objects.emplace_back(service);
    }
    return plan(test::cluster_of(std::move(objects)), test::vector_node(), wide_options(compat))
        .state.services.size();
  };
  // The node has two addresses. With kube-proxy: all of 101 addresses of Services as well.
  CHECK(count(false) == 51 + 50 + 2 * 50);
  CHECK(count(true) == 51 + 50 + (2 + 101) * 50);
}

TEST_CASE("a node port stays at the node's own address, whoever names that in externalIPs") {
  auto grabber = victim();
  grabber.load_balancer_ips = {};
  grabber.external_ips = {ip("10.0.0.1")};
  const auto node_port = with_node_port(2026);
  for (const bool compat : {true, false}) {
    const auto state =
        plan(test::cluster_of({grabber, node_port}), test::vector_node(), wide_options(compat))
            .state;
    CHECK(state.services.at({ip("10.0.0.1"), Protocol::tcp, 30080}).facet == Facet::node_port);
  }
}

}  // namespace
}  // namespace ipvsproxier::plan
