#include "proxier/watch/removal_brake.h"

#include <string>

#include <catch2/catch.hpp>

namespace ipvsproxier::watch {
namespace {

using namespace std::chrono_literals;
using Names = RemovalBrake::Names;

const RemovalBrake::TimePoint kStart{1h};

// s<first> to s<end - 1>.
Names names(int first, int end) {
  Names names;
  for (int i = first; i < end; ++i) names.insert({"shop", "s" + std::to_string(i)});
  return names;
}

struct Brake : RemovalBrake {
  Brake() : RemovalBrake(30s) {}
  // A list that takes a second, `at` after the start.
  Names list(const Names& missing, std::size_t known, std::chrono::seconds at) {
    return judge(missing, known, kStart + at - 1s, kStart + at);
  }
};

TEST_CASE("more than half of at least twenty stay", "[brake]") {
  const auto stay = [](int missing, std::size_t known) {
    return Brake().list(names(0, missing), known, 0s).size();
  };
  CHECK(stay(11, 20) == 11);
  CHECK(stay(20, 20) == 20);
  CHECK(stay(10, 20) == 0);
  CHECK(stay(19, 19) == 0);
  CHECK(stay(11, 21) == 11);
  CHECK(stay(10, 21) == 0);
  CHECK(stay(0, 3000) == 0);
  CHECK(stay(1501, 3000) == 1501);
}

TEST_CASE("without a wait nothing stays", "[brake]") {
  RemovalBrake brake(std::nullopt);
  CHECK(brake.judge(names(0, 30), 30, kStart, kStart).empty());
  CHECK(brake.held() == 0);
  CHECK_FALSE(brake.due());
}

TEST_CASE("what stayed goes with a list that was begun one wait later", "[brake]") {
  Brake brake;
  CHECK(brake.list(names(0, 30), 40, 0s) == names(0, 30));
  CHECK(brake.due() == kStart + 30s);
  SECTION("not with an earlier one, nor with one that was begun earlier") {
    CHECK(brake.list(names(0, 30), 40, 10s) == names(0, 30));
    CHECK(brake.list(names(0, 30), 40, 30s) == names(0, 30));
    CHECK(brake.due() == kStart + 30s);
    CHECK(brake.list(names(0, 30), 40, 31s).empty());
  }
  SECTION("what is back stays there") {
    CHECK(brake.list(names(20, 30), 40, 31s).empty());
    CHECK(brake.held() == 0);
  }
  SECTION("what came back and is missing again has a wait of its own") {
    CHECK(brake.list(names(5, 30), 40, 10s) == names(5, 30));
    CHECK(brake.list(names(0, 30), 40, 31s) == Names{});  // 5 of 15 that are in no doubt
    CHECK_FALSE(brake.due());
  }
}

TEST_CASE("lists that shrink delay each object once", "[brake]") {
  Brake brake;
  CHECK(brake.list(names(0, 600), 1000, 0s) == names(0, 600));
  // Before the wait is over: in doubt together with what already is.
  CHECK(brake.list(names(0, 700), 1000, 10s) == names(0, 700));
  // The first ones go; of the 400 others 300 are missing.
  CHECK(brake.list(names(0, 900), 1000, 31s) == names(600, 900));
  CHECK(brake.due() == kStart + 40s);
  CHECK(brake.list(names(600, 1000), 400, 41s) == names(700, 1000));
  CHECK(brake.list(names(700, 1000), 300, 62s) == names(900, 1000));
  CHECK(brake.due() == kStart + 71s);
  CHECK(brake.list(names(900, 1000), 100, 72s).empty());
  CHECK_FALSE(brake.due());
}

TEST_CASE("of what an event tells nothing is held any more", "[brake]") {
  Brake brake;
  brake.list(names(0, 30), 40, 0s);
  for (const auto& name : names(0, 29)) brake.forget(name);
  CHECK(brake.held() == 1);
  CHECK(brake.due() == kStart + 30s);
  brake.forget({"shop", "s29"});
  brake.forget({"shop", "other"});
  CHECK_FALSE(brake.due());
}

}  // namespace
}  // namespace ipvsproxier::watch
