#pragma once

// Ending: why a list or a watch is over, as far as it matters for what comes next. Pure.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "proxier/api/wire.h"

namespace ipvsproxier::watch {

// A server cannot send us away for a day by mistake.
inline constexpr std::chrono::seconds kLongestRetryAfter{600};

// What is asked for: a watch that starts with all objects, a page of a list, whether the server is
// as far as we are, a watch.
enum class Step : std::uint8_t { streaming_list, first_page, later_page, question, watch };

enum class Trouble : std::uint8_t {
  ended,         // as it should
  lost,          // no connection, or not any more
  overdue,       // the server is there and says nothing, or does not end
  busy,          // come back later
  behind,        // the server has not come to our version yet, and may never do
  older,         // the server knows less than we do: perhaps another one does not
  denied,        // not allowed, or it is not there
  unauthorized,  // 401
  expired,       // the version or the page is too old
  unsupported,   // the server has no streaming lists
  nonsense,      // broken JSON, or an answer for which there is no rule
};

struct Ending {
  Trouble trouble = Trouble::ended;
  std::string cause;  // one line
  std::optional<std::chrono::seconds> retry_after;

  friend bool operator==(const Ending&, const Ending&) = default;
};

// What a Status in an ERROR event means.
Ending ending_of_event(const api::ApiStatus& status);

// What an answer other than 200 means.
Ending ending_of_answer(int code, const api::ApiStatus& status, Step step);

}  // namespace ipvsproxier::watch
