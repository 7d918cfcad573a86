// When the whole kernel is read again.

#include <catch2/catch.hpp>

#include "proxier/sync/reading_schedule.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kNow{1h};

TEST_CASE("reading schedule: at once, and then after each period") {
  ReadingSchedule schedule(30s);
  CHECK(schedule.due() <= kNow);
  schedule.begin_whole(kNow);
  schedule.note(kNow, false, true);
  CHECK(schedule.due() == kNow + 30s);
  schedule.begin_parts();
  CHECK(schedule.due() == TimePoint::max());
  schedule.note(kNow + 31s, false, false);
  CHECK(schedule.due() == TimePoint::max());
  schedule.end_parts(kNow + 32s);
  CHECK(schedule.due() == kNow + 62s);
  CHECK(schedule.is_trusted());
}

TEST_CASE("reading schedule: soon after a surprise, later if readings do not end it") {
  ReadingSchedule schedule(30s);
  auto now = kNow;
  for (const auto pause : {200ms, 400ms, 800ms, 1600ms}) {
    schedule.begin_whole(now);
    schedule.note(now, true, true);
    CHECK(schedule.due() == now + pause);
    CHECK_FALSE(schedule.is_trusted());
    now += pause;
  }
  // A reading that finds everything as expected ends it.
  schedule.begin_whole(now);
  CHECK_FALSE(schedule.surprised());
  schedule.note(now, false, true);
  CHECK(schedule.is_trusted());
  schedule.begin_whole(now);
  schedule.note(now, true, true);
  CHECK(schedule.due() == now + 200ms);
}

TEST_CASE("reading schedule: a surprise during a reading in parts leads to another after it") {
  ReadingSchedule schedule(30s);
  schedule.begin_parts();
  schedule.note(kNow, true, false);
  schedule.note(kNow + 1ms, true, false);  // the same one, as far as we know
  CHECK(schedule.due() == kNow + 200ms);
  // This reading may have passed the place before the surprise.
  schedule.end_parts(kNow + 1s);
  schedule.note(kNow + 1s, false, true);
  CHECK(schedule.surprised());
  CHECK_FALSE(schedule.is_trusted());
  CHECK(schedule.due() == kNow + 200ms);
}

TEST_CASE("reading schedule: almost at once when a change is told, more seldom when it is always") {
  ReadingSchedule schedule(30s);
  auto now = kNow;
  schedule.begin_whole(now);
  for (const auto pause : {20ms, 40ms, 80ms}) {
    schedule.hurry(now);
    schedule.hurry(now + 1ms);  // before that reading
    CHECK(schedule.hurried());
    CHECK(schedule.due() == now + pause);
    now += pause;
    schedule.begin_parts();
    CHECK_FALSE(schedule.hurried());
    schedule.end_parts(now);
    schedule.note(now, false, true);
    CHECK(schedule.due() == now + 30s);
  }
  CHECK(schedule.is_trusted());
  for (int i = 0; i < 20; ++i) {
    schedule.hurry(now);
    CHECK(schedule.due() <= now + 30s);
    now = schedule.due();
    schedule.begin_parts();
  }
  // After a minute without one, or where they are seldom.
  for (const auto quiet : {60s, 1s, 1s, 1s}) {
    now += quiet;
    schedule.hurry(now);
    CHECK(schedule.due() == now + 20ms);
    schedule.begin_parts();
  }
}

TEST_CASE("reading schedule: a run without a reading proves nothing") {
  ReadingSchedule schedule(30s);
  schedule.begin_whole(kNow);
  schedule.note(kNow, true, true);
  schedule.begin_parts();
  schedule.note(kNow + 1s, false, false);
  CHECK_FALSE(schedule.is_trusted());
}

}  // namespace
}  // namespace ipvsproxier::sync
