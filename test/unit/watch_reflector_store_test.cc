// Servers that know less than they did, or not yet as much, and requests that have to wait for
// credentials.

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
using test::list_end;
using test::list_text;
using test::modified;
using test::ReflectorRig;
using test::service_text;
using test::status_text;
using test::watch_from;
using test::Words;
using News = std::vector<Words>;

const std::string kBehind = status_text(504, "Timeout", "Too large resource version: 10", 1);

struct FollowingRig : ReflectorRig {
  FollowingRig() {
    list(10, kTwo);
    forget();
  }
  void forget() {
    take_queries();
    take_news();
    take_log();
  }
};

TEST_CASE("a streaming list for which a server is behind becomes pages at the second time") {
  ReflectorRig rig;
  CHECK(rig.take_queries() == Words{kStreamingList});
  rig.transport.last().answer(504, kBehind);
  CHECK(rig.wait() == 1000ms);
  rig.timers.advance(1s);
  CHECK(rig.take_queries() == Words{kStreamingList});
  rig.transport.last().answer(504, kBehind);
  CHECK(rig.wait() == 1000ms);
  rig.timers.advance(1s);
  CHECK(rig.take_queries() == Words{kPage});
  rig.transport.last().answer(200, list_text(20, {service_text("a", 1, "10.0.0.1")}));
  CHECK(rig.take_news() == News{{"a 10.0.0.1"}});
  CHECK(rig.take_queries() == Words{watch_from(20)});
}

TEST_CASE("a watch for which a server is behind becomes a new list at the second time") {
  FollowingRig rig;
  const bool is_event = GENERATE(true, false);
  const auto go_wrong = [&] {
    if (!is_event) return rig.transport.last().answer(504, kBehind);
    rig.transport.last().head(200);
    rig.transport.last().send(event_text("ERROR", kBehind));
  };
  rig.timers.advance(300s);
  rig.transport.last().finish();
  rig.settle();
  rig.take_queries();
  go_wrong();
  CHECK(rig.wait() == 1000ms);
  rig.timers.advance(1s);
  SECTION("the store is ours: only that server lags") {
    rig.answer_question(12);
    CHECK(rig.take_queries() == Words{kQuestion, watch_from(10)});
    go_wrong();
    rig.timers.advance(1s);
    CHECK(rig.take_queries() == Words{kStreamingList});
    CHECK(rig.objects.size() == 2);
    rig.list(12, kTwo);
    CHECK(rig.take_news() == News{{}});
  }
  SECTION("it comes to it") {
    rig.answer_question(12);
    rig.transport.last().head(200);
    rig.transport.last().send(bookmark(12));
    rig.transport.last().send(event_text("ERROR", kBehind));
    rig.timers.advance(1s);
    rig.answer_question(12);
    rig.take_queries();
    rig.transport.last().head(200);
    CHECK(rig.reflector.status().last_error.empty());
    CHECK(rig.reflector.status().lists == 1);
  }
  SECTION("the store went back") {
    rig.answer_question(9);
    CHECK(rig.wait() == 800ms);
    rig.timers.advance(800ms);
    rig.answer_question(9);
    CHECK(rig.wait() == 0ms);
    rig.settle();
    CHECK(rig.take_queries() == Words{kQuestion, kQuestion, kStreamingList});
  }
}

TEST_CASE("a store that was restored while the server was away is listed anew") {
  FollowingRig rig;
  rig.transport.last().fail("Connection reset by peer");
  rig.timers.advance(1s);
  CHECK(rig.take_queries() == Words{kQuestion});
  CHECK(rig.transport.distrusted_connections == 1);
  rig.transport.last().fail("Connection refused");
  rig.timers.advance(2s);
  rig.take_log();
  rig.answer_question(8);
  CHECK(rig.take_log() ==
        "warning services: https://api.test:6443: the server went back from version 10 to 8; "
        "again in 3.2 s\n");
  CHECK(rig.transport.distrusted_connections == 3);
  rig.timers.advance(4s);
  rig.answer_question(8);
  rig.settle();
  CHECK(rig.take_queries() == Words{kQuestion, kQuestion, kStreamingList});
  rig.transport.last().head(200);
  rig.transport.last().send(added("web", 4, "10.0.0.7"));
  CHECK(rig.objects.size() == 2);  // until the list is whole
  CHECK(rig.take_news().empty());
  rig.transport.last().send(list_end(8));
  CHECK(rig.take_news() == News{{"db gone", "web 10.0.0.7"}});
  // Versions that the old store had given are news.
  rig.transport.last().send(modified("web", 9, "10.0.0.6") + added("db", 10, "10.0.0.5"));
  CHECK(rig.take_news() == News{{"db 10.0.0.5", "web 10.0.0.6"}});
}

TEST_CASE("what could not be read in a store that was restored may be told better") {
  FollowingRig rig;
  rig.transport.last().fail("Connection reset by peer");
  rig.timers.advance(1s);
  rig.answer_question(5);
  rig.timers.advance(2s);
  rig.answer_question(5);
  rig.settle();
  SECTION("an object that does not decode") {
    rig.list(5, event_text("ADDED", service_text("db", 2, "300.0.0.1")));
  }
  SECTION("one without a name") {
    rig.list(5, event_text("ADDED", service_text("", 2, "10.0.0.9")));
  }
  rig.take_news();
  CHECK(rig.objects["db"] == "10.0.0.2");
  rig.transport.last().send(modified("db", 6, "10.0.0.8"));
  CHECK(rig.take_news() == News{{"db 10.0.0.8"}});
}

TEST_CASE("a watch that ends before its time is followed by the question") {
  FollowingRig rig;  // lasts 300 s
  SECTION("long before") {
    rig.timers.advance(20s);
    rig.transport.last().finish();
    rig.settle();
    CHECK(rig.take_queries() == Words{kQuestion});
    rig.answer_question(10);
    CHECK(rig.take_queries() == Words{watch_from(10)});
    CHECK(rig.reflector.status().failures == 0);
  }
  SECTION("a moment before") {
    rig.timers.advance(298s);
    rig.transport.last().finish();
    rig.settle();
    CHECK(rig.take_queries() == Words{watch_from(10)});
  }
  CHECK(rig.reflector.status().lists == 1);
  CHECK(rig.take_news().empty());
}

TEST_CASE("the question is asked until it is answered, unless that is not allowed") {
  FollowingRig rig;
  rig.transport.last().fail("Connection reset by peer");
  rig.timers.advance(800ms);
  CHECK(rig.take_queries() == Words{kQuestion});
  SECTION("busy") {
    rig.transport.last().answer(503, "");
    rig.timers.advance(1600ms);
    CHECK(rig.take_queries() == Words{kQuestion});
  }
  SECTION("who are you?") {
    rig.transport.last().answer(401, "");
    rig.settle();
    CHECK(rig.take_queries() == Words{kQuestion});
    CHECK(rig.transport.refused_credentials == 1);
  }
  SECTION("no answer") {
    rig.timers.advance(60s);
    rig.timers.advance(1600ms);
    CHECK(rig.take_queries() == Words{kQuestion});
  }
  SECTION("half of an answer") {
    rig.transport.last().head(200);
    rig.transport.last().send(R"({"kind":"ServiceList","apiVersion":"v1",)");
    rig.transport.last().fail("Connection reset by peer");
    rig.timers.advance(1600ms);
    CHECK(rig.take_queries() == Words{watch_from(10)});
  }
  SECTION("not you") {
    rig.transport.last().answer(403, status_text(403, "Forbidden", "you may watch only"));
    rig.timers.advance(1600ms);
    CHECK(rig.take_queries() == Words{watch_from(10)});
  }
  SECTION("a list of something else") {
    rig.transport.last().answer(200, "{}");
    rig.timers.advance(1600ms);
    CHECK(rig.take_queries() == Words{watch_from(10)});
  }
  SECTION("versions that say nothing about each other") {
    rig.transport.last().answer(
        200, R"({"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"a"},)"
             R"("items":[]})");
    CHECK(rig.take_queries() == Words{watch_from(10)});
  }
  CHECK(rig.objects.size() == 2);
  CHECK(rig.reflector.status().lists == 1);
}

TEST_CASE("what the answer to the question holds is no list") {
  FollowingRig rig;
  rig.transport.last().fail("Connection reset by peer");
  rig.timers.advance(1s);
  rig.transport.last().answer(200, list_text(12, {service_text("web", 11, "10.0.0.9")}, "more"));
  CHECK(rig.take_news().empty());
  CHECK(rig.take_queries() == Words{kQuestion, watch_from(10)});
}

TEST_CASE("a list is followed again when it is whole") {
  ReflectorRig rig;
  rig.transport.last().fail("Connection refused");
  rig.timers.advance(1s);
  rig.take_log();
  SECTION("a streaming one") {
    rig.transport.last().head(200);
    rig.transport.last().send(kTwo);
    CHECK(rig.take_log().empty());
    CHECK_FALSE(rig.reflector.status().last_error.empty());
    rig.transport.last().send(list_end(10));
  }
  SECTION("pages") {
    rig.transport.last().answer(400, "");
    rig.settle();
    rig.take_log();
    rig.transport.last().answer(200, list_text(10, {service_text("db", 7, "10.0.0.2")}, "t"));
    rig.transport.last().head(200);
    CHECK(rig.take_log().empty());
    rig.transport.last().send(list_text(10, {service_text("web", 3, "10.0.0.1")}));
    rig.transport.last().finish();
  }
  CHECK(rig.take_log() ==
        "info services: 2 listed; 2 new or changed, 0 gone\ninfo services: followed again\n");
  CHECK(rig.reflector.status().last_error.empty());
}

TEST_CASE("a request that waits for credentials is neither silent nor overdue") {
  FollowingRig rig;
  rig.transport.waits = true;
  rig.timers.advance(300s);
  rig.transport.last().finish();
  rig.settle();
  rig.take_queries();
  SECTION("the minute begins when it goes out") {
    rig.timers.advance(65s);
    CHECK(rig.transport.open_calls() == 1);
    rig.transport.last().go(rig.timers.now());
    rig.timers.advance(59s);
    CHECK(rig.transport.open_calls() == 1);
    rig.timers.advance(1s);
    CHECK(rig.transport.open_calls() == 0);
    CHECK_THAT(rig.take_log(), Catch::Contains("the server says nothing"));
  }
  SECTION("and so does its time") {
    rig.timers.advance(50s);
    rig.transport.last().go(rig.timers.now());
    rig.timers.advance(5s);
    rig.transport.last().head(200);
    rig.timers.advance(324s);
    CHECK(rig.transport.open_calls() == 1);
    SECTION("it ends as it should") {
      rig.transport.last().finish();
      CHECK(rig.wait() == 0ms);
      CHECK(rig.reflector.status().failures == 0);
    }
    SECTION("it does not") {
      rig.timers.advance(1s);
      CHECK_THAT(rig.take_log(), Catch::Contains("the server does not come to an end"));
    }
  }
  SECTION("waiting is no life") {
    rig.timers.advance(50s);
    rig.transport.last().go(rig.timers.now());
    rig.transport.last().head(200);
    rig.transport.last().fail("Connection reset by peer");
    CHECK(rig.wait() == 800ms);
    rig.timers.advance(50s);
    rig.transport.last().go(rig.timers.now());
    rig.answer_question(10);
    rig.timers.advance(50s);
    rig.transport.last().go(rig.timers.now());
    rig.transport.last().head(200);
    rig.transport.last().fail("Connection reset by peer");
    CHECK(rig.wait() == 1600ms);
  }
  CHECK(rig.objects.size() == 2);
}

}  // namespace
}  // namespace ipvsproxier::watch
