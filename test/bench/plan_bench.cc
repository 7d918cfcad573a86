// The pure part at scale: planning whole clusters and comparing states. Host only, no kernel.

#include <cstdio>

#include <fmt/format.h>

#include "proxier/plan/diff.h"
#include "proxier/plan/planner.h"
#include "test/bench/stopwatch.h"
#include "test/support/cluster_builder.h"
#include "test/support/kernel_model.h"

namespace ipvsproxier::bench {
namespace {

// Services with this many endpoints each, every twentieth with a node port.
model::ClusterState cluster_of_size(int services, int endpoints) {
  model::ClusterState cluster;
  for (int i = 0; i < services; ++i) {
    auto service = test::web_service();
    service.name.name = fmt::format("s{}", i);
    service.cluster_ips = {netlink::IpAddress::v4(0x0a600000U + static_cast<std::uint32_t>(i) + 1)};
    if (i % 20 == 0) service.ports[0].node_port = static_cast<std::uint16_t>(30000 + i / 20);
    std::vector<api::Endpoint> list;
    for (int e = 0; e < endpoints; ++e) {
      auto endpoint = test::endpoint("0.0.0.0", e % 5 == 0 ? "n1" : "n2");
      endpoint.address =
          netlink::IpAddress::v4(0x0af40000U + static_cast<std::uint32_t>(i * endpoints + e));
      list.push_back(endpoint);
    }
    cluster.put(test::slice_of(service, 8080, std::move(list)));
    cluster.put(std::move(service));
  }
  return cluster;
}

void run(int services, int endpoints) {
  const auto cluster = cluster_of_size(services, endpoints);
  const auto node = test::vector_node();
  plan::PlannerOptions options;
  options.families = {netlink::Family::ipv4};
  const auto count = static_cast<std::size_t>(services);
  const auto name = [&](const char* what) {
    return fmt::format("{} {} x {}", what, services, endpoints);
  };

  const auto planning = measure([&] { plan::plan(cluster, node, options); });
  print_row(name("plan"), planning, count);

  const auto desired = plan::plan(cluster, node, options).state;
  auto kernel = test::KernelModel::empty_for(desired);
  const auto first = measure([&] { plan::diff(desired, kernel.state); });
  print_row(name("difference to an empty kernel"), first, count);

  kernel.apply(plan::diff(desired, kernel.state));
  const auto equal = measure([&] { plan::diff(desired, kernel.state); });
  print_row(name("difference of equal states"), equal, count);
  std::printf("%-44s %10.2f\n", "  equal / first", equal.median_ms / first.median_ms);

  // One endpoint of one Service comes and goes, as the daemon follows it.
  plan::Planner planner(options);
  planner.set_node(node);
  auto now = cluster;
  std::set<api::NamespacedName> names;
  for (const auto& [service, object] : now.services) names.insert(service);
  planner.update(names, now);
  auto slice = *now.slices.begin()->second.begin();
  auto list = slice.endpoints.unpack();
  const auto change = measure([&] {
    list.front().ready = !list.front().ready;
    slice.endpoints = list;
    model::Changes changes;
    changes.put(slice);
    const auto scope = planner.update(now.take(std::move(changes)).services, now);
    kernel.apply(plan::diff(planner.desired(), kernel.state, scope));
  });
  print_row(name("one endpoint changed"), change, 1);
  std::printf("%-44s %10.6f\n", "  changed / planned whole", change.median_ms / planning.median_ms);
}

}  // namespace
}  // namespace ipvsproxier::bench

// With an argument: little, to be tried.
int main(int argc, char**) {
  const bool little = argc > 1;
  ipvsproxier::bench::run(little ? 10 : 1000, 10);
  if (!little) ipvsproxier::bench::run(10000, 10);
  return 0;
}
