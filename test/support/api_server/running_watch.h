#pragma once

// RunningWatch: one watch that a client has open: what it is still to be sent. Not locked: the
// server's state guards it.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "test/support/api_server/faults.h"
#include "test/support/api_server/selectors.h"
#include "test/support/api_server/store.h"

namespace ipvsproxier::test {

class RunningWatch {
 public:
  using Clock = std::chrono::steady_clock;

  struct Wanted {
    Resource resource = Resource::services;
    Selector labels;
    Selector fields;
    std::uint64_t from = 0;  // changes after it
    bool initial_events =
        false;  // first everything that is there, then a bookmark if `initial_end`
    bool initial_end = false;
    bool bookmarks = false;
    std::optional<Clock::time_point> deadline;
    Clock::duration bookmark_every{};
  };

  RunningWatch(Wanted wanted, const Store& store);

  Resource resource() const { return wanted_.resource; }

  // Takes over what has changed, and what is due at `now`.
  void pull(const Store& store, const Faults& faults, Clock::time_point now);
  void bookmark(const Store& store, const Faults& faults);
  void expire(const Store& store);
  void end() { ended_ = true; }
  void raw(const std::string& text) { pending_ += text; }

  // Bytes not yet taken, and whether more may come.
  const std::string& pending() const { return pending_; }
  std::size_t taken() const { return taken_; }
  void take(std::size_t bytes);
  bool empty() const { return taken_ == pending_.size(); }
  bool ended() const { return ended_; }
  // When something is due without a change.
  Clock::time_point next_due() const;

 private:
  bool matches(const StoredObject& object) const;
  // The line of a change as this watch's selectors see it; nothing if it does not.
  std::string line_of(const Change& change) const;
  void pull_changes(const Store& store, const Faults& faults);

  Wanted wanted_;
  std::uint64_t seen_ = 0;
  Clock::time_point next_bookmark_;
  std::string pending_;
  std::size_t taken_ = 0;
  bool ended_ = false;
};

// Text with a place in its middle where it is no JSON.
std::string malformed(std::string text);

}  // namespace ipvsproxier::test
