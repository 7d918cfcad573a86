// In which order a transaction changes who reaches a Service of external policy Local.

#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/plan/diff.h"
#include "test/support/kernel_model.h"
#include "test/unit/in_cluster_options.h"
#include "test/unit/planned_lines.h"

namespace ipvsproxier::plan {
namespace {

using test::e1;
using test::e2;
using test::in_cluster_options;
using test::iptables_options;

// The last places at which clients are let in or dropped, and real servers come or begin to leave.
struct PlacesOfChange {
  int verdicts = 0;
  int servers = 0;
};

PlacesOfChange places_in(const Transaction& transaction) {
  PlacesOfChange change;
  int place = 0;
  for (const auto& phase : transaction.phases) {
    ++place;
    if (std::holds_alternative<std::vector<netlink::IpvsOp>>(phase.work)) change.servers = place;
    const auto* sets = std::get_if<std::vector<SetChange>>(&phase.work);
    if (sets == nullptr) continue;
    for (const auto& one : *sets)
      if (one.set.id == ipset::SetId::nft_services) change.verdicts = place;
  }
  return change;
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
  CHECK(places_in(comes).servers > 0);
  CHECK(places_in(comes).verdicts > places_in(comes).servers);
  kernel.apply(comes);
  CHECK(diff(here, kernel.state).empty());

  const auto goes = diff(elsewhere, kernel.state);
  CHECK(places_in(goes).verdicts > 0);
  CHECK(places_in(goes).verdicts < places_in(goes).servers);
}

TEST_CASE("policy Local with iptables: nobody is sent on to a cluster IP that is not there yet") {
  auto service = test::local_load_balancer();
  const auto state = [](const api::Service& one) {
    const auto cluster = test::cluster_of({one, test::slice_of(one, 8080, {e2()})});
    return plan(cluster, test::vector_node(), iptables_options()).state;
  };
  service.external_policy_local = false;
  const auto before = state(service);
  service.external_policy_local = true;
  service.cluster_ips = {test::ip("10.96.0.77")};
  const bool comes_late = GENERATE(true, false);
  auto kernel = test::KernelModel::empty_for(before);
  kernel.apply(diff(before, kernel.state));
  const auto after = state(service);
  if (!comes_late)
    kernel.state.services->emplace(
        netlink::VirtualServiceKey{test::ip("10.96.0.77"), netlink::Protocol::tcp, 443},
        ActualService{
            after.services.at({test::ip("10.96.0.77"), netlink::Protocol::tcp, 443}).service,
            RealServers{}});
  int place = 0;
  int sent_on = 0;
  int exposed = 0;
  const auto transaction = diff(after, kernel.state);
  for (const auto& phase : transaction.phases) {
    ++place;
    if (const auto* changes = std::get_if<std::vector<SetChange>>(&phase.work))
      for (const auto& change : *changes)
        if (change.set.id == ipset::SetId::in_cluster && sent_on == 0) sent_on = place;
    if (std::holds_alternative<std::vector<netlink::IpvsOp>>(phase.work) && exposed == 0)
      exposed = place;
  }
  CHECK(exposed > 0);
  CHECK(sent_on > 0);
  CHECK(sent_on > exposed);  // behind the real servers there
  kernel.apply(transaction);
  CHECK(diff(after, kernel.state).empty());
}

}  // namespace
}  // namespace ipvsproxier::plan
