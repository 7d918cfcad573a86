#include <algorithm>
#include <random>
#include <string>

#include <catch2/catch.hpp>

#include "test/support/reflector_rig.h"

namespace ipvsproxier::watch {
namespace {

using namespace std::chrono_literals;
using test::added;
using test::bookmark;
using test::deleted;
using test::kPage;
using test::kStreamingList;
using test::kTwo;
using test::list_end;
using test::list_text;
using test::modified;
using test::ReflectorRig;
using test::service_text;
using test::status_text;
using test::watch_from;
using test::Words;
using News = std::vector<Words>;

TEST_CASE("a streaming list is handed over when it is complete, and is a watch from then on") {
  ReflectorRig rig;
  CHECK(rig.transport.last().request().target.starts_with("/api/v1/services?watch=1&"));
  CHECK(rig.take_queries() == Words{kStreamingList});
  rig.transport.last().head(200);
  rig.transport.last().send(kTwo);
  CHECK(rig.take_news().empty());
  CHECK_FALSE(rig.reflector.status().is_listed);

  rig.transport.last().send(list_end(10));
  CHECK(rig.take_news() == News{{"db 10.0.0.2", "web 10.0.0.1"}});
  CHECK(rig.reflector.status().is_listed);
  CHECK(rig.reflector.status().objects == 2);
  CHECK(rig.take_log() == "info services: 2 listed; 2 new or changed, 0 gone\n");

  rig.transport.last().send(modified("web", 11, "10.0.0.9"));
  rig.transport.last().send(deleted("db", 12, "10.0.0.2") + added("new", 13, "10.0.0.3"));
  CHECK(rig.take_news() == News{{"web 10.0.0.9"}, {"db gone", "new 10.0.0.3"}});
  CHECK(rig.transport.count() == 1);
}

TEST_CASE("an empty list is told too") {
  ReflectorRig rig;
  rig.list(10, "");
  CHECK(rig.take_news() == News{{}});
  CHECK(rig.reflector.status().is_listed);
}

TEST_CASE("changes while the list comes are part of it") {
  ReflectorRig rig;
  rig.list(10, kTwo + modified("web", 9, "10.0.0.9") + deleted("db", 10, "10.0.0.2") + bookmark(8));
  CHECK(rig.take_news() == News{{"web 10.0.0.9"}});
}

TEST_CASE("a watch lasts five to ten minutes, at random") {
  ReflectorRig rig;
  const auto seconds_with = [&rig](double random) {
    rig.random = random;
    rig.transport.last().fail("reset");
    rig.timers.advance(40s);
    const auto& target = rig.transport.last().request().target;
    return target.substr(target.rfind('=') + 1);
  };
  CHECK(seconds_with(0) == "300");
  CHECK(seconds_with(0.5) == "450");
  CHECK(seconds_with(0.999999) == "600");
}

TEST_CASE("a server without streaming lists is asked for pages") {
  ReflectorRig rig;
  SECTION("it calls the request bad") {
    rig.transport.last().answer(400, status_text(400, "BadRequest", "no"));
  }
  SECTION("it calls it invalid") {
    rig.transport.last().answer(422, status_text(422, "Invalid", "no"));
  }
  SECTION("it forbids it") {
    rig.transport.last().answer(
        403, status_text(403, "Forbidden", "sendInitialEvents is forbidden for watch"));
  }
  SECTION("it ignores the wish: the beginning never ends") {
    rig.transport.last().head(200);
    rig.transport.last().send(kTwo);
    rig.transport.last().finish();
  }
  SECTION("it ignores the wish and goes on") {
    rig.transport.last().head(200);
    rig.transport.last().send(kTwo);
    rig.timers.advance(60s);
    rig.timers.advance(1s);
  }
  SECTION("it ignores the wish and has always something to tell") {
    rig.transport.last().head(200);
    rig.transport.last().send(kTwo);
    for (int i = 0; i < 11; ++i) {
      rig.timers.advance(10s);
      rig.transport.last().send(bookmark(20));
    }
    rig.timers.advance(9s);
    CHECK(rig.transport.open_calls() == 1);
    rig.timers.advance(1s);
    CHECK(rig.transport.open_calls() == 0);
    rig.timers.advance(1s);
  }
  rig.settle();
  CHECK(rig.take_queries() == Words{kStreamingList, kPage});
  CHECK(rig.take_news().empty());

  rig.transport.last().answer(
      200,
      list_text(20, {service_text("a", 1, "10.0.0.1"), service_text("b", 2, "10.0.0.2")}, "t/1="));
  CHECK(rig.take_queries() == Words{kPage + "&continue=t%2F1%3D"});
  CHECK(rig.take_news().empty());
  rig.transport.last().answer(200, list_text(20, {}, "t2"));
  CHECK(rig.take_queries() == Words{kPage + "&continue=t2"});
  CHECK(rig.take_news().empty());
  CHECK_FALSE(rig.reflector.status().is_listed);
  rig.transport.last().answer(200, list_text(20, {service_text("c", 3, "10.0.0.3")}));
  CHECK(rig.take_news() == News{{"a 10.0.0.1", "b 10.0.0.2", "c 10.0.0.3"}});
  CHECK(rig.take_queries() == Words{watch_from(20)});
  rig.transport.last().head(200);
  rig.transport.last().send(modified("a", 21, "10.0.0.9"));
  CHECK(rig.take_news() == News{{"a 10.0.0.9"}});

  // The server may have become another meanwhile.
  rig.transport.last().send(
      test::event_text("ERROR", status_text(410, "Expired", "too old resource version")));
  rig.settle();
  CHECK(rig.take_queries() == Words{kStreamingList});
}

TEST_CASE("a watch that ends goes on where it was, without a list") {
  ReflectorRig rig;
  rig.list(10, kTwo);
  rig.transport.last().send(modified("web", 14, "10.0.0.9"));
  rig.take_news();
  rig.take_queries();
  rig.timers.advance(300s);
  SECTION("after its last event") {
    rig.transport.last().finish();
    CHECK(rig.wait() == 0ms);
    rig.settle();
    CHECK(rig.take_queries() == Words{watch_from(14)});
  }
  SECTION("after its last bookmark") {
    rig.transport.last().send(bookmark(90));
    rig.transport.last().finish();
    rig.settle();
    CHECK(rig.take_queries() == Words{watch_from(90)});
  }
  CHECK(rig.transport.distrusted_connections == 0);
  CHECK(rig.take_news().empty());
  CHECK(rig.reflector.status().lists == 1);
  CHECK(rig.reflector.status().watches == 2);
  CHECK(rig.reflector.status().failures == 0);
  CHECK(rig.reflector.status().last_error.empty());
  // A quiet one as well: it lived.
  rig.transport.last().head(200);
  rig.timers.advance(310s);
  rig.transport.last().finish();
  CHECK(rig.wait() == 0ms);
}

TEST_CASE("a new list is a difference to what was handed over") {
  ReflectorRig rig;
  rig.list(10, kTwo + added("old", 8, "10.0.0.3"));
  rig.take_news();
  rig.transport.last().send(test::event_text("ERROR", status_text(410, "Expired", "too old")));
  rig.settle();
  rig.transport.last().head(200);
  rig.transport.last().send(added("db", 12, "10.0.0.2") + added("web", 30, "10.0.0.9") +
                            added("new", 31, "10.0.0.4"));
  CHECK(rig.take_news().empty());
  rig.transport.last().send(list_end(40));
  CHECK(rig.take_news() == News{{"new 10.0.0.4", "old gone", "web 10.0.0.9"}});
  CHECK(rig.reflector.status().lists == 2);
  CHECK(rig.reflector.status().objects == 3);
}

TEST_CASE("a list that breaks off changes nothing") {
  ReflectorRig rig;
  rig.list(10, kTwo);
  rig.take_news();
  rig.transport.last().send(test::event_text("ERROR", status_text(410, "Expired", "too old")));
  rig.settle();
  SECTION("a streaming list") {
    rig.transport.last().head(200);
    rig.transport.last().send(added("new", 31, "10.0.0.4"));
    rig.transport.last().fail("reset");
  }
  SECTION("a later page") {
    rig.transport.last().answer(400, "");
    rig.settle();
    rig.transport.last().answer(200, list_text(40, {service_text("new", 31, "10.0.0.4")}, "t"));
    rig.transport.last().head(200);
    rig.transport.last().send(
        R"({"kind":"ServiceList","metadata":{"resourceVersion":"40"},"items":[)");
    rig.transport.last().fail("reset");
  }
  SECTION("in the middle of the last page's last byte") {
    rig.transport.last().answer(400, "");
    rig.settle();
    rig.transport.last().head(200);
    rig.transport.last().send(list_text(40, {}));
    rig.transport.last().fail("reset");
  }
  rig.timers.advance(2s);
  CHECK(rig.take_news().empty());
  CHECK(rig.objects.size() == 2);
}

TEST_CASE("a page that fails is asked for again, the ones before it are not") {
  ReflectorRig rig;
  rig.transport.last().answer(400, "");
  rig.settle();
  rig.transport.last().answer(200, list_text(20, {service_text("a", 1, "10.0.0.1")}, "t1"));
  rig.take_queries();
  rig.transport.last().head(200);
  rig.transport.last().fail("reset");
  rig.timers.advance(800ms);
  CHECK(rig.take_queries() == Words{kPage + "&continue=t1"});
  rig.transport.last().answer(200, list_text(20, {service_text("b", 2, "10.0.0.2")}));
  CHECK(rig.take_news() == News{{"a 10.0.0.1", "b 10.0.0.2"}});
}

TEST_CASE("events that come twice or late do no harm") {
  ReflectorRig rig;
  rig.list(10, kTwo + kTwo);
  rig.take_news();
  auto& watch = rig.transport.last();
  watch.send(modified("web", 12, "10.0.0.9") + modified("web", 12, "10.0.0.9"));
  watch.send(modified("web", 11, "10.0.0.8"));
  watch.send(deleted("db", 14, "10.0.0.2") + modified("db", 13, "10.0.0.7"));
  watch.send(added("db", 7, "10.0.0.2"));
  CHECK(rig.take_news() == News{{"web 10.0.0.9"}, {"db gone"}});
  rig.timers.advance(300s);
  watch.finish();
  rig.settle();
  rig.take_queries();
  rig.transport.last().head(200);
  rig.timers.advance(300s);
  rig.transport.last().send(modified("web", 12, "10.0.0.9") + bookmark(20));
  rig.transport.last().finish();
  rig.settle();
  CHECK(rig.take_news().empty());
  CHECK(rig.take_queries() == Words{watch_from(20)});
}

TEST_CASE("what we do not read is no change") {
  ReflectorRig rig;
  rig.list(10, kTwo);
  rig.take_news();
  rig.transport.last().send(modified("web", 11, "10.0.0.1"));
  CHECK(rig.take_news().empty());
}

TEST_CASE("however the body is cut, the objects are the same") {
  std::mt19937 random(Catch::rngSeed());
  for (int round = 0; round < 50; ++round) {
    ReflectorRig rig;
    std::uniform_int_distribution<std::size_t> size(1, round < 25 ? 7 : 400);
    rig.transport.piece = [&] { return size(random); };
    rig.list(10, kTwo);
    CHECK(rig.take_news() == News{{"db 10.0.0.2", "web 10.0.0.1"}});
    rig.transport.last().send(modified("web", 11, "10.0.0.9") + "\n \n" +
                              deleted("db", 12, "10.0.0.2") +
                              test::event_text("ERROR", status_text(410, "Expired", "too old")));
    rig.settle();
    rig.transport.last().answer(422, status_text(422, "Invalid", "no"));
    rig.settle();
    rig.transport.last().answer(200, list_text(20, {service_text("web", 11, "10.0.0.9")}, "t"));
    rig.transport.last().answer(200, list_text(20, {service_text("new", 19, "10.0.0.3")}));
    CHECK(rig.objects ==
          std::map<std::string, std::string>{{"new", "10.0.0.3"}, {"web", "10.0.0.9"}});
    CHECK(rig.news.back() == Words{"new 10.0.0.3"});
  }
}

TEST_CASE("a watch knows when something was heard last") {
  ReflectorRig rig;
  CHECK_FALSE(rig.reflector.status().heard);
  const auto begin = rig.timers.now();
  rig.list(10, kTwo);
  CHECK(rig.reflector.status().heard == begin);
  rig.timers.advance(70s);
  rig.transport.last().send(bookmark(20));
  CHECK(rig.reflector.status().heard == begin + 70s);
  rig.transport.last().fail("reset");
  rig.timers.advance(5s);
  rig.transport.last().answer(500, "an error page");
  CHECK(rig.reflector.status().heard == begin + 70s);
}

TEST_CASE("nothing is left of a reflector that is gone") {
  ReflectorRig rig;
  auto reflector = std::make_unique<Reflector>(
      Resource{.name = "nodes", .path = "/api/v1/nodes", .selector = "fieldSelector=x"},
      rig.transport, rig.timers, [] { return 0.0; }, RemovalBrake(std::nullopt), rig.log,
      rig.watch_log, [](const model::Changes&) {});
  const auto before = rig.timers.count();
  reflector->start();
  CHECK(rig.transport.last().request().target.starts_with(
      "/api/v1/nodes?fieldSelector=x&watch=1&sendInitialEvents=true"));
  CHECK(rig.transport.open_calls() == 2);
  SECTION("while it asks") {}
  SECTION("while it waits") {
    rig.transport.last().fail("refused");
    CHECK(rig.transport.open_calls() == 1);
    rig.watch_log.tell();
  }
  CHECK(rig.timers.count() > before);
  reflector.reset();
  CHECK(rig.timers.count() == before);
  CHECK(rig.transport.open_calls() == 1);
}

}  // namespace
}  // namespace ipvsproxier::watch
