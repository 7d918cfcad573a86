// Several servers behind one name, of which one lags: the client never goes back to what that one
// knows.

#include <map>
#include <random>
#include <string>

#include <catch2/catch.hpp>

#include "test/support/random_run.h"
#include "test/support/reflector_rig.h"

namespace ipvsproxier::watch {
namespace {

using namespace std::chrono_literals;
using test::added;
using test::event_text;
using test::kQuestion;
using test::kStreamingList;
using test::list_end;
using test::list_text;
using test::service_text;
using test::status_text;
using test::watch_from;
using test::Words;

struct LagRig : test::WatchingRig {
  void reconnect() {
    transport.last().fail("Connection reset by peer");
    timers.advance(wait().value());
    take_queries();
  }
};

TEST_CASE("one server that lags is no store that was restored", "[lag]") {
  LagRig rig;
  rig.reconnect();
  rig.answer_question(8);
  CHECK(rig.transport.distrusted_connections == 2);
  rig.timers.advance(rig.wait().value());
  CHECK(rig.take_queries() == Words{kQuestion});
  rig.answer_question(12);
  CHECK(rig.take_queries() == Words{watch_from(10)});
  // Nor is it at another time.
  rig.reconnect();
  rig.answer_question(9);
  rig.timers.advance(rig.wait().value());
  rig.answer_question(12);
  CHECK(rig.take_queries() == Words{kQuestion, watch_from(10)});
  CHECK(rig.take_news().empty());
  CHECK(rig.reflector.status().lists == 1);
}

TEST_CASE("one older answer is forgotten when bookmarks go on", "[lag]") {
  LagRig rig;
  rig.transport.last().send(test::bookmark(8));
  rig.settle();
  rig.timers.advance(rig.wait().value());
  CHECK(rig.take_queries() == Words{kQuestion});
  rig.transport.last().answer(403, status_text(403, "Forbidden", "not you"));
  rig.settle();
  while (rig.take_queries() != Words{watch_from(10)}) rig.timers.advance(rig.wait().value());
  rig.transport.last().head(200);
  rig.transport.last().send(test::bookmark(12));
  rig.settle();
  rig.reconnect();
  rig.answer_question(9);
  rig.timers.advance(rig.wait().value());
  CHECK(rig.take_queries() == Words{kQuestion});  // and no list
}

TEST_CASE("a list that is older than what is known is asked for again", "[lag]") {
  LagRig rig;
  rig.transport.last().send(event_text("ERROR", status_text(410, "Expired", "too old")));
  rig.settle();
  CHECK(rig.take_queries() == Words{kStreamingList});
  const bool is_streaming = GENERATE(true, false);
  if (is_streaming) {
    rig.list(8, added("web", 3, "10.0.0.9"));
  } else {
    rig.transport.last().answer(400, "");
    rig.settle();
    rig.transport.last().answer(200, list_text(8, {service_text("web", 3, "10.0.0.9")}, "t"));
    rig.transport.last().answer(200, list_text(8, {service_text("x", 4, "10.0.0.8")}));
  }
  CHECK(rig.take_news().empty());
  CHECK(rig.objects.size() == 2);
  CHECK(rig.reflector.status().lists == 1);
  CHECK(rig.transport.distrusted_connections == 1);
  rig.take_queries();
  rig.timers.advance(rig.wait().value());
  CHECK(rig.take_queries() == Words{is_streaming ? kStreamingList : test::kPage});
  const bool knows_more = GENERATE(true, false);
  const auto version = knows_more ? 12UL : 8UL;
  const auto* const address = knows_more ? "10.0.0.1" : "10.0.0.9";
  if (is_streaming)
    rig.list(version, added("web", 3, address));
  else
    rig.transport.last().answer(200, list_text(version, {service_text("web", 3, address)}));
  CHECK(rig.reflector.status().lists == 2);
  CHECK(rig.objects == std::map<std::string, std::string>{{"web", address}});
}

// Ten servers with one store, of which one does not follow it. A load balancer takes turns.
class Servers {
 public:
  Servers(test::ReflectorRig& rig, std::mt19937& random) : rig_(rig), random_(random) {}

  void change() { ++version_; }
  unsigned long version() const { return version_; }

  // Answers what is asked for as one of the servers does.
  void act() {
    if (!rig_.transport.is_waited_for()) return rig_.timers.advance(rig_.wait().value_or(0ms));
    auto& call = rig_.transport.last();
    if (rig_.transport.distrusted_connections != distrusted_) {
      distrusted_ = rig_.transport.distrusted_connections;
      ++turn_;
    }
    const auto knows = turn_ % 10 == 3 ? 20 + version_ / 50 : version_;
    if (below(8) == 0) return call.fail("Connection reset by peer");
    const auto& target = call.request().target;
    if (target.find("limit=1") != std::string::npos) return rig_.answer_question(knows);
    if (&call != call_) {
      call_ = &call;
      const auto at = target.find("resourceVersion=");
      told_ = at == std::string::npos ? 0 : std::stoul(target.substr(at + 16));
      if (told_ > knows) {
        call.answer(504, status_text(504, "Timeout", "Too large resource version", 1));
        return;
      }
      if (!call.head(200)) return;
      if (told_ == 0) {
        told_ = knows;
        call.send(service(knows) + list_end(knows));
        return;
      }
    }
    // A server may forget its history, too.
    if (below(20) == 0) {
      call.send(event_text("ERROR", status_text(410, "Expired", "too old")));
    } else if (told_ < knows) {
      told_ = knows;
      call.send(service(knows));
    }
  }
  static std::string address(unsigned long version) {
    return "10.0." + std::to_string(version / 256) + "." + std::to_string(version % 256);
  }

 private:
  unsigned below(unsigned bound) {
    return std::uniform_int_distribution<unsigned>(0, bound - 1)(random_);
  }
  static std::string service(unsigned long version) {
    return added("web", version, address(version));
  }

  test::ReflectorRig& rig_;
  std::mt19937& random_;
  unsigned long version_ = 100;
  std::size_t distrusted_ = 0;
  unsigned turn_ = 0;
  test::ScriptedTransport::Call* call_ = nullptr;
  unsigned long told_ = 0;
};

TEST_CASE("ten servers of which one lags: never back, and always on", "[lag][random]") {
  auto seed = test::environment_number("IPVS_PROXIER_SOAK_SEED", 18);
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::seconds(test::environment_number("IPVS_PROXIER_SOAK_SECONDS", 0));
  for (int round = 0; round < 20 || std::chrono::steady_clock::now() < end; ++round, ++seed) {
    INFO("IPVS_PROXIER_SOAK_SEED=" << seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    test::ReflectorRig rig;
    rig.log.set_level(spdlog::level::off);
    Servers servers(rig, random);
    netlink::IpAddress newest;
    for (int i = 0; i < 500; ++i) {
      if (random() % 3 == 0) servers.change();
      servers.act();
      if (rig.objects.empty()) continue;
      const auto now = netlink::IpAddress::parse(rig.objects.at("web")).value();
      // The first list may be that of the one that lags: there is nothing to compare it with.
      REQUIRE(newest <= now);
      newest = now;
    }
    for (int i = 0; i < 300 && rig.objects["web"] != Servers::address(servers.version()); ++i)
      servers.act();
    REQUIRE(rig.objects["web"] == Servers::address(servers.version()));
  }
}

}  // namespace
}  // namespace ipvsproxier::watch
