#include "proxier/sync/reading_schedule.h"

#include <algorithm>
#include <utility>

namespace ipvsproxier::sync {

namespace {

// The first time almost at once.
constexpr loop::Backoff kSurprised{std::chrono::milliseconds(200), std::chrono::seconds(30)};
constexpr loop::Backoff kHurried{std::chrono::milliseconds(20), std::chrono::seconds(30)};
// Longer than the longest pause.
constexpr std::chrono::minutes kQuiet{1};

}  // namespace

void ReadingSchedule::begin_whole(TimePoint now) {
  due_ = now + period_;
  surprised_ = false;
  hurried_ = false;
}

void ReadingSchedule::begin_parts() {
  due_ = TimePoint::max();
  surprised_ = false;
  hurried_ = false;
}

void ReadingSchedule::end_parts(TimePoint now) {
  due_ = std::min(due_, now + period_);
}

void ReadingSchedule::hurry(TimePoint now) {
  const bool was_quiet = !last_hurry_ || now - *last_hurry_ >= kQuiet;
  last_hurry_ = now;
  if (std::exchange(hurried_, true)) return;
  hurries_ = was_quiet ? 1 : hurries_ + 1;
  due_ = std::min(due_, now + kHurried.delay(hurries_, 0));
}

void ReadingSchedule::note(TimePoint now, bool surprise, bool whole) {
  if (surprise) {
    if (!std::exchange(surprised_, true)) ++surprises_;
    due_ = std::min(due_, now + kSurprised.delay(surprises_, 0));
  } else if (whole && !surprised_) {
    surprises_ = 0;
  }
}

}  // namespace ipvsproxier::sync
