// Node ports on localhost (nodePortAddresses: localhost), as they are planned.

#include "proxier/plan/localhost.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/rules/localhost_rules.h"
#include "proxier/plan/diff.h"
#include "proxier/plan/in_cluster.h"
#include "proxier/plan/node_ports.h"
#include "proxier/plan/service_report.h"
#include "test/support/kernel_model.h"
#include "test/unit/planned_lines.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::plan {
namespace {

using netlink::Protocol;
using test::e1;
using test::e2;
using test::Lines;
using test::planned;
using test::servers_of;
using test::starting;

constexpr const char* kBehindLoop = "169.254.107.3:30080/TCP";

PlannerOptions localhost_options() {
  auto options = test::vector_options();
  options.differences = {};
  options.packet_filter = ipset::PacketFilter::nftables;
  options.node_port_localhost = true;
  return options;
}

bool has_rules(const DesiredState& state) {
  return state.rules.at(netlink::Family::ipv4).localhost;
}

TEST_CASE("localhost: a node port has a virtual service behind the loop, and elements that lead") {
  const auto service = test::node_port_service();
  auto options = localhost_options();
  const auto lines = planned(service, {e1(), e2()}, options);
  // On localhost alone.
  CHECK(servers_of(lines).at(kBehindLoop) == Lines{"10.244.0.3:8080", "10.244.1.4:8080"});
  CHECK_FALSE(servers_of(lines).contains("10.0.0.1:30080/TCP"));
  CHECK(starting(lines, "address 169") == Lines{"address 169.254.107.3"});
  CHECK(starting(lines, "element ip kube-ipvs vips 169") ==
        Lines{"element ip kube-ipvs vips 169.254.107.3"});
  CHECK(starting(lines, "element ip kube-ipvs localhost") ==
        Lines{"element ip kube-ipvs localhost 127.0.0.1,tcp:30080,169.254.107.1:30080"});
  CHECK(starting(lines, "element ip kube-ipvs services 169") ==
        Lines{"element ip kube-ipvs services 169.254.107.3,tcp:30080,mark"});
  CHECK(starting(lines, "element ip kube-ipvs on_links 169").empty());
  // Beside others.
  options.node_port_primary = true;
  const auto both = servers_of(planned(service, {e1()}, options));
  CHECK(both.contains(kBehindLoop));
  CHECK(both.contains("10.0.0.1:30080/TCP"));
  options.node_port_primary = false;
  options.node_port_addresses = {test::prefix("0.0.0.0/0")};
  CHECK(servers_of(planned(service, {e1()}, options)).contains("10.0.0.1:30080/TCP"));
}

TEST_CASE("localhost: an opt-in, which no range includes") {
  for (const auto* range : {"0.0.0.0/0", "127.0.0.0/8", "169.254.0.0/16"}) {
    auto options = localhost_options();
    options.node_port_localhost = false;
    options.node_port_addresses = {test::prefix(range)};
    const auto cluster = test::cluster_of(
        {test::node_port_service(), test::slice_of(test::node_port_service(), 8080, {e1()})});
    const auto state = plan(cluster, test::vector_node(), options).state;
    CHECK_FALSE(has_rules(state));
    CHECK_FALSE(to_text(state).find("169.254.107") != std::string::npos);
  }
}

TEST_CASE("localhost: a port without an endpoint is left to the host, which refuses") {
  auto service = test::node_port_service();
  service.ports.front().protocol = GENERATE(Protocol::tcp, Protocol::sctp);
  const auto leading = [&](const std::vector<api::Endpoint>& some) {
    return starting(planned(service, some, localhost_options()),
                    "element ip kube-ipvs localhost 127.0.0.1");
  };
  CHECK(leading({e1()}).size() == 1);
  CHECK(leading({}).empty());
}

TEST_CASE("localhost: what guards the loop is there as long as something is behind it") {
  const auto service = test::node_port_service();
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e1()})});
  auto without = localhost_options();
  without.node_port_localhost = false;
  without.node_port_primary = true;
  const std::vector states{plan(cluster, test::vector_node(), without).state,
                           plan(cluster, test::vector_node(), localhost_options()).state};
  auto kernel = test::KernelModel::empty_for(states[0]);
  kernel.apply(diff(states[0], kernel.state));
  const auto& loop = ipset::localhost_loop(netlink::Family::ipv4);
  bool was_there = false;
  const auto check = [&] {
    const bool guarded = ipset::is_about_loop(
        kernel.state.rules.at({netlink::Family::ipv4, ipset::Table::kube_ipvs}));
    const auto first = kernel.state.services->lower_bound({loop.server});
    const bool there =
        kernel.state.addresses->contains(loop.server) ||
        (first != kernel.state.services->end() && first->first.address == loop.server);
    was_there = was_there || there;
    CHECK((guarded || !there));
  };
  for (const std::size_t to : {1U, 0U})
    for (const auto& phase : diff(states[to], kernel.state).phases) {
      INFO("to " << to << ", after " << phase.name);
      kernel.apply(phase);
      check();
    }
  CHECK(was_there);
  kernel.finish_drains(states[0]);
  kernel.apply(diff(states[0], kernel.state));
  check();
  CHECK(diff(states[0], kernel.state).empty());
  CHECK(kernel.violations == 0);
}

TEST_CASE("localhost: a Service of policy Local has endpoints here, or all for clients within") {
  auto service = test::node_port_service();
  service.external_policy_local = true;
  {
    auto options = localhost_options();
    options.node_port_primary = true;
    options.differences.in_cluster_clients = false;
    CHECK(servers_of(planned(service, {e1(), e2()}, options)).at(kBehindLoop) ==
          Lines{"10.244.0.3:8080"});
    // This node is such a client. The node's own address has endpoints here, and its own way.
    options.differences.in_cluster_clients = true;
    const auto lines = planned(service, {e1(), e2()}, options);
    CHECK(servers_of(lines).at(kBehindLoop) == Lines{"10.244.0.3:8080", "10.244.1.4:8080"});
    CHECK(servers_of(lines).at("10.0.0.1:30080/TCP") == Lines{"10.244.0.3:8080"});
    // Masqueraded in any case: nobody else knows the address of the loop.
    CHECK(starting(lines, "element ip kube-ipvs services 169") ==
          Lines{"element ip kube-ipvs services 169.254.107.3,tcp:30080,mark"});
  }
}

Lines problems_of(const NodeInfo& node, PlannerOptions options, bool* has = nullptr) {
  const auto service = test::node_port_service();
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e1()})});
  const auto result = plan(cluster, node, options);
  if (has != nullptr) *has = has_rules(result.state);
  CHECK(has_rules(result.state) ==
        (to_text(result.state).find("169.254.107") != std::string::npos));
  return test::lines_of(result.problems);
}

TEST_CASE(
    "localhost: what others have of its addresses, and what the kernel lacks, is one problem") {
  const std::string begin =
      "error: KubeProxyConfiguration: nodePortAddresses: localhost: no node port is on 127.0.0.1, "
      "all others are: ";
  const std::string needs = begin + "it needs 169.254.107.1 to 169.254.107.3, which are in ";
  bool has = false;
  auto node = test::vector_node();
  CHECK(problems_of(node, localhost_options(), &has).empty());
  CHECK(has);
  // Its own, and neighbours elsewhere in that range.
  node.addresses.push_back({"kube-ipvs0", test::ip("169.254.107.3"), 32});
  node.addresses.push_back({"eth2", test::ip("169.254.20.10"), 32});
  CHECK(problems_of(node, localhost_options(), &has).empty());
  CHECK(has);

  auto other = node;
  other.addresses.push_back({"eth1", test::ip("169.254.7.7"), 16});
  CHECK(problems_of(other, localhost_options(), &has) ==
        Lines{needs + "the network of eth1, 169.254.0.0/16"});
  CHECK_FALSE(has);
  other = node;
  other.pod_cidrs = {test::prefix("169.254.107.0/24")};
  CHECK(problems_of(other, localhost_options()) ==
        Lines{needs + "the range of this node's pods 169.254.107.0/24"});
  auto options = localhost_options();
  options.cluster_cidrs = {test::prefix("169.254.0.0/16")};
  CHECK(problems_of(node, options) == Lines{needs + "the range of pods 169.254.0.0/16"});
  other = node;
  other.no_localhost[netlink::Family::ipv4] = "no veth";
  CHECK(problems_of(other, localhost_options()) == Lines{begin + "no veth"});
  options = localhost_options();
  options.packet_filter = ipset::PacketFilter::iptables;
  CHECK(problems_of(node, options, &has) ==
        Lines{begin + "legacy iptables has no rules for it; --packet-filter=nftables has"});
  CHECK_FALSE(has);
  options.node_port_localhost = false;
  CHECK(problems_of(other, options).empty());
}

TEST_CASE("localhost: no Service gets one of its addresses") {
  auto service = test::web_service();
  service.external_ips = {test::ip("169.254.107.3"), test::ip("192.0.2.7")};
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e1()})});
  const auto result = plan(cluster, test::vector_node(), localhost_options());
  CHECK(result.state.addresses.contains(test::ip("192.0.2.7")));
  CHECK_FALSE(result.state.addresses.contains(test::ip("169.254.107.3")));
  CHECK(test::lines_of(result.problems) ==
        Lines{"warning: Service default/web: spec.externalIPs: 169.254.107.3 is a loopback address "
              "of ipvs-proxier's, which every node has for itself: it is not proxied; all else of "
              "the Service is"});
  // Else they are as any other.
  auto options = localhost_options();
  options.node_port_localhost = false;
  CHECK(plan(cluster, test::vector_node(), options)
            .state.addresses.contains(test::ip("169.254.107.3")));
}

TEST_CASE("localhost: connection tracking knows such flows by the way to the loop") {
  const auto service = test::node_port_service();
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e1()})});
  const auto state = plan(cluster, test::vector_node(), localhost_options()).state;
  const netlink::VirtualServiceKey near{test::ip("169.254.107.1"), Protocol::tcp, 30080};
  const netlink::VirtualServiceKey server{test::ip("169.254.107.3"), Protocol::tcp, 30080};
  CHECK(in_cluster_way_of(state, near) == server);
  CHECK_FALSE(in_cluster_way_of(state, server));
  CHECK(InClusterWays{}.to(server) == InClusterWays::Keys{near});
}

TEST_CASE("localhost: health checks are served there, as kube-proxy serves them") {
  auto options = localhost_options();
  const auto addresses =
      health_addresses(test::vector_node(), netlink::Family::ipv4, options).value();
  CHECK(addresses == std::set{test::ip("127.0.0.1")});
}

TEST_CASE("localhost: what is planned at once is what comes of changes of the node") {
  const auto service = test::node_port_service();
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e1()})});
  auto without = test::vector_node();
  without.no_localhost[netlink::Family::ipv4] = "not yet";
  Planner planner(localhost_options());
  planner.set_node(without);
  planner.update_all(cluster);
  CHECK_FALSE(has_rules(planner.desired()));
  planner.set_node(test::vector_node());
  const auto scope = planner.update({}, cluster);
  CHECK(scope.rules.contains(netlink::Family::ipv4));
  CHECK(planner.desired() == plan(cluster, test::vector_node(), localhost_options()).state);
  planner.set_node(without);
  planner.update({}, cluster);
  CHECK(planner.desired() == plan(cluster, without, localhost_options()).state);
}

TEST_CASE("localhost: who reaches a node port of policy Local there is told") {
  auto service = test::node_port_service();
  service.external_policy_local = true;
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e1(), e2()})});
  for (const bool within : {true, false}) {
    auto options = localhost_options();
    options.differences.in_cluster_clients = within;
    Planner planner(options);
    planner.set_node(test::vector_node());
    planner.update_all(cluster);
    const auto reports = planner.report_of(service.name, cluster);
    REQUIRE(reports.size() == 1);
    const auto& reach = reports.front().reach;
    const auto here = std::ranges::find(reach, Client::localhost, &ClientReach::client);
    REQUIRE(here != reach.end());
    CHECK(*here == ClientReach{.client = Client::localhost,
                               .at_node_port = true,
                               .outcome = ReachOutcome::served,
                               .here = 1,
                               .elsewhere = within ? 1U : 0U,
                               .keeps_source = false});
  }
}

}  // namespace
}  // namespace ipvsproxier::plan
