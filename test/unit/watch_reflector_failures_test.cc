#include <string>

#include <catch2/catch.hpp>

#include "test/support/reflector_rig.h"

namespace ipvsproxier::watch {
namespace {

using namespace std::chrono_literals;
using test::added;
using test::bookmark;
using test::event_text;
using test::kPage;
using test::kQuestion;
using test::kStreamingList;
using test::kTwo;
using test::list_text;
using test::modified;
using test::ReflectorRig;
using test::service_text;
using test::status_text;
using test::watch_from;
using test::WatchingRig;
using test::Words;
using News = std::vector<Words>;

const std::string kTooOld = status_text(410, "Expired", "too old resource version: 10 (99)");

TEST_CASE("410 makes a new list, at once") {
  WatchingRig rig;
  rig.transport.last().send(bookmark(12));
  if (GENERATE(true, false)) {
    rig.transport.last().send(modified("web", 13, "10.0.0.9") + event_text("ERROR", kTooOld) +
                              modified("web", 14, "10.0.0.8"));
    // What came before it counts, what came behind it does not.
    CHECK(rig.take_news() == News{{"web 10.0.0.9"}});
  } else {
    rig.next_watch();
    rig.transport.last().answer(410, kTooOld);
    CHECK(rig.take_news().empty());
  }
  CHECK(rig.transport.open_calls() == 0);
  CHECK(rig.wait() == 0ms);
  rig.settle();
  CHECK(rig.take_queries() == Words{kStreamingList});
  CHECK_THAT(rig.take_log(), Catch::Contains("410 Expired: too old resource version"));

  SECTION("but not again and again") {
    rig.list(20, kTwo);
    rig.transport.last().send(event_text("ERROR", kTooOld));
    CHECK(rig.wait() == 800ms);
    rig.timers.advance(800ms);
    rig.list(30, kTwo);
    rig.transport.last().send(event_text("ERROR", kTooOld));
    CHECK(rig.wait() == 1600ms);
    rig.timers.advance(1600ms);
    rig.list(40, kTwo);
    rig.transport.last().send(bookmark(41) + event_text("ERROR", kTooOld));
    CHECK(rig.wait() == 0ms);
  }
}

TEST_CASE("a page that the server has forgotten begins the list anew") {
  ReflectorRig rig;
  rig.transport.last().answer(422, "");
  rig.settle();
  rig.transport.last().answer(200, list_text(20, {service_text("a", 1, "10.0.0.1")}, "t1"));
  rig.take_queries();
  SECTION("410") {
    rig.transport.last().answer(410, kTooOld);
  }
  SECTION("400") {
    rig.transport.last().answer(400, status_text(400, "BadRequest", "continue key is not valid"));
  }
  CHECK(rig.wait() == 0ms);
  rig.settle();
  CHECK(rig.take_queries() == Words{kPage});
  // "a" went before it began.
  rig.transport.last().answer(200, list_text(30, {service_text("b", 2, "10.0.0.2")}, "t2"));
  rig.transport.last().answer(410, kTooOld);
  CHECK(rig.wait() == 800ms);
  rig.timers.advance(800ms);
  rig.transport.last().answer(200, list_text(40, {service_text("b", 2, "10.0.0.2")}));
  CHECK(rig.take_news() == News{{"b 10.0.0.2"}});
}

TEST_CASE("a server that is busy says when to come back") {
  WatchingRig rig;
  rig.next_watch();
  SECTION("429") {
    rig.transport.last().head(429, 7s);
  }
  SECTION("503") {
    rig.transport.last().head(503, 7s);
  }
  SECTION("504") {
    rig.transport.last().head(504, 7s);
  }
  SECTION("the head counts more than the body") {
    rig.transport.last().head(429, 7s);
    rig.transport.last().send(status_text(429, "TooManyRequests", "slow down", 3));
  }
  SECTION("in the body only") {
    rig.transport.last().head(504);
    rig.transport.last().send(
        status_text(504, "Timeout", "the request did not complete within the time", 7));
  }
  rig.transport.last().finish();
  CHECK(rig.wait() == 7000ms);
  rig.timers.advance(7s);
  CHECK(rig.take_queries() == Words{watch_from(10)});
  rig.random = 1;  // later, never earlier
  rig.transport.last().head(429, 8s);
  rig.transport.last().finish();
  CHECK(rig.wait() == 10'000ms);
}

TEST_CASE("a busy server that does not say when is left alone for a while") {
  WatchingRig rig;
  rig.next_watch();
  rig.transport.last().answer(503, "upstream connect error");
  CHECK(rig.wait() == 800ms);
  CHECK(rig.reflector.status().last_error ==
        "https://api.test:6443: the server answered 503: upstream connect error");
  rig.timers.advance(800ms);
  CHECK(rig.take_queries() == Words{watch_from(10)});
}

TEST_CASE("attempts become rarer until one works") {
  WatchingRig rig;
  rig.transport.last().fail("Connection reset by peer");
  std::vector<long> waits;
  for (int i = 0; i < 8; ++i) {
    waits.push_back(rig.wait().value().count());
    rig.timers.advance(*rig.wait());
    CHECK(rig.take_queries() == Words{kQuestion});
    CHECK(rig.transport.distrusted_connections == static_cast<std::size_t>(i) + 1);
    rig.transport.last().fail("Connection refused");
  }
  CHECK(waits == std::vector<long>{800, 1600, 3200, 6400, 12'800, 25'600, 30'000, 30'000});
  CHECK(rig.objects.size() == 2);
  CHECK(rig.take_news().empty());
  rig.random = 0.5;
  rig.timers.advance(30s);
  rig.transport.last().fail("Connection refused");
  CHECK(rig.wait() == 26'250ms);
  rig.random = 0;

  rig.timers.advance(30s);
  rig.answer_question(10);
  rig.transport.last().head(200);
  SECTION("an answer alone is not yet success") {
    rig.transport.last().fail("Connection reset by peer");
    CHECK(rig.wait() == 30'000ms);
  }
  SECTION("news are") {
    rig.transport.last().send(bookmark(50));
    rig.transport.last().fail("Connection reset by peer");
    CHECK(rig.wait() == 800ms);
  }
  SECTION("and so is a watch that lasts") {
    rig.timers.advance(10s);
    rig.transport.last().fail("Connection reset by peer");
    CHECK(rig.wait() == 800ms);
  }
}

TEST_CASE("401 reads the credentials again, once before it waits") {
  WatchingRig rig;
  rig.next_watch();
  rig.transport.last().answer(401, status_text(401, "Unauthorized", "Unauthorized"));
  CHECK(rig.transport.refused_credentials == 1);
  CHECK(rig.wait() == 0ms);
  rig.settle();
  CHECK(rig.take_queries() == Words{watch_from(10)});
  rig.transport.last().answer(401, "");
  CHECK(rig.transport.refused_credentials == 2);
  CHECK(rig.wait() == 800ms);
  rig.timers.advance(800ms);
  rig.transport.last().answer(401, "");
  CHECK(rig.transport.refused_credentials == 3);
  CHECK(rig.wait() == 1600ms);
  rig.timers.advance(1600ms);
  // The token is good again, and runs out once more.
  rig.transport.last().head(200);
  rig.transport.last().finish();
  rig.timers.advance(10s);
  rig.transport.last().answer(401, "");
  CHECK(rig.wait() == 0ms);
  CHECK(rig.objects.size() == 2);
  CHECK(rig.reflector.status().lists == 1);
}

TEST_CASE("what is forbidden may be allowed later") {
  WatchingRig rig;
  rig.next_watch();
  const int code = GENERATE(403, 404);
  for (int i = 0; i < 4; ++i) {
    rig.transport.last().answer(code, status_text(code, "Forbidden", "not you"));
    rig.timers.advance(30s);
    CHECK(rig.take_queries() == Words{watch_from(10)});
  }
  CHECK(rig.objects.size() == 2);
}

TEST_CASE("broken JSON ends the watch; the next begins behind the last good event") {
  WatchingRig rig;
  rig.transport.last().send(modified("web", 11, "10.0.0.9"));
  const auto* const what =
      GENERATE("}{", "{\"object\":}\n", "[]\n", "{\"type\":\"NEWS\",\"object\":{}}\n",
               "{\"type\":\"BOOKMARK\",\"object\":}\n");
  INFO(what);
  rig.transport.last().send(modified("db", 12, "10.0.0.7") + what + modified("db", 13, "10.0.0.8"));
  CHECK(rig.objects == std::map<std::string, std::string>{{"db", "10.0.0.7"}, {"web", "10.0.0.9"}});
  CHECK(rig.wait() == 800ms);
  CHECK_FALSE(rig.reflector.status().last_error.empty());
  rig.timers.advance(800ms);
  CHECK(rig.take_queries() == Words{watch_from(12)});
  SECTION("once more at the same place: a new list") {
    rig.transport.last().head(200);
    rig.transport.last().send(what);
    CHECK(rig.wait() == 1600ms);
    rig.timers.advance(1600ms);
    CHECK(rig.take_queries() == Words{kStreamingList});
    // Even now a list is a difference.
    rig.take_news();
    rig.list(20, kTwo);
    CHECK(rig.take_news() == News{{"db 10.0.0.2", "web 10.0.0.1"}});
  }
  SECTION("elsewhere: no new list") {
    rig.transport.last().head(200);
    rig.transport.last().send(modified("db", 14, "10.0.0.9") + what);
    CHECK(rig.wait() == 800ms);
    rig.timers.advance(800ms);
    CHECK(rig.take_queries() == Words{watch_from(14)});
  }
}

TEST_CASE("an event that is cut off is broken JSON") {
  WatchingRig rig;
  rig.transport.last().send(modified("web", 11, "10.0.0.9") + R"({"type":"MODIFIED","obj)");
  rig.transport.last().finish();
  CHECK(rig.wait() == 800ms);
  rig.timers.advance(800ms);
  CHECK(rig.take_queries() == Words{watch_from(11)});
  CHECK(rig.objects["web"] == "10.0.0.9");
}

TEST_CASE("a streaming list that is broken twice becomes pages") {
  ReflectorRig rig;
  for (const auto wait : {800ms, 1600ms}) {
    CHECK(rig.take_queries() == Words{kStreamingList});
    rig.transport.last().head(200);
    rig.transport.last().send(kTwo + "nonsense");
    CHECK(rig.wait() == wait);
    rig.timers.advance(wait);
  }
  CHECK(rig.take_queries() == Words{kPage});
  rig.transport.last().answer(200, list_text(20, {service_text("a", 1, "10.0.0.1")}));
  CHECK(rig.take_news() == News{{"a 10.0.0.1"}});
}

TEST_CASE("a page that is broken begins the list anew") {
  ReflectorRig rig;
  rig.transport.last().answer(400, "");
  rig.settle();
  rig.transport.last().answer(200, list_text(20, {service_text("a", 1, "10.0.0.1")}, "t1"));
  rig.take_queries();
  const auto* const body = GENERATE(
      "<html>", "{}", R"({"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]})",
      R"({"kind":"ServiceList","apiVersion":"v1","metadata":{},"items":[]})", "");
  INFO(body);
  rig.transport.last().answer(200, body);
  CHECK(rig.wait() == 800ms);
  rig.timers.advance(800ms);
  CHECK(rig.take_queries() == Words{kPage});
  CHECK(rig.take_news().empty());
}

TEST_CASE("errors for which there is no rule are retried, the second time with a new list") {
  WatchingRig rig;
  const bool is_event = GENERATE(true, false);
  const auto status = status_text(500, "InternalError", "etcd has no leader");
  const auto go_wrong = [&] {
    if (is_event) {
      rig.transport.last().head(200);
      rig.transport.last().send(event_text("ERROR", status));
    } else {
      rig.transport.last().answer(500, status);
    }
  };
  rig.next_watch();
  go_wrong();
  CHECK(rig.wait() == 800ms);
  CHECK_THAT(rig.reflector.status().last_error, Catch::Contains("500 InternalError: etcd has no"));
  rig.timers.advance(800ms);
  CHECK(rig.take_queries() == Words{watch_from(10)});
  go_wrong();
  CHECK(rig.wait() == 1600ms);
  rig.timers.advance(1600ms);
  CHECK(rig.take_queries() == Words{kStreamingList});
  CHECK(rig.objects.size() == 2);
}

TEST_CASE("a watch that ends without a word is not asked for again at once") {
  WatchingRig rig;
  rig.next_watch();
  rig.transport.last().answer(200, "");
  CHECK(rig.wait() == 800ms);
  rig.timers.advance(800ms);
  rig.answer_question(10);
  CHECK(rig.take_queries() == Words{kQuestion, watch_from(10)});
  // Nor is one that repeats itself.
  rig.transport.last().answer(200, modified("web", 3, "10.0.0.8"));
  CHECK(rig.wait() == 1600ms);
  CHECK(rig.take_news().empty());
  rig.timers.advance(1600ms);
  rig.answer_question(10);
  rig.transport.last().head(200);
  rig.timers.advance(1s);
  rig.transport.last().finish();
  CHECK(rig.wait() == 0ms);
}

TEST_CASE("a server that was set back is listed anew") {
  WatchingRig rig;
  rig.transport.last().send(bookmark(5));
  CHECK(rig.reflector.status().last_error ==
        "https://api.test:6443: the server went back from version 10 to 5");
  CHECK(rig.transport.distrusted_connections == 1);
  CHECK(rig.wait() == 800ms);
  rig.timers.advance(800ms);
  rig.answer_question(5);  // another one says so, too
  rig.settle();
  CHECK(rig.take_queries() == Words{kQuestion, kStreamingList});
  rig.list(5, added("web", 2, "10.0.0.7"));
  CHECK(rig.take_news() == News{{"db gone", "web 10.0.0.7"}});
  rig.transport.last().send(modified("web", 6, "10.0.0.6"));
  CHECK(rig.take_news() == News{{"web 10.0.0.6"}});
}

TEST_CASE("the body of a refusal is not kept beyond what a Status needs") {
  WatchingRig rig;
  rig.next_watch();
  rig.transport.piece = [] { return std::size_t{16384}; };
  rig.transport.last().head(500);
  for (int i = 0; i < 100; ++i) rig.transport.last().send(std::string(100'000, 'x'));
  rig.transport.last().finish();
  CHECK(rig.reflector.status().last_error.size() < 70'000);
}

}  // namespace
}  // namespace ipvsproxier::watch
