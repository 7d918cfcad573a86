// A small conversation that is cut at every byte, in every way: afterwards the client has what the
// server has, nothing was told twice or lost, and little was asked for.

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "test/support/random_run.h"
#include "test/support/reflector_rig.h"

namespace ipvsproxier::watch {
namespace {

using namespace std::chrono_literals;
using test::added;
using test::bookmark;
using test::deleted;
using test::list_end;
using test::list_text;
using test::modified;
using test::ReflectorRig;
using test::service_text;
using test::Words;

// The first list, at version 10: of two Services that change, and one that does not.
const std::string kFirst = added("a", 5, "10.0.0.5") + test::kTwo + added("z", 6, "10.0.0.6");

// What happens after it.
struct Event {
  unsigned long version;
  std::string text;
};

const std::vector<Event> kEvents = {
    {11, modified("db", 11, "10.0.1.2")}, {12, added("new", 12, "10.0.0.3")},
    {13, deleted("web", 13, "10.0.0.1")}, {14, bookmark(14)},
    {15, modified("db", 15, "10.0.2.2")}, {16, added("web", 16, "10.0.1.1")},
};

const std::map<std::string, std::string> kEnd = {{"a", "10.0.0.5"},
                                                 {"db", "10.0.2.2"},
                                                 {"new", "10.0.0.3"},
                                                 {"web", "10.0.1.1"},
                                                 {"z", "10.0.0.6"}};

// What each object may be told to be, in this order.
const std::map<std::string, Words> kHistory = {
    {"a", {"10.0.0.5"}},   {"db", {"10.0.0.2", "10.0.1.2", "10.0.2.2"}},
    {"new", {"10.0.0.3"}}, {"web", {"10.0.0.1", "gone", "10.0.1.1"}},
    {"z", {"10.0.0.6"}},
};

std::string events_after(unsigned long version) {
  std::string text;
  for (const auto& event : kEvents)
    if (event.version > version) text += event.text;
  return text;
}

enum class Cut { reset, end, silence };

struct CutRig : ReflectorRig {
  unsigned long known = 16;  // the server's version

  // Answers what is waited for as a server does that is well.
  void answer() {
    auto& call = transport.last();
    const auto& target = call.request().target;
    const auto version = target.find("resourceVersion=");
    if (target.find("limit=1&") != std::string::npos || target.ends_with("limit=1"))
      return answer_question(known);
    const std::vector<std::string> now = {
        service_text("a", 5, "10.0.0.5"), service_text("z", 6, "10.0.0.6"),
        service_text("db", 15, "10.0.2.2"), service_text("new", 12, "10.0.0.3"),
        service_text("web", 16, "10.0.1.1")};
    if (target.find("limit=500") != std::string::npos)
      return call.answer(200, list_text(known, now));
    if (!call.head(200)) return;
    if (version != std::string::npos) {
      call.send(events_after(std::stoul(target.substr(version + 16))));
      return;
    }
    std::string text;
    for (const auto& one : now) text += test::event_text("ADDED", one);
    call.send(text + list_end(known));
  }

  void cut(Cut how) {
    if (!transport.is_waited_for()) return;
    auto& call = transport.last();
    if (how == Cut::reset) return call.fail("Connection reset by peer");
    if (how == Cut::end) return call.finish();
    const auto before = transport.count();
    for (int i = 0; i < 20 && transport.count() == before && call.is_open(); ++i)
      timers.advance(60s);
  }

  // Until a watch goes on at the end of everything.
  void recover() {
    const auto is_well = [this] {
      return objects == kEnd && reflector.status().last_error.empty();
    };
    for (int i = 0; i < 10 && !is_well(); ++i) {
      while (!transport.is_waited_for()) timers.advance(wait().value());
      answer();
    }
  }

  // Everything that was told, by object.
  void check_told() const {
    std::map<std::string, Words> told;
    for (const auto& words : news)
      for (const auto& word : words) {
        const auto space = word.find(' ');
        told[word.substr(0, space)].push_back(word.substr(space + 1));
      }
    for (const auto& [name, states] : told) {
      // Some may be left out, none told twice or after a later one.
      auto at = kHistory.at(name).begin();
      for (const auto& state : states) {
        at = std::find(at, kHistory.at(name).end(), state);
        REQUIRE(at != kHistory.at(name).end());
        ++at;
      }
    }
  }
};

void check_cut_everywhere(const std::string& conversation,
                          const std::function<void(CutRig&)>& before, std::size_t most_requests) {
  const auto how = GENERATE(Cut::reset, Cut::end, Cut::silence);
  // Every byte where the soak runs; daily some, which fall differently in each event.
  const bool is_long = test::environment_number("IPVS_PROXIER_SOAK_SECONDS", 0) > 0;
  const std::size_t step = is_long ? 1 : how == Cut::reset ? 3 : 13;
  for (std::size_t at = 0; at <= conversation.size(); at += step) {
    INFO("cut " << static_cast<int>(how) << " after byte " << at);
    CutRig rig;
    rig.log.set_level(spdlog::level::off);
    before(rig);
    if (rig.transport.last().head(200) && at > 0)
      rig.transport.last().send(conversation.substr(0, at));
    const auto asked = rig.transport.count();
    rig.cut(how);
    rig.recover();
    REQUIRE(rig.objects == kEnd);
    rig.check_told();
    REQUIRE(rig.transport.count() - asked <= most_requests);
    REQUIRE(rig.reflector.status().last_error.empty());
  }
}

TEST_CASE("a streaming list with its watch is cut at every byte", "[cuts][random]") {
  check_cut_everywhere(
      kFirst + list_end(10) + events_after(10), [](CutRig&) {}, 3);
}

TEST_CASE("a list of what is known is cut at every byte", "[cuts][random]") {
  check_cut_everywhere(
      kFirst + list_end(10),
      [](CutRig& rig) {
        rig.list(10, kFirst);
        rig.transport.last().send(
            test::event_text("ERROR", test::status_text(410, "Expired", "too old")));
        rig.settle();
      },
      3);
}

TEST_CASE("a watch is cut at every byte", "[cuts][random]") {
  check_cut_everywhere(
      events_after(10),
      [](CutRig& rig) {
        rig.list(10, kFirst);
        rig.timers.advance(300s);
        rig.transport.last().finish();
        rig.settle();
      },
      3);
}

TEST_CASE("a page is cut at every byte", "[cuts][random]") {
  const std::vector<std::string> first = {service_text("a", 5, "10.0.0.5"),
                                          service_text("z", 6, "10.0.0.6"),
                                          service_text("db", 7, "10.0.0.2")};
  const auto later = service_text("web", 3, "10.0.0.1");
  auto both = first;
  both.push_back(later);
  const bool is_later = GENERATE(false, true);
  check_cut_everywhere(
      list_text(10, is_later ? std::vector{later} : both),
      [&](CutRig& rig) {
        rig.transport.last().answer(400, "");
        rig.settle();
        if (is_later) rig.transport.last().answer(200, list_text(10, first, "t"));
      },
      4);
}

TEST_CASE("the answer to the question is cut at every byte", "[cuts][random]") {
  check_cut_everywhere(
      list_text(12, {service_text("web", 3, "10.0.0.1")}, "more"),
      [](CutRig& rig) {
        rig.list(10, kFirst);
        rig.transport.last().fail("Connection reset by peer");
        rig.timers.advance(1s);
      },
      4);
}

// --- answers with status 200 that are none ------------------------------------------------------

const std::string kLogin =
    "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>{\"user\"}</body></html>\n";
const std::string kPods =
    R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"90"},)"
    R"("items":[]})";
const std::string kNoItems =
    R"({"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"90"}})";
const std::string kNoVersion =
    R"({"kind":"ServiceList","apiVersion":"v1","metadata":{},"items":[]})";

TEST_CASE("200 with something else harms nothing and is asked for rarely", "[cuts]") {
  const auto body = GENERATE(values<std::string>({
      "",
      " \n",
      "null",
      "[]",
      "{}",
      "0",
      "\"text\"",
      "k8s" + std::string(1, 0) + "\n\x0c\n\x02v1",
      kLogin,
      kPods,
      kNoItems,
      kNoVersion,
      test::status_text(403, "Forbidden", "not you"),
      test::status_text(500, "InternalError", "etcd is away"),
      "ok\n",
      "\xff\xfe{" + std::string(3, 0),
  }));
  const bool is_listed = GENERATE(true, false);
  CAPTURE(body, is_listed);
  ReflectorRig rig;
  if (is_listed) {
    rig.list(10, kFirst);
    rig.timers.advance(300s);
    rig.transport.last().finish();
    rig.settle();
  }
  const auto objects = rig.objects;
  const auto before = rig.transport.count();
  const auto end = rig.timers.now() + 1h;
  while (rig.timers.now() < end) {
    if (!rig.transport.is_waited_for()) {
      rig.timers.advance(std::max<std::chrono::milliseconds>(rig.wait().value(), 0ms));
      continue;
    }
    rig.transport.last().answer(200, body);
    REQUIRE(rig.transport.count() - before < 400);
  }
  CHECK(rig.objects == objects);
  CHECK(rig.reflector.status().lists == (is_listed ? 1 : 0));
  CHECK(rig.reflector.status().last_error.size() > 30);
  INFO(rig.reflector.status().last_error);
  // One line for each cause, again every five minutes.
  const auto log = rig.take_log();
  CHECK(std::count(log.begin(), log.end(), '\n') < 80);
  CHECK(rig.reflector.status().failures > 60);
  // The server is well again.
  for (int i = 0; i < 6 && rig.objects != kEnd; ++i) {
    while (!rig.transport.is_waited_for()) rig.timers.advance(rig.wait().value());
    const auto& target = rig.transport.last().request().target;
    if (target.ends_with("limit=1"))
      rig.answer_question(16);
    else if (target.find("limit=500") != std::string::npos)
      rig.transport.last().answer(
          200,
          list_text(16, {service_text("a", 5, "10.0.0.5"), service_text("z", 6, "10.0.0.6"),
                         service_text("db", 15, "10.0.2.2"), service_text("new", 12, "10.0.0.3"),
                         service_text("web", 16, "10.0.1.1")}));
    else if (rig.transport.last().head(200))
      rig.transport.last().send(target.find("resourceVersion=") != std::string::npos
                                    ? events_after(10)
                                    : kFirst + list_end(10) + events_after(10));
  }
  CHECK(rig.objects == kEnd);
  CHECK(rig.reflector.status().last_error.empty());
}

}  // namespace
}  // namespace ipvsproxier::watch
