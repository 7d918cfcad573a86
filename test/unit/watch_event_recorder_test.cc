// EventRecorder on a scripted transport and a clock that is turned by hand.

#include "proxier/watch/event_recorder.h"

#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxier/api/timestamp.h"
#include "test/fakes/manual_timers.h"
#include "test/fakes/scripted_transport.h"

namespace ipvsproxier::watch {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using Json = nlohmann::json;

const std::string kPath = "/apis/events.k8s.io/v1/namespaces/";
const std::string kForbidden =
    R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403})";

ClusterEvent of_node(const std::string& reason = "Starting") {
  return {.regarding = {.kind = "Node", .ns = "", .name = "kp"},
          .level = EventLevel::normal,
          .reason = reason,
          .action = "StartKubeProxy"};
}

ClusterEvent of_service(const std::string& name) {
  return {.regarding = {.kind = "Service", .ns = "shop", .name = name},
          .level = EventLevel::warning,
          .reason = "FailedToStartServiceHealthcheck",
          .action = "Listen",
          .note = "port in use"};
}

struct RecorderRig {
  test::ScriptedTransport transport;
  test::ManualTimers timers;
  std::ostringstream log_text;
  spdlog::logger log{"test", std::make_shared<spdlog::sinks::ostream_sink_st>(log_text)};
  double random = 0;
  loop::Timers::Clock::time_point begin = timers.now();
  std::size_t idles = 0;
  EventRecorder events{"h",
                       transport,
                       timers,
                       [this] { return random; },
                       log,
                       [this] {
                         return std::chrono::system_clock::time_point(1'700'000'000s) +
                                (timers.now() - begin);
                       }};

  RecorderRig() {
    log.set_pattern("%l %v");
    log.set_level(spdlog::level::info);
    events.on_idle([this] { ++idles; });
  }

  // What is asked now.
  const access::Request& asked() { return transport.last().request(); }
  Json body() { return Json::parse(asked().body); }
  std::string take_log() {
    auto text = log_text.str();
    log_text.str("");
    return text;
  }
  // Told, and arrived.
  void arrive(const ClusterEvent& event) {
    events.record(event);
    transport.last().answer(201, "{}");
  }
};

TEST_CASE("an Event is posted at once, and that is it") {
  RecorderRig rig;
  CHECK(rig.events.idle());
  rig.events.record(of_node());
  CHECK_FALSE(rig.events.idle());
  CHECK(rig.asked().method == access::Method::post);
  CHECK(rig.asked().target == kPath + "default/events");
  CHECK(rig.asked().content_type == "application/json");
  CHECK(rig.body()["reportingInstance"] == "kube-proxy-h");
  CHECK(rig.body()["metadata"]["name"] == "kp.17979cfe362a0000");
  CHECK(rig.body()["eventTime"] == "2023-11-14T22:13:20.000000Z");
  rig.transport.last().answer(201, rig.asked().body);
  CHECK(rig.events.idle());
  CHECK(rig.idles == 1);
  rig.timers.advance(24h);
  CHECK(rig.transport.count() == 1);
  CHECK(rig.timers.count() == 0);
  CHECK(rig.take_log().empty());
}

TEST_CASE("several Events go one after the other") {
  RecorderRig rig;
  rig.events.record(of_service("a"));
  rig.events.record(of_service("b"));
  rig.events.record(of_node());
  CHECK(rig.transport.count() == 1);
  CHECK(rig.asked().target == kPath + "shop/events");
  rig.transport.last().answer(201, "{}");
  CHECK(rig.body()["regarding"]["name"] == "b");
  rig.transport.last().answer(403, kForbidden);
  CHECK_THAT(rig.take_log(),
             Contains("info Event FailedToStartServiceHealthcheck of Service shop/b is not told: "
                      "the server answered 403 Forbidden: no"));
  CHECK(rig.body()["reason"] == "Starting");
  rig.transport.last().answer(201, "{}");
  CHECK(rig.transport.count() == 3);
  CHECK(rig.idles == 1);
}

TEST_CASE("a repeat becomes a series, told at once the first time only") {
  RecorderRig rig;
  rig.arrive(of_node());
  const auto name = Json::parse(rig.transport.call(0).request().body)["metadata"]["name"];
  rig.timers.advance(1s);
  rig.events.record(of_node());
  CHECK(rig.asked().method == access::Method::patch);
  CHECK(rig.asked().target == kPath + "default/events/" + name.get<std::string>());
  CHECK(rig.asked().content_type == "application/strategic-merge-patch+json");
  CHECK(rig.body() ==
        Json::parse(R"({"series":{"count":2,"lastObservedTime":"2023-11-14T22:13:21.000000Z"}})"));
  rig.transport.last().answer(200, "{}");
  for (int i = 0; i < 5; ++i) rig.events.record(of_node());
  CHECK(rig.transport.count() == 2);
  // Something else is not a repeat.
  rig.arrive(of_node("FailedToStartMetricServer"));
  CHECK(rig.transport.count() == 3);
}

TEST_CASE("the note makes no other Event") {
  RecorderRig rig;
  rig.arrive(of_service("a"));
  auto other = of_service("a");
  other.note = "something else";
  rig.events.record(other);
  CHECK(rig.asked().method == access::Method::patch);
}

TEST_CASE("a series that has ended is told its last count, and the next is a new Event") {
  RecorderRig rig;
  rig.arrive(of_node());
  rig.arrive(of_node());
  rig.timers.advance(1min);
  rig.events.record(of_node());
  CHECK(rig.transport.count() == 2);
  rig.timers.advance(5min);  // it lives: five minutes are less than six
  CHECK(rig.transport.count() == 2);
  rig.timers.advance(6min);
  CHECK(rig.body() ==
        Json::parse(R"({"series":{"count":3,"lastObservedTime":"2023-11-14T22:14:20.000000Z"}})"));
  rig.transport.last().answer(200, "{}");
  rig.events.record(of_node());
  CHECK(rig.asked().method == access::Method::post);
  CHECK_FALSE(rig.body().contains("series"));
}

TEST_CASE("a repeat while the last count is told keeps the series") {
  RecorderRig rig;
  rig.arrive(of_node());
  rig.arrive(of_node());
  rig.events.record(of_node());
  rig.timers.advance(6min);
  CHECK(rig.body()["series"]["count"] == 3);
  rig.events.record(of_node());
  rig.transport.last().answer(200, "{}");
  rig.timers.advance(6min);
  CHECK(rig.body()["series"]["count"] == 4);
}

TEST_CASE("a single Event is over after six minutes") {
  RecorderRig rig;
  rig.arrive(of_node());
  rig.timers.advance(6min);
  rig.events.record(of_node());
  CHECK(rig.asked().method == access::Method::post);
}

TEST_CASE("a series that goes on is told every half hour") {
  RecorderRig rig;
  rig.arrive(of_node());
  rig.arrive(of_node());
  for (int i = 1; i < 30; ++i) {
    rig.timers.advance(1min);
    rig.events.record(of_node());
  }
  CHECK(rig.transport.count() == 2);
  rig.timers.advance(1min);
  REQUIRE(rig.transport.count() == 3);
  CHECK(rig.body()["series"]["count"] == 31);
  rig.transport.last().answer(200, "{}");
  CHECK(rig.transport.open_calls() == 0);
}

TEST_CASE("what does not arrive is tried again, twelve times in all", "[item-20]") {
  RecorderRig rig;
  rig.random = 0.5;
  rig.events.record(of_node());
  for (unsigned attempt = 1; attempt < EventRecorder::kAttempts; ++attempt) {
    rig.transport.last().fail("connection refused");
    CHECK_FALSE(rig.events.idle());
    CHECK(rig.transport.open_calls() == 0);
    rig.timers.advance(11'249ms);
    CHECK(rig.transport.open_calls() == 0);
    rig.timers.advance(1ms);
  }
  CHECK(rig.transport.count() == 12);
  CHECK(rig.take_log().empty());
  rig.transport.last().fail("connection refused");
  CHECK(rig.events.idle());
  CHECK_THAT(rig.take_log(), Contains("warning Event Starting of Node kp is not told: "
                                      "https://api.test:6443: connection refused"));
  rig.timers.advance(1h);
  CHECK(rig.transport.count() == 12);
}

TEST_CASE("one that waits does not hold the others up") {
  RecorderRig rig;
  rig.events.record(of_node());
  rig.transport.last().fail("reset");
  rig.events.record(of_service("a"));
  CHECK(rig.body()["regarding"]["name"] == "a");
  rig.transport.last().answer(201, "{}");
  CHECK_FALSE(rig.events.idle());
  rig.timers.advance(10s);
  CHECK(rig.body()["reason"] == "Starting");
}

TEST_CASE("repeats while an Event does not arrive are in it when it does") {
  RecorderRig rig;
  rig.events.record(of_node());
  rig.transport.last().fail("reset");
  rig.events.record(of_node());
  rig.events.record(of_node());
  CHECK(rig.transport.count() == 1);
  rig.timers.advance(10s);
  CHECK(rig.asked().method == access::Method::post);
  CHECK(rig.body()["series"]["count"] == 3);
  rig.transport.last().answer(201, "{}");
  CHECK(rig.events.idle());
}

TEST_CASE("a repeat while the Event is on its way is told after it") {
  RecorderRig rig;
  rig.events.record(of_node());
  rig.events.record(of_node());
  CHECK(rig.transport.count() == 1);
  rig.transport.last().answer(201, "{}");
  CHECK(rig.asked().method == access::Method::patch);
  CHECK(rig.body()["series"]["count"] == 2);
}

TEST_CASE("an attempt that arrived without an answer is found out") {
  RecorderRig rig;
  rig.events.record(of_node());
  rig.transport.last().fail("reset");
  rig.events.record(of_node());
  rig.timers.advance(10s);
  rig.transport.last().answer(409, "{}");
  CHECK(rig.asked().method == access::Method::patch);
  CHECK(rig.body()["series"]["count"] == 2);
  rig.transport.last().answer(200, "{}");
  CHECK(rig.take_log().empty());
}

TEST_CASE("an Event that the server has forgotten is posted again") {
  RecorderRig rig;
  rig.arrive(of_node());
  rig.events.record(of_node());
  rig.transport.last().answer(404, "{}");
  CHECK(rig.asked().method == access::Method::post);
  CHECK(rig.body()["series"]["count"] == 2);
  // A namespace that is not there is no reason to go on.
  rig.transport.last().answer(404, "{}");
  CHECK(rig.events.idle());
}

TEST_CASE("a server that says nothing is not waited for") {
  RecorderRig rig;
  rig.events.record(of_node());
  rig.timers.advance(29s);
  CHECK(rig.transport.open_calls() == 1);
  rig.timers.advance(1s);
  CHECK(rig.transport.open_calls() == 0);
  rig.timers.advance(10s);
  CHECK(rig.transport.open_calls() == 1);
}

TEST_CASE("credentials are read again once") {
  RecorderRig rig;
  rig.events.record(of_node());
  rig.transport.last().answer(401, "{}");
  CHECK(rig.transport.refused_credentials == 1);
  CHECK_FALSE(rig.events.idle());
  rig.timers.advance(10s);
  rig.transport.last().answer(401, "{}");
  CHECK(rig.events.idle());
  CHECK(rig.transport.refused_credentials == 2);
}

TEST_CASE("a server that is busy says when to come back") {
  RecorderRig rig;
  rig.events.record(of_node());
  rig.transport.last().head(429, 20s);
  rig.transport.last().finish();
  rig.timers.advance(19s);
  CHECK(rig.transport.open_calls() == 0);
  rig.timers.advance(1s);
  CHECK(rig.transport.open_calls() == 1);
  // Without a word about that it is a refusal.
  rig.transport.last().answer(500, "{}");
  CHECK(rig.events.idle());
}

TEST_CASE("so many wait and no more") {
  RecorderRig rig;
  for (std::size_t i = 0; i <= EventRecorder::kMostKept; ++i)
    rig.events.record(of_service(std::to_string(i)));
  CHECK_THAT(rig.take_log(), Contains("1000 Events wait"));
  rig.events.record(of_service("late"));
  CHECK(rig.take_log().empty());
  while (rig.transport.open_calls() > 0) rig.transport.last().answer(201, "{}");
  CHECK(rig.transport.count() == EventRecorder::kMostKept);
  rig.timers.advance(6min);
  rig.arrive(of_service("late"));
}

TEST_CASE("nothing is left of a recorder that goes") {
  test::ManualTimers timers;
  test::ScriptedTransport transport;
  std::ostringstream text;
  spdlog::logger log{"test", std::make_shared<spdlog::sinks::ostream_sink_st>(text)};
  {
    EventRecorder events(
        "h", transport, timers, [] { return 0.0; }, log);
    events.record(of_node());
    transport.last().fail("reset");
    events.record(of_service("a"));
  }
  CHECK(timers.count() == 0);
  CHECK(transport.open_calls() == 0);
}

}  // namespace
}  // namespace ipvsproxier::watch
