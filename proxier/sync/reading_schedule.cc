#include "proxier/sync/reading_schedule.h"

#include <algorithm>
#include <utility>

namespace ipvsproxier::sync {

namespace {

// The first time almost at once.
constexpr loop::Backoff kSurprised{std::chrono::milliseconds(200), std::chrono::seconds(30)};

}  // namespace

void ReadingSchedule::begin_whole(TimePoint now) {
  due_ = now + period_;
  surprised_ = false;
}

void ReadingSchedule::begin_parts() {
  due_ = TimePoint::max();
  surprised_ = false;
}

void ReadingSchedule::end_parts(TimePoint now) {
  due_ = std::min(due_, now + period_);
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
