#include "proxier/sync/reading_schedule.h"

#include <algorithm>
#include <utility>

namespace ipvsproxier::sync {

namespace {

// The first time almost at once.
constexpr loop::Backoff kSurprised{std::chrono::milliseconds(200), std::chrono::seconds(30)};
constexpr loop::Backoff kHurried{std::chrono::milliseconds(20), std::chrono::seconds(30)};
// Changes are rare that come after so many times the last pause, or after a minute.
constexpr int kRare = 8;
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
  if (std::exchange(hurried_, true)) return;
  const auto rare = std::min<TimePoint::duration>(kRare * kHurried.delay(hurries_, 0), kQuiet);
  const bool is_rare = !last_hurry_ || now - *last_hurry_ >= rare;
  hurries_ = is_rare ? 1 : hurries_ + 1;
  last_hurry_ = now;
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
