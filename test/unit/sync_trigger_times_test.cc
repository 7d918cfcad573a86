#include "proxier/sync/trigger_times.h"

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"

namespace ipvsproxier::sync {
namespace {

using Wall = std::chrono::system_clock::time_point;

model::Trigger trigger_of(const api::Service& service, int number) {
  return {service.name, netlink::Family::ipv4, Wall(std::chrono::milliseconds(number))};
}

// Its endpoints change again and again, each time with another time, and the kernel has none.
TEST_CASE("a Service that the kernel refuses leaves room for the times of others") {
  const auto web = test::web_service();
  auto refused = web;
  refused.name.name = "refused";
  refused.cluster_ips = {test::ip("10.96.0.66")};
  const auto cluster = test::cluster_of({web, refused});
  plan::Planner planner({});
  planner.set_node(test::vector_node());
  planner.update_all(cluster);
  const auto waiting = planner.scope_of(refused.name);

  TriggerTimes times;
  for (int i = 0; i < 2 * int(TriggerTimes::kMost); ++i) times.note({trigger_of(refused, i)});
  times.note({trigger_of(web, 2), trigger_of(web, 1)});
  CHECK(times.take(planner, waiting, false).empty());
  CHECK(times.take(planner, waiting, true) == std::vector{trigger_of(web, 1), trigger_of(web, 2)});
  CHECK(times.take(planner, waiting, true).empty());
  CHECK(times.take(planner, {}, true).size() == TriggerTimes::kMostOfOne);
}

}  // namespace
}  // namespace ipvsproxier::sync
