#pragma once

// The clock of serve as a variable. Any thread.

#include <atomic>
#include <chrono>

#include "proxier/serve/status.h"

namespace ipvsproxier::test {

// 2026-01-02T03:04:05Z
inline constexpr std::chrono::system_clock::time_point kWall{std::chrono::seconds(1'767'323'045)};

class TestClock {
 public:
  // The wall clock starts at `wall`, the steady one anywhere.
  explicit TestClock(std::chrono::system_clock::time_point wall = kWall) : wall_(wall) {}

  void advance(std::chrono::nanoseconds by) { passed_ += by.count(); }
  // Somebody sets the wall clock.
  void jump(std::chrono::nanoseconds by) { jumped_ += by.count(); }

  serve::StampClock clock() {
    return [this] {
      const std::chrono::nanoseconds passed(passed_.load());
      return serve::Stamp{.wall = wall_ + passed + std::chrono::nanoseconds(jumped_.load()),
                          .steady = kStart + passed};
    };
  }

 private:
  static constexpr std::chrono::steady_clock::time_point kStart{std::chrono::hours(100)};

  const std::chrono::system_clock::time_point wall_;
  std::atomic<std::chrono::nanoseconds::rep> passed_{0};
  std::atomic<std::chrono::nanoseconds::rep> jumped_{0};
};

}  // namespace ipvsproxier::test
