// The request of a reflector that is under way, on a scripted transport: what is told its reader.

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/watch/current_request.h"
#include "test/fakes/manual_timers.h"
#include "test/fakes/scripted_transport.h"

namespace ipvsproxier::test {
namespace {

using namespace std::chrono_literals;
using watch::CurrentRequest;
using watch::EndedRequest;
using watch::Ending;
using watch::EventFramer;
using watch::Step;
using watch::Trouble;
using Lines = std::vector<std::string>;

// Writes down what it is told. A document "new N" changes the version that is known, "bad" breaks
// the request off.
struct RequestRig final : CurrentRequest::Reader {
  ScriptedTransport transport;
  ManualTimers timers;
  const watch::Resource resource{.name = "services", .path = "/api/v1/services", .selector = ""};
  std::function<double()> random = [] { return 0.0; };
  std::string known = "7";
  Lines told;
  EndedRequest ended;
  Ending ending;
  CurrentRequest request{resource, transport, timers, random, *this};

  explicit RequestRig(Step step) { begin(step); }
  void begin(Step step) {
    request.prepare(step);
    request.begin();
  }
  ScriptedTransport::Call& call() { return transport.last(); }
  Lines take_told() { return std::exchange(told, {}); }

  const std::string& version() const override { return known; }
  void on_accepted() override { told.emplace_back("accepted"); }
  void on_document(EventFramer::Piece /*piece*/, std::string_view text) override {
    told.emplace_back(text);
    if (text.find("new") != std::string_view::npos) known = "8";
    if (text.find("bad") != std::string_view::npos)
      request.break_off({Trouble::nonsense, "bad", {}});
  }
  void on_chunk_read() override { told.emplace_back("read"); }
  void on_complete() override { told.emplace_back("complete"); }
  void on_ended(const EndedRequest& how, const Ending& why) override {
    told.emplace_back("ended");
    ended = how;
    ending = why;
  }
};

TEST_CASE("current request: a body is told document by document, then its end") {
  RequestRig rig(Step::first_page);
  CHECK(rig.transport.take_targets() == Lines{"/api/v1/services?limit=500"});
  rig.call().head(200);
  rig.call().send(R"({"items":[{"a":1},{"b":2}]})");
  rig.call().finish();
  CHECK(rig.take_told() ==
        Lines{"accepted", R"({"a":1})", R"({"b":2})", R"({"items":[]})", "read", "complete"});
  CHECK(rig.request.is_running());  // until the reader ends it or begins the next
  rig.request.prepare_page("next");
  rig.request.begin();
  CHECK(rig.transport.take_targets() == Lines{"/api/v1/services?limit=500&continue=next"});
  // A page that failed is asked for again.
  rig.call().fail("lost");
  CHECK(rig.take_told() == Lines{"ended"});
  CHECK(rig.ended.step == Step::later_page);
  CHECK_FALSE(rig.request.is_running());
  rig.begin(Step::later_page);
  CHECK(rig.transport.take_targets() == Lines{"/api/v1/services?limit=500&continue=next"});
}

TEST_CASE("current request: broken off, the rest of the chunk is ignored and the request ends") {
  RequestRig rig(Step::watch);
  rig.call().head(200);
  rig.call().send(R"({"a":1}{"bad":1}{"c":3})");
  CHECK(rig.take_told() == Lines{"accepted", R"({"a":1})", R"({"bad":1})", "read", "ended"});
  CHECK(rig.ending == Ending{Trouble::nonsense, "https://api.test:6443: bad", {}});
  CHECK(rig.transport.open_calls() == 0);
  CHECK(rig.timers.count() == 0);
  CHECK_FALSE(rig.request.end_broken());
}

TEST_CASE("current request: a body that is no JSON ends it") {
  RequestRig rig(Step::watch);
  rig.call().head(200);
  SECTION("between documents") {
    rig.call().send(R"({"a":1}?)");
    CHECK(rig.take_told() == Lines{"accepted", R"({"a":1})", "read", "ended"});
  }
  SECTION("in the middle of one") {
    rig.call().send(R"({"a":)");
    rig.call().finish();
    CHECK(rig.take_told() == Lines{"accepted", "read", "ended"});
  }
  CHECK(rig.ending.trouble == Trouble::nonsense);
}

TEST_CASE("current request: an answer other than 200 is read to its end and explained") {
  RequestRig rig(Step::watch);
  SECTION("with a Status") {
    rig.call().head(503, 7s);
    rig.call().send(R"({"kind":"Status","message":"come back later"})");
    rig.call().finish();
    CHECK(rig.ending.trouble == Trouble::busy);
    CHECK(rig.ending.cause.find("come back later") != std::string::npos);
    CHECK(rig.ending.retry_after == 7s);
    CHECK(rig.transport.refused_credentials == 0);
  }
  SECTION("401: its credentials are no good") {
    rig.call().answer(401, "no");
    CHECK(rig.ending.trouble == Trouble::unauthorized);
    CHECK(rig.transport.refused_credentials == 1);
  }
  CHECK(rig.take_told() == Lines{"ended"});
  CHECK(rig.transport.distrusted_connections == 0);
}

TEST_CASE("current request: what is silent, or lasts too long, ends, and its connection is left") {
  const auto ends_after = [](RequestRig& rig, std::chrono::seconds time) {
    rig.timers.advance(time - 1s);
    CHECK(rig.transport.open_calls() == 1);
    rig.timers.advance(1s);
    CHECK(rig.transport.open_calls() == 0);
    CHECK(rig.ending.trouble == Trouble::overdue);
    CHECK(rig.transport.distrusted_connections == 1);
    CHECK(rig.timers.count() == 0);
  };
  SECTION("no head") {
    RequestRig rig(GENERATE(Step::streaming_list, Step::first_page, Step::question, Step::watch));
    ends_after(rig, 60s);
  }
  SECTION("a list, a minute after its last byte") {
    RequestRig rig(GENERATE(Step::streaming_list, Step::first_page));
    rig.call().head(200);
    rig.timers.advance(40s);
    rig.call().send(" ");
    ends_after(rig, 60s);
  }
  SECTION("a list that says something every second, after two minutes") {
    RequestRig rig(GENERATE(Step::streaming_list, Step::first_page));
    rig.call().head(200);
    for (int i = 0; i < 118; ++i) {
      rig.timers.advance(1s);
      rig.call().send(" ");
    }
    ends_after(rig, 2s);
  }
  SECTION("a watch, 30 s after its limit") {
    RequestRig rig(Step::watch);
    rig.call().head(200);
    ends_after(rig, 330s);
  }
  SECTION("a watch with bookmarks, after three minutes") {
    RequestRig rig(Step::watch);
    rig.call().head(200);
    rig.timers.advance(20s);
    rig.call().send(" ");
    rig.request.note_bookmark();
    ends_after(rig, 180s);
  }
}

TEST_CASE("current request: the wait for credentials does not count") {
  RequestRig rig(Step::watch);
  rig.transport.waits = true;
  rig.begin(Step::watch);
  rig.timers.advance(1h);
  CHECK(rig.transport.open_calls() == 1);
  rig.call().go(rig.timers.now());
  rig.timers.advance(59s);
  CHECK(rig.transport.open_calls() == 1);
  rig.timers.advance(61s);
  CHECK(rig.transport.open_calls() == 0);
}

TEST_CASE("current request: a watch got on that brought news or lasted") {
  RequestRig rig(Step::watch);
  rig.call().head(200);
  SECTION("neither") {
    rig.timers.advance(9s);
    rig.request.end({Trouble::ended, "over", {}});
    CHECK_FALSE(rig.ended.got_on);
    CHECK(rig.ended.lasted == 9s);
  }
  SECTION("news") {
    rig.call().send(R"({"new":1})");
    CHECK(rig.request.brought_news());
    rig.request.end({Trouble::ended, "over", {}});
    CHECK(rig.ended.got_on);
  }
  SECTION("ten seconds") {
    rig.timers.advance(10s);
    rig.request.end({Trouble::ended, "over", {}});
    CHECK(rig.ended.got_on);
  }
  CHECK(rig.ended.status == 200);
  CHECK(rig.ended.time_limit == 300s);
}

TEST_CASE("current request: a streaming list goes on as a watch that has brought nothing yet") {
  RequestRig rig(Step::streaming_list);
  rig.call().head(200);
  rig.call().send(R"({"new":1})");
  CHECK(rig.request.brought_news());
  rig.request.go_on_as_watch();
  CHECK(rig.request.step() == Step::watch);
  CHECK_FALSE(rig.request.brought_news());
  rig.request.end({Trouble::ended, "over", {}});
  CHECK(rig.ended.step == Step::watch);
  CHECK(rig.ended.began_with_list);
  CHECK_FALSE(rig.ended.got_on);
  // The next request begins anew.
  rig.begin(Step::watch);
  rig.request.end({Trouble::ended, "over", {}});
  CHECK_FALSE(rig.ended.began_with_list);
  CHECK(rig.ended.status == 0);
}

TEST_CASE("current request: cancelled, nothing is told, and the next takes another connection") {
  RequestRig rig(Step::watch);
  rig.request.cancel();
  CHECK(rig.take_told().empty());
  CHECK(rig.transport.open_calls() == 0);
  CHECK(rig.transport.distrusted_connections == 1);
  CHECK(rig.timers.count() == 0);
}

}  // namespace
}  // namespace ipvsproxier::test
