#pragma once

// Timers: the current time, and functions that are called at a given time. MainLoop implements it;
// tests use a clock that they move by hand.

#include <chrono>
#include <functional>
#include <string>

namespace ipvsproxier::loop {

class Timers {
 public:
  using Clock = std::chrono::steady_clock;
  using Function = std::function<void()>;

  virtual ~Timers() = default;

  virtual Clock::time_point now() const = 0;

  // Calls `then` once, not before `when`. A name has one deadline: a new one replaces the old.
  // Passed deadlines are called in the order of their times.
  virtual void at(const std::string& name, Clock::time_point when, Function then) = 0;
  virtual void cancel(const std::string& name) = 0;
};

}  // namespace ipvsproxier::loop
