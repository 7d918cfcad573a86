#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "test/support/reflector_rig.h"

namespace ipvsproxier::watch {
namespace {

using namespace std::chrono_literals;
using test::added;
using test::bookmark;
using test::kStreamingList;
using test::kTwo;
using test::list_text;
using test::modified;
using test::ReflectorRig;
using test::service_text;
using test::status_text;
using test::watch_from;
using test::Words;
using News = std::vector<Words>;

// An address that is none.
std::string broken(const std::string& name, unsigned long version) {
  return service_text(name, version, "300.0.0.1");
}

TEST_CASE("an object that does not decode keeps its last good state") {
  ReflectorRig rig;
  SECTION("in a watch") {
    rig.list(10, kTwo);
    rig.take_news();
    rig.take_log();
    rig.transport.last().send(test::event_text("MODIFIED", broken("web", 11)) +
                              modified("db", 12, "10.0.0.7"));
    CHECK(rig.take_news() == News{{"db 10.0.0.7"}});
  }
  SECTION("in a streaming list") {
    rig.list(10, kTwo);
    rig.transport.last().send(test::event_text("ERROR", status_text(410, "Expired", "too old")));
    rig.take_news();
    rig.take_log();
    rig.list(20, test::event_text("ADDED", broken("web", 11)) + added("db", 12, "10.0.0.7"));
    CHECK(rig.take_news() == News{{"db 10.0.0.7"}});
  }
  SECTION("in a page") {
    rig.transport.last().answer(400, "");
    rig.settle();
    rig.transport.last().answer(200, list_text(10, {service_text("db", 7, "10.0.0.2"),
                                                    service_text("web", 3, "10.0.0.1")}));
    rig.transport.last().answer(410, "");
    rig.settle();
    rig.take_news();
    rig.take_log();
    rig.transport.last().answer(400, "");
    rig.settle();
    rig.transport.last().answer(
        200, list_text(20, {broken("web", 11), service_text("db", 12, "10.0.0.7")}));
    CHECK(rig.take_news() == News{{"db 10.0.0.7"}});
  }
  CHECK(rig.objects == std::map<std::string, std::string>{{"db", "10.0.0.7"}, {"web", "10.0.0.1"}});
  CHECK_THAT(rig.take_log(), Catch::Contains("warn") && Catch::Contains("shop/web") &&
                                 Catch::Contains("300.0.0.1") &&
                                 Catch::Contains("it stays as it was"));
}

TEST_CASE("the same problem is told once") {
  ReflectorRig rig;
  rig.list(10, "");
  rig.take_log();
  rig.transport.last().send(test::event_text("ADDED", broken("web", 11)));
  CHECK_FALSE(rig.take_log().empty());
  rig.transport.last().send(test::event_text("MODIFIED", broken("web", 12)));
  CHECK(rig.take_log().empty());
}

// Its text is no JSON.
std::string unreadable(const std::string& name, unsigned long version) {
  auto text = service_text(name, version, "10.0.0.66");
  return text.replace(text.rfind("{}"), 2, "{]");
}

TEST_CASE("an object that is no JSON costs itself, and the answer goes on") {
  ReflectorRig rig;
  const std::map<std::string, std::string> expected{{"db", "10.0.0.7"}, {"web", "10.0.0.1"}};
  SECTION("in a watch") {
    rig.list(10, kTwo);
    rig.transport.last().send(test::event_text("ADDED", unreadable("new", 11)) +
                              test::event_text("MODIFIED", unreadable("web", 12)) +
                              modified("db", 13, "10.0.0.7"));
    CHECK(rig.objects == expected);
    CHECK(rig.reflector.status().unreadable == 2);
    CHECK_THAT(rig.unreadable["web"], Catch::StartsWith("Service shop/web: is no JSON: "));
    CHECK_THAT(rig.take_log(), Catch::Contains("Service shop/web: is no JSON") &&
                                   Catch::Contains("it stays as it was"));
    CHECK(rig.transport.open_calls() == 1);
    // What it was before it became unreadable is no news, what it is now is.
    rig.transport.last().send(modified("web", 11, "10.0.0.99") + bookmark(20));
    CHECK(rig.objects == expected);
    SECTION("a deletion of it is one, whatever it was at last") {
      rig.transport.last().send(test::event_text("DELETED", unreadable("web", 21)) +
                                test::event_text("DELETED", unreadable("new", 22)));
      CHECK(rig.objects.size() == 1);
    }
    SECTION("it can be read again") {
      rig.transport.last().send(modified("web", 21, "10.0.0.8") + added("new", 22, "10.0.0.3"));
      CHECK(rig.objects["web"] == "10.0.0.8");
    }
    SECTION("it is gone in a later list") {
      rig.transport.last().send(test::event_text("ERROR", status_text(410, "Expired", "too old")));
      rig.list(30, added("db", 13, "10.0.0.7"));
      CHECK(rig.objects.size() == 1);
    }
    CHECK(rig.unreadable.empty());
    CHECK(rig.reflector.status().unreadable == 0);
  }
  SECTION("in a streaming list") {
    rig.list(10, kTwo);
    rig.transport.last().send(test::event_text("ERROR", status_text(410, "Expired", "too old")));
    rig.list(20, test::event_text("ADDED", unreadable("web", 11)) + added("db", 12, "10.0.0.7") +
                     test::event_text("ADDED", unreadable("new", 13)) +
                     test::event_text("ADDED", unreadable("old", 13)) +
                     test::event_text("DELETED", unreadable("old", 14)));
    CHECK(rig.objects == expected);
    CHECK(rig.unreadable.size() == 2);
  }
  SECTION("in a page") {
    rig.list(10, kTwo);
    rig.transport.last().send(test::event_text("ERROR", status_text(410, "Expired", "too old")));
    rig.settle();
    rig.transport.last().answer(400, "");
    rig.settle();
    rig.transport.last().answer(200, list_text(20, {unreadable("new", 9), unreadable("web", 11),
                                                    service_text("db", 12, "10.0.0.7")}));
    CHECK(rig.objects == expected);
    CHECK(rig.unreadable.size() == 2);
  }
}

TEST_CASE("managedFields may be as deep as they like, and hold any bytes") {
  ReflectorRig rig;
  const auto hostile = [](const std::string& name, unsigned long version, const std::string& text) {
    auto object = service_text(name, version, "10.0.0.5");
    const std::string place = R"("metadata":{)";
    return object.insert(object.find(place) + place.size(),
                         R"("managedFields":[{"fieldsV1":)" + text + "}],");
  };
  const auto deep = [](std::size_t levels) {
    std::string text;
    for (std::size_t i = 0; i < levels; ++i) text += R"({"f:a":)";
    return text + "{}" + std::string(levels, '}');
  };
  rig.list(10, test::event_text("ADDED", hostile("a", 5, deep(155))) +
                   test::event_text("ADDED", hostile("b", 6, deep(9'990))) +
                   test::event_text("ADDED", hostile("c", 7, "{\"f:\xff\":{}}")) + kTwo);
  CHECK(rig.objects.size() == 5);
  CHECK(rig.unreadable.empty());
  CHECK(rig.take_log() == "info services: 5 listed; 5 new or changed, 0 gone\n");
}

TEST_CASE("an object that is too large costs itself, and the answer goes on") {
  ReflectorRig rig;
  auto large = service_text("web", 11, "10.0.0.9");
  large.insert(large.rfind("{}") + 1,
               R"("a":")" + std::string(EventFramer::kMaxDocument, 'x') + '"');
  SECTION("in a watch") {
    rig.list(10, kTwo);
    rig.transport.last().send(test::event_text("MODIFIED", large) + modified("db", 12, "10.0.0.7"));
  }
  SECTION("in a page") {
    rig.list(10, kTwo);
    rig.transport.last().send(test::event_text("ERROR", status_text(410, "Expired", "too old")));
    rig.settle();
    rig.transport.last().answer(400, "");
    rig.settle();
    rig.transport.last().answer(200, list_text(20, {large, service_text("db", 12, "10.0.0.7")}));
  }
  CHECK(rig.objects == std::map<std::string, std::string>{{"db", "10.0.0.7"}, {"web", "10.0.0.1"}});
  CHECK(rig.unreadable["web"] == "Service shop/web: is larger than 33554432 bytes");
}

TEST_CASE("after a change that nobody can tell the object of, the next list tells") {
  ReflectorRig rig;
  rig.list(10, kTwo);
  rig.take_queries();
  rig.timers.advance(300s);
  const auto* const type = GENERATE("MODIFIED", "DELETED");
  rig.transport.last().send(test::event_text(type, "{]") + modified("db", 12, "10.0.0.7"));
  CHECK(rig.objects["db"] == "10.0.0.7");
  CHECK(rig.unreadable.count("") == (type == std::string("MODIFIED") ? 1 : 0));
  CHECK(rig.transport.open_calls() == 1);
  rig.transport.last().finish();
  rig.settle();
  CHECK(rig.take_queries() == Words{kStreamingList});
  SECTION("it is gone") {
    rig.list(20, added("db", 12, "10.0.0.7"));
    CHECK(rig.objects.size() == 1);
    CHECK(rig.unreadable.empty());
  }
  SECTION("there is still something that has no name") {
    rig.list(20, added("db", 12, "10.0.0.7") + test::event_text("ADDED", "{]"));
    CHECK(rig.objects.size() == 2);
    CHECK(rig.unreadable.count("") == 1);
  }
  // Not again and again.
  rig.timers.advance(300s);
  rig.transport.last().finish();
  rig.settle();
  CHECK(rig.take_queries() == Words{watch_from(20)});
}

TEST_CASE("however many problems objects have, the log stays readable") {
  ReflectorRig rig;
  rig.list(10, "");
  rig.take_log();
  std::string events;
  for (unsigned long i = 0; i < 500; ++i)
    events += test::event_text("MODIFIED", service_text("web", 11 + i, "x" + std::to_string(i)));
  rig.transport.last().send(events);
  const auto log = rig.take_log();
  CHECK(std::count(log.begin(), log.end(), '\n') == 30);
  rig.timers.advance(60s);
  rig.transport.last().send(test::event_text("MODIFIED", broken("web", 600)));
  CHECK_THAT(rig.take_log(),
             Catch::StartsWith(
                 "warning services: 470 more problems of objects were left out of this log\n") &&
                 Catch::Contains("300.0.0.1"));
}

}  // namespace
}  // namespace ipvsproxier::watch
