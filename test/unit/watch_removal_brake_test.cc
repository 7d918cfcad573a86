#include "proxier/watch/removal_brake.h"

#include <array>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "test/support/random_run.h"

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
    CHECK(brake.list(names(0, 30), 40, 31s).empty());  // 5 of 15 that are in no doubt
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

// A list that comes some seconds after the one before and lacks these, numbers of objects; with
// those that are known, because they were there or are.
struct List {
  int after = 0;
  int takes = 0;
  std::set<int> there;
};

std::string to_string(const std::vector<List>& lists) {
  std::string text;
  for (const auto& list : lists) {
    text += "+" + std::to_string(list.after) + "s (" + std::to_string(list.takes) + "s):";
    for (const int number : list.there) text += " " + std::to_string(number);
    text += "\n";
  }
  return text;
}

// What is wrong with what the brake makes of these lists; "" if nothing is.
std::string wrong_with(const std::vector<List>& lists) {
  Brake brake;
  std::map<std::string, RemovalBrake::TimePoint> known;  // since when lists lack it
  auto now = kStart;
  constexpr auto kThere = RemovalBrake::TimePoint::max();
  for (const auto& list : lists) {
    const auto begun = now += std::chrono::seconds(list.after);
    now += std::chrono::seconds(list.takes);
    Names missing;
    std::size_t waited = 0;
    for (const auto& [name, since] : known) {
      if (list.there.contains(std::stoi(name))) continue;
      missing.insert({"shop", name});
      waited += since != kThere && begun - since >= 30s ? 1 : 0;
    }
    const auto size = known.size();
    const auto stay = brake.judge(missing, size, begun, now);
    const auto doubted = missing.size() - waited;
    const bool is_mass = size - waited >= 20 && 2 * doubted > size - waited;
    for (const auto& name : missing) {
      auto& since = known.at(name.name);
      const bool is_first = since == kThere;
      const bool has_waited = !is_first && begun - since >= 30s;
      const bool stays = stay.contains(name);
      if (stays && has_waited) return name.name + " stays for longer than one wait";
      if (!stays && is_mass && !has_waited) return name.name + " goes before its wait";
      if (stays && is_first && !is_mass) return name.name + " stays, and little is missing";
      if (!stays && !is_first && !has_waited) return name.name + " was held and goes early";
      if (is_first) since = now;
      if (!stays) known.erase(name.name);
    }
    for (const auto& name : stay)
      if (!missing.contains(name)) return name.name + " is there and held";
    for (const int number : list.there) known[std::to_string(number)] = kThere;
    if (brake.held() != stay.size()) return "the count is wrong";
    if (brake.due().has_value() != !stay.empty()) return "nothing is due";
    if (brake.due() && *brake.due() <= now - 60s) return "it is due for long";
  }
  return "";
}

TEST_CASE("whatever lists lack, nothing goes early and nothing stays for long", "[brake][random]") {
  const auto seed = test::environment_number("IPVS_PROXIER_SOAK_SEED", 18);
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::seconds(test::environment_number("IPVS_PROXIER_SOAK_SECONDS", 0));
  for (std::int64_t round = 0; round < 300 || std::chrono::steady_clock::now() < end; ++round) {
    std::mt19937 random(static_cast<std::uint32_t>(seed + round));
    const auto below = [&](int bound) {
      return static_cast<int>(random() % static_cast<unsigned>(bound));
    };
    std::vector<List> lists;
    const int objects = 15 + below(60);
    for (int i = below(12); i >= 0; --i) {
      const int percent =
          std::array{0, 30, 45, 55, 100, 100}.at(static_cast<std::size_t>(below(6)));
      List list{.after = below(45), .takes = below(5), .there = {}};
      for (int number = 0; number < objects; ++number)
        if (below(100) < percent) list.there.insert(number);
      lists.push_back(std::move(list));
    }
    if (wrong_with(lists).empty()) continue;
    const auto few =
        test::shrink(lists, [](const auto& some) { return !wrong_with(some).empty(); });
    FAIL("IPVS_PROXIER_SOAK_SEED=" << seed + round << ": " << wrong_with(few) << "\n"
                                   << to_string(few));
  }
}

}  // namespace
}  // namespace ipvsproxier::watch
