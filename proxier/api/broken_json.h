#pragma once

// What to do about JSON that the reader of objects (json_value.h) refuses: text that somebody got
// past an API server need not be text that it takes. In one pass, without recursion; pure; any
// thread.

#include <cstddef>
#include <string>
#include <string_view>

#include "proxier/api/json_value.h"

namespace ipvsproxier::api {

// The text so that the reader takes it, where nothing that anybody reads has to change for that:
// what lies more than kKeptDepth levels deep becomes null; bytes that are no UTF-8, and escapes of
// half a character, become U+FFFD, as Go reads them. All else stays as it is, be it JSON or not.
inline constexpr std::size_t kKeptDepth = kMaxDepth / 2;
std::string mend_json(std::string_view text);

// What can be told of an object, or of the event that brings it, of which nothing else can: its
// text may be no JSON, or end anywhere. "" is what cannot be told; nothing here has an escape.
struct Outline {
  std::string event_type;  // "ADDED"; "" of an object without event
  std::string name;
  std::string ns;
  std::string resource_version;

  friend auto operator<=>(const Outline&, const Outline&) = default;
};

Outline outline_of_event(std::string_view text);
Outline outline_of_object(std::string_view text);

}  // namespace ipvsproxier::api
