#pragma once

// ManualTimers: time as a variable. Deadlines are called by advance() alone, in their order, each
// at its moment.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "proxier/loop/timers.h"

namespace ipvsproxier::test {

class ManualTimers final : public loop::Timers {
 public:
  Clock::time_point now() const override { return now_; }
  void at(const std::string& name, Clock::time_point when, Function then) override {
    deadlines_[name] = Deadline{when, ++count_, std::move(then)};
  }
  void cancel(const std::string& name) override { deadlines_.erase(name); }

  void advance(Clock::duration duration) {
    const auto end = now_ + duration;
    while (const auto name = first_until(end)) {
      const auto deadline = std::move(deadlines_[*name]);
      deadlines_.erase(*name);
      now_ = std::max(now_, deadline.when);
      deadline.then();
    }
    now_ = end;
  }
  // How long until `name`; nothing if there is no such deadline.
  std::optional<Clock::duration> left(const std::string& name) const {
    const auto found = deadlines_.find(name);
    if (found == deadlines_.end()) return std::nullopt;
    return found->second.when - now_;
  }
  std::size_t count() const { return deadlines_.size(); }

 private:
  struct Deadline {
    Clock::time_point when;
    std::uint64_t id = 0;
    Function then;
  };

  std::optional<std::string> first_until(Clock::time_point end) const {
    const Deadline* first = nullptr;
    std::optional<std::string> name;
    for (const auto& [key, deadline] : deadlines_) {
      if (deadline.when > end) continue;
      if (first != nullptr &&
          std::pair(first->when, first->id) < std::pair(deadline.when, deadline.id))
        continue;
      first = &deadline;
      name = key;
    }
    return name;
  }

  Clock::time_point now_{std::chrono::hours(1000)};
  std::map<std::string, Deadline> deadlines_;
  std::uint64_t count_ = 0;
};

}  // namespace ipvsproxier::test
