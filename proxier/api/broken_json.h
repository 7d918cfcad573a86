#pragma once

// Repairs JSON that JsonDocument (json_value.h) refuses: an API server may accept text that it does
// not. Works in one pass without recursion. Pure; any thread.

#include <cstddef>
#include <string>
#include <string_view>

#include "proxier/api/json_value.h"

namespace ipvsproxier::api {

// Returns text that the reader accepts, if that needs no change to any field that is read: values
// more than kKeptDepth levels deep become null; invalid UTF-8 and escapes of half a surrogate pair
// become U+FFFD, as in Go. Everything else stays unchanged, even if it is not JSON.
inline constexpr std::size_t kKeptDepth = kMaxDepth / 2;
std::string mend_json(std::string_view text);

// The few fields that can be found in an object, or in the watch event around it, when the text
// cannot be decoded: it may be no JSON, or cut off anywhere. "" for a field that was not found.
// Values with escapes are not read.
struct Outline {
  std::string event_type;  // "ADDED"; "" for an object without event
  std::string name;
  std::string ns;
  std::string resource_version;

  friend auto operator<=>(const Outline&, const Outline&) = default;
};

Outline outline_of_event(std::string_view text);
Outline outline_of_object(std::string_view text);

}  // namespace ipvsproxier::api
