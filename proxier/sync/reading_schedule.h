#pragma once

// ReadingSchedule: when the whole kernel is read again. After each sync period; sooner after a
// surprise: the kernel differed from the mirror, or an answer was lost. A surprise that readings do
// not end makes the pauses grow to half a minute. Almost at once when a notification says that
// others changed the kernel; who does that all the time makes these pauses grow as well. Pure; the
// caller gives the time.

#include <chrono>
#include <optional>

#include "proxier/loop/backoff.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

class ReadingSchedule {
 public:
  explicit ReadingSchedule(std::chrono::milliseconds period) : period_(period) {}

  // When the next reading begins; TimePoint::max() during a reading in parts without a surprise.
  TimePoint due() const { return due_; }

  // A reading of everything at once begins.
  void begin_whole(TimePoint now);
  // A reading part by part begins, and ends.
  void begin_parts();
  void end_parts(TimePoint now);

  // Others are said to have changed the kernel.
  void hurry(TimePoint now);
  // That was said since the last reading began.
  bool hurried() const { return hurried_; }

  // After each run. `whole`: a reading ended in it.
  void note(TimePoint now, bool surprise, bool whole);

  // A surprise came since the last reading began.
  bool surprised() const { return surprised_; }
  // The whole kernel was read without a surprise since the last one.
  bool is_trusted() const { return surprises_ == 0; }

 private:
  std::chrono::milliseconds period_;
  TimePoint due_{};         // at the start, at once
  unsigned surprises_ = 0;  // consecutive readings with, or after, a surprise
  bool surprised_ = false;
  unsigned hurries_ = 0;  // how often in a row, as far as they come too often
  bool hurried_ = false;
  std::optional<TimePoint> last_hurry_;
};

}  // namespace ipvsproxier::sync
