// What is told of watches that fail: once a cause, and when it is over.

#include <string>

#include <catch2/catch.hpp>

#include "test/support/reflector_rig.h"

namespace ipvsproxier::watch {
namespace {

using namespace std::chrono_literals;
using test::kTwo;
using test::ReflectorRig;

// Listed at version 10, watching; nothing of that is left to take.
struct ListedRig : ReflectorRig {
  ListedRig() {
    list(10, kTwo);
    take_log();
  }
};

TEST_CASE("a cause that was told of one resource is told of another, once") {
  ReflectorRig rig;
  const auto fail = [&rig](const std::string& resource) {
    rig.watch_log.failed(resource, "Connection reset by peer", 800ms);
    rig.watch_log.tell();
  };
  for (const auto* resource : {"services", "nodes", "services", "nodes"}) fail(resource);
  CHECK(rig.take_log() ==
        "warning services: Connection reset by peer; again in 0.8 s\n"
        "warning nodes: Connection reset by peer; again in 0.8 s\n");
  // What was not told that it fails is not told that it works.
  rig.watch_log.recovered("endpointslices");
  rig.watch_log.recovered("nodes");
  CHECK(rig.take_log() == "info nodes: followed again\n");
}

TEST_CASE("a cause that comes and goes is told every five minutes, with how often") {
  ListedRig rig;
  const auto round = [&rig] {
    rig.transport.last().fail("Connection reset by peer");
    rig.timers.advance(1s);
    rig.answer_question(10);
    rig.transport.last().head(200);
    rig.timers.advance(35s);
  };
  round();
  CHECK(rig.take_log() ==
        "warning services: https://api.test:6443: Connection reset by peer (failed); again in 0.8 "
        "s\n"
        "info services: followed again\n");
  for (int i = 0; i < 8; ++i) round();
  CHECK(rig.take_log().empty());
  round();
  CHECK(rig.take_log() ==
        "warning services: https://api.test:6443: Connection reset by peer (failed); again in 0.8 "
        "s (8 more since it was told)\n"
        "info services: followed again\n");
}

TEST_CASE("a failure is told once, and when it is over") {
  ListedRig rig;
  rig.transport.last().fail("Connection refused");
  CHECK(rig.take_log() ==
        "warning services: https://api.test:6443: Connection refused (failed); again in 0.8 s\n");
  CHECK(rig.reflector.status().last_error == "https://api.test:6443: Connection refused (failed)");
  for (int i = 0; i < 5; ++i) {
    rig.timers.advance(30s);
    rig.transport.last().fail("Connection refused");
  }
  CHECK(rig.take_log().empty());
  CHECK(rig.reflector.status().failures == 6);
  rig.timers.advance(30s);
  rig.transport.last().fail("No route to host");
  CHECK_THAT(rig.take_log(), Catch::Contains("No route to host"));
  for (int i = 0; i < 10; ++i) {
    rig.timers.advance(30s);
    rig.transport.last().fail("No route to host");
  }
  CHECK_THAT(rig.take_log(), Catch::Contains("No route to host"));  // five minutes later
  rig.timers.advance(30s);
  rig.answer_question(10);
  CHECK(rig.take_log().empty());
  rig.transport.last().head(200);
  CHECK(rig.take_log() == "info services: followed again\n");
  CHECK(rig.reflector.status().last_error.empty());
}

}  // namespace
}  // namespace ipvsproxier::watch
