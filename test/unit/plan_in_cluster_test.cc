// Services of external policy Local, as this node and its pods reach them (PlannerOptions'
// difference in_cluster_clients), with both packet filters.

#include <algorithm>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/plan/diff.h"
#include "proxier/plan/service_plan.h"
#include "proxier/plan/service_report.h"
#include "test/support/kernel_model.h"
#include "test/unit/in_cluster_options.h"
#include "test/unit/planned_lines.h"

namespace ipvsproxier::plan {
namespace {

using test::e1;
using test::e2;
using test::in_cluster_options;
using test::Lines;
using test::planned;
using test::servers_of;
using test::starting;

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

TEST_CASE("policy Local: without a range nothing of it where the internal policy is Local too") {
  auto service = test::local_load_balancer();
  const auto options = in_cluster_options();
  service.internal_policy_local = true;
  const auto lines = planned(service, {e2()}, options);
  CHECK(elements_in(lines, "in_cluster").empty());
  CHECK(servers_of(lines).at("192.0.2.10:443/TCP") == Lines{"10.244.1.4:8080"});
}

// As kube-proxy's IPVS mode has it.
TEST_CASE(
    "policy Local with iptables: everybody has the endpoints here, or all if there are none") {
  const auto service = test::local_load_balancer();
  auto options = in_cluster_options();
  options.packet_filter = ipset::PacketFilter::iptables;
  auto as_kube_proxy = options;
  as_kube_proxy.differences.in_cluster_clients = false;
  for (const auto& endpoints :
       {std::vector{e1(), e2()}, std::vector{e2()}, std::vector<api::Endpoint>{}}) {
    const auto lines = planned(service, endpoints, options);
    const Lines expected = endpoints.empty()       ? Lines{}
                           : endpoints.size() == 2 ? Lines{"10.244.0.3:8080"}
                                                   : Lines{"10.244.1.4:8080"};
    CHECK(servers_of(lines).at("192.0.2.10:443/TCP") == expected);
    CHECK(lines == planned(service, endpoints, as_kube_proxy));
  }
}

}  // namespace
}  // namespace ipvsproxier::plan
