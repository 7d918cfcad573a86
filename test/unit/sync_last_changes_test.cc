#include "proxier/sync/last_changes.h"

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using Time = std::chrono::system_clock::time_point;

api::NamespacedName named(std::size_t number) {
  return {"a", "s" + std::to_string(number)};
}

std::set<api::NamespacedName> services_until(std::size_t count) {
  std::set<api::NamespacedName> names;
  for (std::size_t i = 0; i < count; ++i) names.insert(named(i));
  return names;
}

TEST_CASE("the last change of a Service is that of the last sync that took it up") {
  LastChanges changes;
  changes.begin({named(1), named(2)});
  CHECK_FALSE(changes.of(named(1)));
  changes.end({Time(1s), 10ms});
  changes.begin({named(2)});
  changes.end({Time(2s), 20ms});
  changes.begin({});
  changes.end({Time(3s), 30ms});
  REQUIRE(changes.of(named(1)));
  CHECK(changes.of(named(1))->when == Time(1s));
  CHECK(changes.of(named(2))->when == Time(2s));
  CHECK(changes.of(named(2))->took == 20ms);
  CHECK_FALSE(changes.of(named(3)));
}

TEST_CASE("the oldest changes are forgotten, all of a sync of more than there is room for") {
  LastChanges changes;
  changes.begin({named(0)});
  changes.end({Time(1s), 1ms});
  changes.begin(services_until(LastChanges::kMost));
  changes.end({Time(2s), 1ms});
  CHECK(changes.of(named(0))->when == Time(2s));
  changes.begin({{"b", "new"}});
  changes.end({Time(3s), 1ms});
  CHECK_FALSE(changes.of(named(0)));
  CHECK(changes.of(named(1)));
  CHECK(changes.of({"b", "new"}));
  changes.begin(services_until(LastChanges::kMost + 1));
  changes.end({Time(4s), 1ms});
  CHECK_FALSE(changes.of(named(1)));
  CHECK_FALSE(changes.of({"b", "new"}));
}

TEST_CASE("a daemon knows when a Service changed last, not when others did") {
  test::FakeDaemon daemon;
  const auto last = [&](const api::NamespacedName& name) {
    std::optional<LastChanges::Change> found;
    daemon.ask([&](const Inspection& inspection) { found = inspection.changes.of(name); });
    return found;
  };
  auto cluster = test::web_with({test::e1()});
  daemon.see(cluster);
  const auto first = last({"default", "web"});
  REQUIRE(first);
  auto other = test::web_service();
  other.name.name = "other";
  other.cluster_ips = {test::ip("10.96.0.10")};
  cluster.put(other);
  daemon.see(cluster);
  CHECK(last({"default", "web"})->when == first->when);
  CHECK(last({"default", "other"})->when >= first->when);
  CHECK_FALSE(last({"default", "none"}));
}

}  // namespace
}  // namespace ipvsproxier::sync
