#pragma once

// Ending: why a list or a watch ended, in the categories that decide about the next step. Pure.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "proxier/api/names.h"
#include "proxier/api/wire.h"

namespace ipvsproxier::watch {

// Limit of Retry-After: a server must not send us away for a day by mistake.
inline constexpr std::chrono::seconds kLongestRetryAfter{600};

// The kinds of requests: a watch that starts with all objects, pages of a list, a question for the
// server's current version, and a watch.
enum class Step : std::uint8_t { streaming_list, first_page, later_page, question, watch };

enum class Trouble : std::uint8_t {
  ended,         // normally
  lost,          // the connection failed or broke
  overdue,       // the server answers nothing, or does not end
  busy,          // the server asks us to come back later
  behind,        // the server has not reached our version yet, and may never do
  older,         // the server knows less than we do; another server may not
  denied,        // not allowed, or not found
  unauthorized,  // 401
  expired,       // the version or the page token is too old
  unsupported,   // the server has no streaming lists
  nonsense,      // broken JSON, or an answer without a rule
};

struct Ending {
  Trouble trouble = Trouble::ended;
  std::string cause;  // one line
  std::optional<std::chrono::seconds> retry_after;

  friend bool operator==(const Ending&, const Ending&) = default;
};

// The Ending for the Status of an ERROR event.
Ending ending_of_event(const api::ApiStatus& status);

// The Ending for an answer other than 200 to a request for objects of the kind. The cause of a 404
// names the kind and its version: a server may not have them (yet).
Ending ending_of_answer(int code, const api::ApiStatus& status, Step step, api::ObjectKind kind);

}  // namespace ipvsproxier::watch
