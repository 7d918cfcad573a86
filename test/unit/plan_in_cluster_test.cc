// Services of external policy Local, as this node and its pods reach them (PlannerOptions'
// difference in_cluster_clients), with nf_tables.

#include <algorithm>

#include <catch2/catch.hpp>

#include "proxier/plan/diff.h"
#include "test/support/kernel_model.h"
#include "test/unit/planned_lines.h"

namespace ipvsproxier::plan {
namespace {

using test::e1;
using test::e2;
using test::Lines;
using test::planned;
using test::servers_of;
using test::starting;

PlannerOptions in_cluster_options() {
  auto options = test::vector_options();
  options.packet_filter = ipset::PacketFilter::nftables;
  options.differences.in_cluster_clients = true;
  options.node_port_addresses = {test::prefix("10.0.0.0/24")};
  return options;
}

Lines elements_in(const Lines& lines, const std::string& set) {
  return starting(lines, "element ip kube-ipvs " + set + " ");
}

TEST_CASE("policy Local: in-cluster clients go to the cluster IP, others to endpoints here alone") {
  const auto service = test::local_load_balancer();
  const auto verdicts = [](const char* of_external) {
    return Lines{std::string("element ip kube-ipvs services 10.0.0.1,tcp:30443,") + of_external,
                 "element ip kube-ipvs services 10.96.0.9,tcp:443,cluster",
                 std::string("element ip kube-ipvs services 192.0.2.10,tcp:443,") + of_external};
  };
  const Lines destinations{"element ip kube-ipvs in_cluster 10.0.0.1,tcp:30443,10.96.0.9:443",
                           "element ip kube-ipvs in_cluster 192.0.2.10,tcp:443,10.96.0.9:443"};
  const auto sorted = [](Lines lines) {
    std::ranges::sort(lines);
    return lines;
  };
  for (const bool here : {true, false}) {
    const auto lines =
        planned(service, here ? std::vector{e1(), e2()} : std::vector{e2()}, in_cluster_options());
    CHECK(sorted(elements_in(lines, "services")) == verdicts(here ? "local" : "absent"));
    CHECK(sorted(elements_in(lines, "in_cluster")) == destinations);
    const auto servers = servers_of(lines);
    const Lines local = here ? Lines{"10.244.0.3:8080"} : Lines{};
    CHECK(servers.at("192.0.2.10:443/TCP") == local);
    CHECK(servers.at("10.0.0.1:30443/TCP") == local);
    CHECK(servers.at("10.96.0.9:443/TCP").size() == (here ? 2 : 1));
  }
  // Nobody anywhere: all are refused.
  const auto none = planned(service, {}, in_cluster_options());
  CHECK(sorted(elements_in(none, "services")) == verdicts("local"));
  CHECK(sorted(elements_in(none, "in_cluster")) == destinations);
}

TEST_CASE("policy Local: nothing of it with iptables, or where the internal policy is Local too") {
  auto service = test::local_load_balancer();
  auto options = in_cluster_options();
  service.internal_policy_local = true;
  auto lines = planned(service, {e2()}, options);
  CHECK(elements_in(lines, "in_cluster").empty());
  CHECK(servers_of(lines).at("192.0.2.10:443/TCP") == Lines{"10.244.1.4:8080"});
  options.packet_filter = ipset::PacketFilter::iptables;
  auto without = options;
  without.differences.in_cluster_clients = false;
  service.internal_policy_local = false;
  CHECK(planned(service, {e2()}, options) == planned(service, {e2()}, without));
}

// The places of what lets packets in (or shuts them out) and of changes of real servers.
struct InClusterOrder {
  int verdict = -1;
  int servers = -1;
};

InClusterOrder order_in(const Transaction& transaction) {
  InClusterOrder order;
  int place = 0;
  for (const auto& phase : transaction.phases) {
    ++place;
    if (const auto* changes = std::get_if<std::vector<SetChange>>(&phase.work))
      for (const auto& change : *changes)
        if (change.set.id == ipset::SetId::nft_services) order.verdict = place;
    if (std::holds_alternative<std::vector<netlink::IpvsOp>>(phase.work)) order.servers = place;
  }
  return order;
}

TEST_CASE(
    "policy Local: packets that are dropped are let in behind the endpoint that serves them") {
  const auto service = test::local_load_balancer();
  const auto state = [&](std::vector<api::Endpoint> endpoints) {
    const auto cluster =
        test::cluster_of({service, test::slice_of(service, 8080, std::move(endpoints))});
    return plan(cluster, test::vector_node(), in_cluster_options()).state;
  };
  const auto elsewhere = state({e2()});
  const auto here = state({e1(), e2()});
  auto kernel = test::KernelModel::empty_for(elsewhere);
  kernel.apply(diff(elsewhere, kernel.state));

  const auto comes = diff(here, kernel.state);
  CHECK(order_in(comes).servers > 0);
  CHECK(order_in(comes).verdict > order_in(comes).servers);
  kernel.apply(comes);
  CHECK(diff(here, kernel.state).empty());

  const auto goes = diff(elsewhere, kernel.state);
  CHECK(order_in(goes).verdict > 0);
  CHECK(order_in(goes).verdict < order_in(goes).servers);
}

}  // namespace
}  // namespace ipvsproxier::plan
