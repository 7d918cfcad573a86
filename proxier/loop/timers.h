#pragma once

// Timers: what time it is, and being called when it has come. MainLoop is one; tests turn the hands
// themselves.

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

  // Calls `then` once, not before `when`. There is one deadline a name: a new one replaces the old.
  // Deadlines that have passed are called in their order.
  virtual void at(const std::string& name, Clock::time_point when, Function then) = 0;
  virtual void cancel(const std::string& name) = 0;
};

}  // namespace ipvsproxier::loop
