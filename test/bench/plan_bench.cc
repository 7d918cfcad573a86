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

netlink::IpAddress address(std::uint32_t first, int number) {
  return netlink::IpAddress::v4(first + static_cast<std::uint32_t>(number));
}

api::Service numbered_service(int number) {
  auto service = test::web_service();
  service.name.name = fmt::format("s{}", number);
  service.cluster_ips = {address(0x0a600001, number)};
  service.creation_time = number;
  return service;
}

api::EndpointSlice numbered_slice(const api::Service& service, int number) {
  return test::slice_of(service, 8080,
                        {test::endpoint(address(0x0af40001, number).to_string(), "n2")},
                        std::to_string(number));
}

// What one tenant may have n of, and then changes the last one of, again and again.
struct Hostile {
  const char* what;
  void (*fill)(model::ClusterState& cluster, int n);
  // There and back.
  void (*change)(model::Changes& changes, int n, bool back);
};

// So many of a kind on one Service: the last one comes and goes.
template <auto Fill>
void put_one_service(model::ClusterState& cluster, int n) {
  auto service = numbered_service(0);
  Fill(service, n);
  cluster.put(service);
}
template <auto Fill>
void change_one_service(model::Changes& changes, int n, bool back) {
  auto service = numbered_service(0);
  Fill(service, back ? n : n - 1);
  changes.put(std::move(service));
}

// Not in their order.
void fill_external_ips(api::Service& service, int n) {
  for (int i = n; i > 0; --i) service.external_ips.push_back(address(0xc6336400, i));
}
void fill_source_ranges(api::Service& service, int n) {
  service.load_balancer_ips = {address(0xc0000200, 1)};
  for (int i = n; i > 0; --i)
    service.source_ranges.push_back(netlink::IpPrefix::of(address(0xcb007100, i), 32));
}

api::Service restricted(int number) {
  auto service = numbered_service(number);
  service.load_balancer_ips = {address(0xc0000200, number)};
  service.source_ranges = {test::prefix("203.0.113.0/24")};
  return service;
}
// All want the same; the first has it.
api::Service rival(int number, std::uint16_t own_port) {
  auto service = numbered_service(number);
  service.external_ips = {address(0xc6336400, 1)};
  service.ports.push_back({"own", netlink::Protocol::tcp, own_port, 0});
  return service;
}

constexpr Hostile kHostile[] = {
    {"restricted VIPs",
     [](auto& cluster, int n) {
       for (int i = 0; i < n; ++i) cluster.put(restricted(i));
     },
     [](auto& changes, int n, bool back) {
       changes.put(back ? restricted(n - 1) : numbered_service(n - 1));
     }},
    {"Services that claim one VIP",
     [](auto& cluster, int n) {
       for (int i = 0; i < n; ++i) cluster.put(rival(i, static_cast<std::uint16_t>(1000 + i)));
     },
     [](auto& changes, int n, bool back) { changes.put(rival(n - 1, back ? 998 : 999)); }},
    {"slices of one Service",
     [](auto& cluster, int n) {
       const auto service = numbered_service(0);
       cluster.put(service);
       for (int i = 0; i < n; ++i) cluster.put(numbered_slice(service, i));
     },
     [](auto& changes, int n, bool back) {
       auto slice = numbered_slice(numbered_service(0), n - 1);
       if (!back) slice.endpoints = std::vector<api::Endpoint>();
       changes.put(std::move(slice));
     }},
    {"external IPs of one Service", put_one_service<fill_external_ips>,
     change_one_service<fill_external_ips>},
    {"source ranges of one Service", put_one_service<fill_source_ranges>,
     change_one_service<fill_source_ranges>},
};

double run_hostile(const Hostile& hostile, int n) {
  model::ClusterState cluster;
  hostile.fill(cluster, n);
  plan::PlannerOptions options;
  options.families = {netlink::Family::ipv4};
  plan::Planner planner(options);
  planner.set_node(test::vector_node());
  planner.update_all(cluster);
  auto kernel = test::KernelModel::empty_for(planner.desired());
  kernel.apply(plan::diff(planner.desired(), kernel.state));
  bool back = true;
  plan::Transaction transaction;
  const auto change = measure([&] {
    kernel.apply(transaction);
    back = !back;
    model::Changes changes;
    hostile.change(changes, n, back);
    const auto scope = planner.update(cluster.take(std::move(changes)).services, cluster);
    transaction = plan::diff(planner.desired(), kernel.state, scope);
    planner.problems();
  });
  print_row(fmt::format("one of {} {}", n, hostile.what), change, 1);
  return change.median_ms;
}

// An event must not cost the square of what there is.
void run_all_hostile(int n) {
  for (const auto& hostile : kHostile) {
    const auto few = run_hostile(hostile, n);
    const auto many = run_hostile(hostile, 4 * n);
    std::printf("%-44s %10.2f\n", "  four times as many / as many", many / few);
  }
}

}  // namespace
}  // namespace ipvsproxier::bench

// With an argument: little, to be tried.
int main(int argc, char**) {
  const bool little = argc > 1;
  ipvsproxier::bench::run(little ? 10 : 1000, 10);
  if (!little) ipvsproxier::bench::run(10000, 10);
  ipvsproxier::bench::run_all_hostile(little ? 10 : 1000);
  return 0;
}
