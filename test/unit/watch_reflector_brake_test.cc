// A list that lacks most of what was there.

#include <catch2/catch.hpp>

#include "test/support/reflector_rig.h"

namespace ipvsproxier::watch {
namespace {

using namespace std::chrono_literals;
using test::added;
using test::deleted;
using test::event_text;
using test::kPage;
using test::kStreamingList;
using test::list_end;
using test::list_text;
using test::modified;
using test::ReflectorRig;
using test::status_text;
using test::watch_from;
using test::Words;

std::string name_of(int i) {
  return "s" + std::to_string(i);
}

std::string address_of(int i) {
  return "10.0.1." + std::to_string(i);
}

// s<first> to s<end - 1>, as events of a list.
std::string services(int first, int end) {
  std::string text;
  for (int i = first; i < end; ++i)
    text += added(name_of(i), static_cast<unsigned long>(i) + 1, address_of(i));
  return text;
}

// 40 Services at version 100, and the watch.
struct BrakeRig : ReflectorRig {
  explicit BrakeRig(RemovalBrake::Wait wait = 30s) : ReflectorRig(wait) {
    list(100, services(0, 40));
    forget();
  }
  void forget() {
    take_queries();
    take_news();
    take_log();
  }
  // The server forgot its history: everything is listed anew.
  void list_anew(unsigned long version, const std::string& events) {
    transport.last().send(event_text("ERROR", status_text(410, "Expired", "too old")));
    settle();
    take_queries();
    list(version, events);
  }
};

TEST_CASE("most of what was there is missing from a list, and from the next", "[brake]") {
  BrakeRig rig;
  rig.list_anew(200, services(30, 40) + added("new", 150, "10.0.2.1"));
  CHECK(rig.take_news() == std::vector<Words>{{"new 10.0.2.1"}});
  CHECK(rig.objects.size() == 41);
  CHECK(rig.reflector.status().held == 30);
  CHECK(rig.reflector.status().objects == 41);
  CHECK_THAT(rig.take_log(), Catch::Contains("services: 41 listed; 1 new or changed, 0 gone") &&
                                 Catch::Contains("services: the list lacks 30 of 41; they stay"));
  rig.transport.last().send(modified("new", 201, "10.0.2.2"));
  rig.timers.advance(29s);
  CHECK(rig.transport.open_calls() == 1);
  CHECK(rig.take_queries().empty());
  CHECK(rig.objects.size() == 41);
  rig.timers.advance(1s);
  // A list of its own, over another connection.
  CHECK(rig.take_queries() == Words{kStreamingList});
  CHECK(rig.transport.distrusted_connections == 1);
  rig.take_log();
  SECTION("they go") {
    rig.list(202, services(30, 40) + added("new", 201, "10.0.2.2"));
    CHECK(rig.objects.size() == 11);
    CHECK(rig.reflector.status().held == 0);
    CHECK_THAT(rig.take_log(), Catch::Contains("0 new or changed, 30 gone") &&
                                   Catch::Contains("nothing that lists lack is kept any more"));
    rig.timers.advance(100s);
    CHECK(rig.take_queries().empty());
  }
  SECTION("they are back") {
    rig.take_news();
    rig.list(202, services(0, 40) + added("new", 201, "10.0.2.2"));
    CHECK(rig.take_news() == std::vector<Words>{{}});
    CHECK(rig.objects.size() == 41);
    CHECK(rig.reflector.status().held == 0);
  }
  SECTION("the list fails, and they stay until one is whole") {
    for (int i = 0; i < 5; ++i) {
      rig.transport.last().head(200);
      rig.transport.last().send(services(30, 40));
      rig.transport.last().fail("Connection reset by peer");
      rig.timers.advance(rig.wait().value());
    }
    CHECK(rig.objects.size() == 41);
    rig.list(202, services(30, 40));
    CHECK(rig.objects.size() == 10);
  }
}

TEST_CASE("in pages, too", "[brake]") {
  BrakeRig rig;
  rig.transport.last().send(event_text("ERROR", status_text(410, "Expired", "too old")));
  rig.settle();
  rig.transport.last().answer(400, "");
  rig.settle();
  rig.take_queries();
  rig.transport.last().answer(200, list_text(200, {}));
  CHECK(rig.objects.size() == 40);
  rig.timers.advance(30s);
  rig.transport.last().answer(400, "");
  rig.settle();
  CHECK(rig.take_queries() == Words{watch_from(200), kStreamingList, kPage});
  rig.transport.last().answer(200, list_text(200, {}));
  CHECK(rig.objects.empty());
}

TEST_CASE("while they stay, what events tell is done", "[brake]") {
  BrakeRig rig;
  rig.list_anew(200, services(30, 40));
  rig.take_news();
  rig.transport.last().send(deleted("s35", 201, address_of(35)));
  rig.transport.last().send(deleted("s3", 202, address_of(3)));
  rig.transport.last().send(added("s4", 203, "10.0.2.4") + added("s5", 204, address_of(5)));
  CHECK(rig.take_news() == std::vector<Words>{{"s35 gone"}, {"s3 gone"}, {"s4 10.0.2.4"}});
  CHECK(rig.reflector.status().held == 27);
  rig.timers.advance(30s);
  rig.list(205, services(30, 35) + services(36, 40) + added("s4", 203, "10.0.2.4") +
                    added("s5", 204, address_of(5)));
  CHECK(rig.objects.size() == 11);
}

TEST_CASE("a list in between removes nothing that stays", "[brake]") {
  BrakeRig rig;
  rig.list_anew(200, services(30, 40));
  rig.timers.advance(20s);
  rig.list_anew(210, services(30, 40));
  CHECK(rig.objects.size() == 40);
  // One that goes on when the wait ends was begun before: it is repeated at once.
  rig.transport.last().send(event_text("ERROR", status_text(410, "Expired", "too old")));
  rig.timers.advance(5s);
  rig.take_queries();
  rig.transport.last().head(200);
  rig.timers.advance(10s);
  CHECK(rig.take_queries().empty());
  rig.transport.last().send(services(30, 40) + list_end(220));
  CHECK(rig.objects.size() == 40);
  rig.settle();
  CHECK(rig.take_queries() == Words{kStreamingList});
  rig.list(221, services(30, 40));
  CHECK(rig.objects.size() == 10);
}

TEST_CASE("the server is away when the wait ends", "[brake]") {
  BrakeRig rig;
  rig.list_anew(200, services(30, 40));
  rig.timers.advance(29s);
  rig.take_queries();
  rig.transport.last().fail("Connection refused");
  rig.random = 0;
  rig.timers.advance(799ms);
  CHECK(rig.take_queries().empty());
  for (int i = 0; i < 3; ++i) {
    rig.timers.advance(rig.wait().value_or(0ms));
    rig.transport.last().fail("Connection refused");
  }
  CHECK(rig.objects.size() == 40);
  rig.timers.advance(rig.wait().value());
  rig.list(205, services(30, 40));
  CHECK(rig.objects.size() == 10);
}

TEST_CASE("few, or without the brake, go at once", "[brake]") {
  SECTION("half") {
    BrakeRig rig;
    rig.list_anew(200, services(20, 40));
    CHECK(rig.objects.size() == 20);
    CHECK(rig.reflector.status().held == 0);
  }
  SECTION("switched off") {
    BrakeRig rig(std::nullopt);
    rig.list_anew(200, "");
    CHECK(rig.objects.empty());
  }
  SECTION("deletions that a watch tells") {
    BrakeRig rig;
    for (int i = 0; i < 39; ++i)
      rig.transport.last().send(
          deleted(name_of(i), 200 + static_cast<unsigned long>(i), "10.0.0.1"));
    CHECK(rig.objects.size() == 1);
    rig.timers.advance(100s);
    CHECK(rig.take_queries().empty());
  }
}

// Services that exist and cannot be read, as `type` of events.
std::string broken(const std::string& type, int first, int end, unsigned long version) {
  std::string text;
  for (int i = first; i < end; ++i)
    text += event_text(type, test::service_text(name_of(i), version++, "300.0.0.1"));
  return text;
}

TEST_CASE("what never could be read stays with the others", "[brake]") {
  BrakeRig rig;
  rig.list_anew(150, services(0, 40) + broken("ADDED", 40, 42, 141));
  rig.forget();
  rig.timers.advance(20s);  // the watch works
  REQUIRE(rig.unreadable.size() == 2);
  rig.list_anew(200, services(30, 40));
  CHECK(rig.objects.size() == 40);
  CHECK(rig.unreadable.size() == 2);
  CHECK(rig.reflector.status().held == 32);
  CHECK(rig.reflector.status().unreadable == 2);
  CHECK_THAT(rig.take_log(), Catch::Contains("services: the list lacks 32 of 42; they stay"));
  // An event of one of them is believed.
  rig.transport.last().send(event_text("DELETED", test::service_text("s41", 201, "300.0.0.1")));
  CHECK(rig.unreadable.size() == 1);
  CHECK(rig.reflector.status().held == 31);
  rig.timers.advance(30s);
  SECTION("they go") {
    rig.list(202, services(30, 40));
    CHECK(rig.objects.size() == 10);
    CHECK(rig.unreadable.empty());
    CHECK(rig.reflector.status().held == 0);
  }
  SECTION("they are back") {
    rig.list(202, services(0, 40) + broken("ADDED", 40, 41, 141));
    CHECK(rig.unreadable.size() == 1);
    CHECK(rig.reflector.status().held == 0);
  }
  SECTION("it is back, and can be read") {
    rig.list(202, services(0, 41));
    CHECK(rig.objects.size() == 41);
    CHECK(rig.unreadable.empty());
  }
}

TEST_CASE("what cannot be read counts, once", "[brake]") {
  ReflectorRig rig(30s);
  rig.list(100, services(0, 15) + broken("ADDED", 15, 40, 16));
  const auto list_anew = [&](const std::string& events) {
    rig.transport.last().send(event_text("ERROR", status_text(410, "Expired", "too old")));
    rig.settle();
    rig.list(200, events);
  };
  REQUIRE(rig.unreadable.size() == 25);
  SECTION("few can be read") {
    list_anew("");
    CHECK(rig.objects.size() == 15);
    CHECK(rig.unreadable.size() == 25);
    CHECK(rig.reflector.status().held == 40);
  }
  SECTION("some could be read before") {
    rig.transport.last().send(broken("MODIFIED", 0, 10, 101));
    REQUIRE(rig.unreadable.size() == 35);
    list_anew(services(0, 19));
    CHECK(rig.objects.size() == 19);
    CHECK(rig.unreadable.size() == 21);
    CHECK(rig.reflector.status().held == 21);
  }
  SECTION("half") {
    list_anew(services(0, 20));
    CHECK(rig.unreadable.empty());
    CHECK(rig.reflector.status().held == 0);
  }
}

TEST_CASE("everything is listed again when that is asked for", "[brake]") {
  BrakeRig rig;
  rig.reflector.list_again(rig.timers.now() + 30s);
  rig.timers.advance(10s);
  rig.list_anew(200, services(0, 40));
  rig.timers.advance(20s);
  CHECK(rig.take_queries() == Words{kStreamingList});
  const auto asked = rig.timers.now();
  rig.list(201, services(0, 40));
  CHECK(rig.reflector.status().listed == asked);
  rig.timers.advance(100s);
  CHECK(rig.take_queries().empty());
}

}  // namespace
}  // namespace ipvsproxier::watch
