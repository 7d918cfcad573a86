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

}  // namespace
}  // namespace ipvsproxier::plan
