#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/loop/mailbox.h"

namespace ipvsproxier::loop {
namespace {

struct Numbers {
  std::vector<int> values;

  bool empty() const { return values.empty(); }
  void merge(Numbers later) {
    values.insert(values.end(), later.values.begin(), later.values.end());
  }
};

using Box = Mailbox<Numbers>;
using Values = std::vector<int>;
using std::chrono::milliseconds;

constexpr auto kAtOnce = Box::Clock::time_point::min();
constexpr auto kNever = Box::Clock::time_point::max();

TEST_CASE("what waits in a mailbox is merged, and taken once") {
  Box box;
  box.put({{1}});
  box.put({{2, 3}});
  box.put({});
  CHECK(box.take({}, kAtOnce, kNever).values == Values{1, 2, 3});
  CHECK(box.take().empty());
  box.put({{4}});
  CHECK(box.take().values == Values{4});
}

TEST_CASE("an empty mailbox answers nothing when its time has come") {
  Box box;
  CHECK(box.take({}, kAtOnce, kAtOnce).empty());
  const auto latest = Box::Clock::now() + milliseconds(20);
  CHECK(box.take({}, kAtOnce, latest).empty());
  CHECK(Box::Clock::now() >= latest);
}

TEST_CASE("what is there is not taken before its earliest time") {
  Box box;
  box.put({{1}});
  const auto earliest = Box::Clock::now() + milliseconds(20);
  CHECK(box.take({}, earliest, kNever).values == Values{1});
  CHECK(Box::Clock::now() >= earliest);
}

struct Marked : Numbers {
  bool urgent() const { return std::find(values.begin(), values.end(), 0) != values.end(); }
};

TEST_CASE("what is urgent is taken before its earliest time, with all that waits") {
  Mailbox<Marked> box;
  box.put({{{1}}});
  box.put({{{0}}});
  CHECK(box.take({}, kNever, kNever).values == Values{1, 0});

  box.put({{{2}}});
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(10));
    box.put({{{0}}});
  });
  CHECK(box.take({}, kNever, kNever).values == Values{2, 0});
  later.join();
}

TEST_CASE("the latest time counts more than the earliest") {
  Box box;
  box.put({{1}});
  const auto latest = Box::Clock::now() + milliseconds(20);
  CHECK(box.take({}, kNever, latest).values == Values{1});
  CHECK(Box::Clock::now() >= latest);
}

TEST_CASE("a stop request ends every wait and loses nothing") {
  Box box;
  Numbers taken;
  SECTION("of an empty mailbox") {
    std::jthread reader(
        [&](const std::stop_token& stop) { taken = box.take(stop, kAtOnce, kNever); });
    reader.request_stop();
    reader.join();
    CHECK(taken.empty());
  }
  SECTION("of one whose earliest time has not come, which merges until then") {
    box.put({{1}});
    std::jthread reader(
        [&](const std::stop_token& stop) { taken = box.take(stop, kNever, kNever); });
    box.put({{2}});
    box.put({{3}});
    reader.request_stop();
    reader.join();
    CHECK(taken.values == Values{1, 2, 3});
  }
  SECTION("that was made before") {
    std::stop_source source;
    source.request_stop();
    box.put({{1}});
    CHECK(box.take(source.get_token(), kNever, kNever).values == Values{1});
    CHECK(box.take(source.get_token(), kNever, kNever).empty());
  }
}

TEST_CASE("a reader that waits is woken by what is put") {
  Box box;
  Numbers taken;
  std::thread reader([&] { taken = box.take({}, kAtOnce, kNever); });
  box.put({{7}});
  reader.join();
  CHECK(taken.values == Values{7});
}

TEST_CASE("two threads under load lose nothing and keep the order") {
  constexpr int kCount = 20'000;
  const auto pause = GENERATE(milliseconds(0), milliseconds(1));
  Box box;
  std::thread writer([&] {
    for (int i = 0; i < kCount; ++i) box.put({{i}});
  });
  Values all;
  int takes = 0;
  while (all.size() < kCount) {
    const auto some = box.take({}, Box::Clock::now() + pause, kNever);
    all.insert(all.end(), some.values.begin(), some.values.end());
    ++takes;
    REQUIRE_FALSE(some.empty());
  }
  writer.join();
  Values expected(kCount);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(all == expected);
  CHECK(takes <= kCount);
}

TEST_CASE("several writers lose nothing and each keeps its order") {
  constexpr int kWriters = 3;
  constexpr int kCount = 3'000;
  Box box;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer)
    writers.emplace_back([&box, writer] {
      for (int i = 0; i < kCount; ++i) box.put({{writer * kCount + i}});
    });
  std::vector<Values> by_writer(kWriters);
  for (std::size_t count = 0; count < std::size_t{kWriters} * kCount;) {
    const auto some = box.take({}, kAtOnce, kNever);
    for (const int value : some.values)
      by_writer.at(static_cast<std::size_t>(value / kCount)).push_back(value);
    count += some.values.size();
  }
  for (auto& writer : writers) writer.join();
  for (int writer = 0; writer < kWriters; ++writer) {
    Values expected(kCount);
    std::iota(expected.begin(), expected.end(), writer * kCount);
    CHECK(by_writer[static_cast<std::size_t>(writer)] == expected);
  }
  CHECK(box.take().empty());
}

}  // namespace
}  // namespace ipvsproxier::loop
