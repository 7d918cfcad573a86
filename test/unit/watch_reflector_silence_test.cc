#include <string>

#include <catch2/catch.hpp>

#include "test/support/reflector_rig.h"

namespace ipvsproxier::watch {
namespace {

using namespace std::chrono_literals;
using test::bookmark;
using test::kQuestion;
using test::kTwo;
using test::modified;
using test::ReflectorRig;
using test::WatchingRig;
using test::Words;

TEST_CASE("a server that does not answer is asked again, on another connection") {
  ReflectorRig rig;
  SECTION("not even a head") {
    rig.timers.advance(59s);
    CHECK(rig.transport.open_calls() == 1);
    rig.timers.advance(1s);
  }
  SECTION("in the middle of a list") {
    rig.timers.advance(20s);
    rig.transport.last().head(200);
    rig.timers.advance(20s);
    rig.transport.last().send(kTwo);
    rig.timers.advance(59s);
    CHECK(rig.transport.open_calls() == 1);
    rig.timers.advance(1s);
  }
  CHECK(rig.transport.open_calls() == 0);
  CHECK(rig.wait() == 800ms);
  CHECK(rig.reflector.status().last_error == "https://api.test:6443: the server says nothing");
  CHECK(rig.transport.distrusted_connections == 1);
  rig.timers.advance(800ms);
  CHECK(rig.transport.is_waited_for());
  CHECK_FALSE(rig.reflector.status().is_listed);
}

TEST_CASE("the head of a watch must come within a minute") {
  WatchingRig rig;
  rig.next_watch();
  rig.timers.advance(60s);
  CHECK(rig.transport.open_calls() == 0);
  rig.timers.advance(800ms);
  CHECK(rig.take_queries() == Words{kQuestion});
}

TEST_CASE("a watch that does not end when it should is ended") {
  WatchingRig rig;
  rig.next_watch();  // lasts 300 s
  rig.transport.last().head(200);
  SECTION("silent") {
    rig.timers.advance(329s);
  }
  SECTION("a byte a second") {
    for (int i = 0; i < 329; ++i) {
      rig.timers.advance(1s);
      rig.transport.last().send(" ");
    }
  }
  CHECK(rig.transport.open_calls() == 1);
  rig.timers.advance(1s);
  CHECK(rig.transport.open_calls() == 1);
  CHECK(rig.take_queries() == Words{kQuestion});
  CHECK(rig.transport.distrusted_connections == 1);
  CHECK(rig.reflector.status().last_error ==
        "https://api.test:6443: the server does not come to an end");
  CHECK(rig.reflector.status().lists == 1);
}

TEST_CASE("a watch that had a bookmark and says nothing for three minutes is ended") {
  WatchingRig rig;
  rig.timers.advance(60s);
  rig.transport.last().send(bookmark(20));
  SECTION("at once") {}
  SECTION("after an event") {
    rig.timers.advance(80s);
    rig.transport.last().send(modified("web", 21, "10.0.0.9"));
  }
  rig.timers.advance(179s);
  CHECK(rig.transport.open_calls() == 1);
  CHECK(rig.transport.distrusted_connections == 0);
  CHECK(rig.take_queries().empty());
  rig.timers.advance(1s);
  // Another server may know less.
  CHECK(rig.take_queries() == Words{kQuestion});
  CHECK(rig.transport.distrusted_connections == 1);
  CHECK(rig.take_log() ==
        "warning services: https://api.test:6443: the server says nothing any more, not even "
        "bookmarks; going on at once\n");
  CHECK(rig.reflector.status().lists == 1);
  CHECK(rig.objects.size() == 2);
}

TEST_CASE("a watch that never had a bookmark may be silent for as long as it lasts") {
  WatchingRig rig;
  rig.timers.advance(60s);
  rig.transport.last().send(modified("web", 11, "10.0.0.9"));
  rig.timers.advance(239s);
  CHECK(rig.transport.open_calls() == 1);
  CHECK(rig.take_queries().empty());
  SECTION("nor does a bookmark of the one before count") {
    rig.transport.last().send(bookmark(20));
    rig.transport.last().finish();
    rig.settle();
    rig.transport.last().head(200);
    rig.take_queries();
    rig.timers.advance(299s);
    CHECK(rig.transport.open_calls() == 1);
    CHECK(rig.take_queries().empty());
  }
}

TEST_CASE("a page that comes a byte a second is given up after two minutes") {
  ReflectorRig rig;
  rig.transport.last().answer(400, "");
  rig.settle();
  rig.transport.last().head(200);
  for (int i = 0; i < 119; ++i) {
    rig.timers.advance(1s);
    rig.transport.last().send(" ");
  }
  CHECK(rig.transport.open_calls() == 1);
  rig.timers.advance(1s);
  CHECK(rig.transport.open_calls() == 0);
}

}  // namespace
}  // namespace ipvsproxier::watch
