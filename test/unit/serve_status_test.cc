#include <chrono>
#include <thread>

#include <catch2/catch.hpp>

#include "proxier/serve/status.h"
#include "test/support/test_clock.h"

namespace ipvsproxier::serve {
namespace {

using netlink::Family;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using test::kWall;

constexpr auto kPeriod = seconds(30);

struct StatusFixture {
  test::TestClock clock;
  Status status{{.sync_period = kPeriod}, clock.clock()};

  void sync(Family family) {
    status.sync_began(family);
    status.sync_succeeded(family);
  }
  bool healthy() { return status.health().families_healthy; }
};

TEST_CASE_METHOD(StatusFixture, "a watch that fails says why until it goes on") {
  CHECK(status.watch_failure(Resource::services).empty());
  status.watch_failing(Resource::services, "connection refused");
  CHECK(status.watch_failure(Resource::services) == "connection refused");
  CHECK(status.watch_failure(Resource::nodes).empty());
  status.removal_held(Resource::endpoint_slices, 30);
  CHECK(status.removal_held(Resource::endpoint_slices) == 30);
  CHECK(status.removal_held(Resource::services) == 0);
  status.watch_failing(Resource::services, "");
  CHECK(status.watch_failure(Resource::services).empty());
}

TEST_CASE_METHOD(StatusFixture, "what is wrong is known by its matter until it is over") {
  CHECK(status.wrong().empty());
  status.set_wrong("node", {"no Node"});
  status.set_wrong("manifests", {"a", "b"});
  CHECK(status.wrong() == std::vector<std::string>{"a", "b", "no Node"});
  status.set_wrong("manifests", {});
  CHECK(status.wrong() == std::vector<std::string>{"no Node"});
}

TEST_CASE_METHOD(StatusFixture, "nothing is healthy before the first complete sync") {
  CHECK_FALSE(healthy());
  CHECK_FALSE(status.health().ipv4);
  CHECK_FALSE(status.health().last_updated());
  status.sync_loop_started(Family::ipv4);
  REQUIRE(status.health().ipv4);
  CHECK_FALSE(status.health().ipv4->healthy);
  CHECK(status.health().ipv4->last_updated == kWall);
  status.sync_began(Family::ipv4);
  status.sync_failed(Family::ipv4);
  CHECK_FALSE(healthy());
  sync(Family::ipv4);
  CHECK(healthy());
  CHECK_FALSE(status.health().ipv6);
}

TEST_CASE_METHOD(StatusFixture, "one family that is not healthy makes the proxy unhealthy") {
  for (const auto family : netlink::kFamilies) status.sync_loop_started(family);
  sync(Family::ipv4);
  CHECK_FALSE(healthy());
  sync(Family::ipv6);
  CHECK(healthy());
  status.sync_requested(Family::ipv6);
  clock.advance(2 * kPeriod);
  CHECK_FALSE(healthy());
  CHECK(status.health().ipv4->healthy);
  CHECK_FALSE(status.health().ipv6->healthy);
}

TEST_CASE_METHOD(StatusFixture, "a family that does not count is shown, and makes nothing red") {
  for (const auto family : netlink::kFamilies) status.sync_loop_started(family);
  sync(Family::ipv4);
  status.count_family(Family::ipv6, false);
  CHECK(healthy());
  CHECK_FALSE(status.health().ipv6->healthy);
  status.count_family(Family::ipv6, true);
  CHECK_FALSE(healthy());
}

TEST_CASE_METHOD(StatusFixture, "a sync that takes long is no fault as long as it goes on") {
  sync(Family::ipv4);
  status.sync_requested(Family::ipv4);
  status.sync_began(Family::ipv4);
  status.sync_requested(Family::ipv4);
  for (int i = 0; i < 20; ++i) {
    status.sync_heartbeat().beat();
    clock.advance(kPeriod);
    CHECK(healthy());
  }
  // It does not go on.
  clock.advance(kPeriod);
  CHECK_FALSE(healthy());
  status.sync_heartbeat().beat();
  CHECK(healthy());
  // Its end without success is a failure, which counts from the request.
  status.sync_failed(Family::ipv4);
  CHECK_FALSE(healthy());
  status.sync_heartbeat().beat();
  CHECK_FALSE(healthy());
  sync(Family::ipv4);
  CHECK(healthy());
}

TEST_CASE_METHOD(StatusFixture, "a failure is not hidden by the work for others that goes on") {
  sync(Family::ipv4);
  status.sync_failed(Family::ipv4);
  clock.advance(2 * kPeriod - milliseconds(1));
  status.sync_heartbeat().beat();
  CHECK(healthy());
  clock.advance(milliseconds(1));
  CHECK_FALSE(healthy());
}

TEST_CASE_METHOD(StatusFixture,
                 "a request is late at exactly two sync periods, counted from the first") {
  sync(Family::ipv4);
  status.sync_requested(Family::ipv4);
  clock.advance(kPeriod);
  status.sync_requested(Family::ipv4);
  clock.advance(kPeriod - milliseconds(1));
  CHECK(healthy());
  clock.advance(milliseconds(1));
  CHECK_FALSE(healthy());
  sync(Family::ipv4);
  CHECK(healthy());
  clock.advance(100 * kPeriod);
  CHECK(healthy());
}

TEST_CASE_METHOD(StatusFixture, "a failed sync needs no request to make a family unhealthy",
                 "[item-2]") {
  sync(Family::ipv4);
  for (int i = 0; i < 3; ++i) {
    CHECK(healthy());
    status.sync_began(Family::ipv4);
    status.sync_failed(Family::ipv4);
    clock.advance(kPeriod);
    if (i == 0) CHECK(healthy());
    if (i == 1) break;
  }
  CHECK_FALSE(healthy());
  CHECK(status.health().ipv4->last_updated == kWall);
  sync(Family::ipv4);
  CHECK(healthy());
  CHECK(status.health().ipv4->last_updated == kWall + 2 * kPeriod);
}

TEST_CASE_METHOD(StatusFixture,
                 "success settles what was asked for before the sync began, not after") {
  sync(Family::ipv4);
  status.sync_requested(Family::ipv4);
  status.sync_began(Family::ipv4);
  clock.advance(kPeriod);
  status.sync_requested(Family::ipv4);
  status.sync_succeeded(Family::ipv4);
  clock.advance(2 * kPeriod - milliseconds(1));
  CHECK(healthy());
  clock.advance(milliseconds(1));
  CHECK_FALSE(healthy());
}

TEST_CASE_METHOD(StatusFixture, "what a failed sync took up stays as old as it was") {
  sync(Family::ipv4);
  status.sync_requested(Family::ipv4);
  clock.advance(kPeriod);
  status.sync_began(Family::ipv4);
  status.sync_failed(Family::ipv4);
  status.sync_requested(Family::ipv4);
  status.sync_began(Family::ipv4);
  clock.advance(kPeriod);
  CHECK_FALSE(healthy());
}

TEST_CASE_METHOD(StatusFixture,
                 "the newest family is the last update, and the wall clock may jump") {
  sync(Family::ipv4);
  clock.advance(seconds(5));
  sync(Family::ipv6);
  CHECK(status.health().last_updated() == kWall + seconds(5));
  status.sync_requested(Family::ipv4);
  clock.jump(std::chrono::hours(1000));
  CHECK(healthy());
  CHECK(status.health().now == kWall + seconds(5) + std::chrono::hours(1000));
}

TEST_CASE_METHOD(StatusFixture, "the node's eligibility is part of readiness only") {
  sync(Family::ipv4);
  CHECK_FALSE(status.health().ready());
  CHECK(status.families_healthy());
  status.set_node_eligible(true);
  CHECK(status.health().ready());
  status.set_node_eligible(false);
  CHECK_FALSE(status.health().ready());
}

TEST_CASE_METHOD(StatusFixture, "that the API server is away is no reason to be red") {
  sync(Family::ipv4);
  status.set_node_eligible(true);
  status.watch_heard(Resource::services);
  clock.advance(std::chrono::hours(1000));
  CHECK(status.health().ready());
  CHECK(status.watch_age(Resource::services) == std::chrono::hours(1000));
  CHECK_FALSE(status.watch_age(Resource::nodes));
}

TEST_CASE("with a largest age, the oldest watch decides") {
  test::TestClock clock(kWall);
  Status status({.sync_period = kPeriod, .max_watch_age = minutes(5)}, clock.clock());
  status.sync_succeeded(Family::ipv4);
  status.set_node_eligible(true);
  clock.advance(minutes(4));
  CHECK(status.health().ready());
  status.watch_heard(Resource::services);
  status.watch_heard(Resource::nodes);
  clock.advance(minutes(1));
  CHECK(status.health().ready());
  clock.advance(milliseconds(1));
  CHECK_FALSE(status.health().ready());  // the third one was never heard
  CHECK(status.families_healthy());
  status.watch_heard(Resource::endpoint_slices);
  CHECK(status.health().ready());
}

TEST_CASE("a thread is stuck when it has not moved for two sync periods, a minute at least") {
  test::TestClock clock(kWall);
  const auto period = GENERATE(seconds(5), seconds(30), seconds(100));
  const auto limit = std::max<std::chrono::nanoseconds>(2 * period, minutes(1));
  Status status({.sync_period = period}, clock.clock());
  clock.advance(std::chrono::hours(10));
  CHECK(status.liveness().main);  // not started: nothing to say
  CHECK(status.liveness().sync);
  status.main_heartbeat().beat();
  status.sync_heartbeat().beat();
  clock.advance(limit - milliseconds(1));
  CHECK(status.liveness().sync);
  status.main_heartbeat().beat();
  clock.advance(milliseconds(1));
  CHECK_FALSE(status.liveness().sync);
  CHECK(status.liveness().main);
  status.sync_heartbeat().rest();
  clock.advance(limit);
  CHECK(status.liveness().sync);
  CHECK_FALSE(status.liveness().main);
}

TEST_CASE("published changes of Services' health merge until they are taken") {
  int told = 0;
  Status status({.published = [&] { ++told; }});
  status.publish({});
  CHECK(told == 0);
  const ServiceHealth one{.port = 30000, .ipv4_endpoints = 1};
  const ServiceHealth two{.port = 30000, .ipv4_endpoints = 2};
  status.publish({.services = {{{"a", "x"}, one}, {{"a", "y"}, one}}});
  status.publish({.services = {{{"a", "x"}, two}, {{"a", "z"}, std::nullopt}}});
  CHECK(told == 2);
  auto taken = status.take_service_health();
  CHECK_FALSE(taken.whole);
  CHECK(taken.services.size() == 3);
  CHECK(taken.services.at({"a", "x"}) == two);
  CHECK(taken.services.at({"a", "y"}) == one);
  CHECK(taken.services.at({"a", "z"}) == std::nullopt);
  CHECK(status.take_service_health().empty());

  status.publish({.services = {{{"a", "x"}, one}}});
  status.publish({.whole = true});
  status.publish({.services = {{{"a", "w"}, one}}});
  taken = status.take_service_health();
  CHECK(taken.whole);
  CHECK(taken.services.size() == 1);
  CHECK(taken.services.contains({"a", "w"}));
}

TEST_CASE("threads publish while others read") {
  Status status;
  std::jthread sync([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      status.sync_heartbeat().beat();
      status.sync_began(Family::ipv4);
      status.sync_succeeded(Family::ipv4);
      status.publish({.services = {{{"a", "x"}, ServiceHealth{.port = 1}}}});
      status.sync_heartbeat().rest();
    }
  });
  std::jthread main([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      status.main_heartbeat().beat();
      status.sync_requested(Family::ipv4);
      status.watch_heard(Resource::nodes);
      status.set_node_eligible(true);
      status.take_service_health();
    }
  });
  while (!status.health().ready()) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) {
    CHECK(status.health().families_healthy);
    CHECK(status.liveness().main);
    CHECK(status.liveness().sync);
  }
}

}  // namespace
}  // namespace ipvsproxier::serve
