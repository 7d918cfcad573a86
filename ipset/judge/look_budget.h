#pragma once

// What one look at the rules of others may cost: steps of judging (an expression, some elements of
// a set), and an end in time. Others' tables may be of any size, and the thread that looks has more
// to do. One thread.

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace ipvsproxier::ipset {

class LookBudget {
 public:
  using Clock = std::chrono::steady_clock;
  // Some 50 ms of judging.
  static constexpr std::size_t kSteps = 500'000;
  // Rules of all tables that are read.
  static constexpr std::size_t kRules = 20'000;

  explicit LookBudget(std::size_t steps = kSteps, std::size_t rules = kRules,
                      Clock::time_point end = Clock::time_point::max())
      : steps_(steps), share_(steps), rules_(rules), end_(end) {}

  // What follows may have this part of what is left: 2 for a half.
  void begin_share(std::size_t parts) { share_ = steps_ / std::max<std::size_t>(parts, 1); }
  // False if the share is used up.
  bool spend(std::size_t steps = 1) {
    if (share_ <= steps || (asked_++ % kBetweenClocks == 0 && is_late())) {
      steps_ -= share_;
      share_ = 0;
      return false;
    }
    share_ -= steps;
    steps_ -= steps;
    return true;
  }
  bool is_spent() const { return share_ == 0; }
  // The end in time has come.
  bool is_late() const { return Clock::now() >= end_; }

  std::size_t rules_left() const { return rules_; }
  void spend_rules(std::size_t rules) { rules_ -= std::min(rules, rules_); }

 private:
  static constexpr std::size_t kBetweenClocks = 64;

  std::size_t steps_;
  std::size_t share_;
  std::size_t rules_;
  std::size_t asked_ = 0;
  Clock::time_point end_;
};

}  // namespace ipvsproxier::ipset
