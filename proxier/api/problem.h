#pragma once

// Problem: an error in an object or a configuration that a person wrote, with its place. A value;
// any thread.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ipvsproxier::api {

enum class Severity : std::uint8_t {
  warning,  // reported; nothing is lost
  error,    // something that was asked for is not done
};

struct Problem {
  Severity severity = Severity::error;
  std::string origin;   // the file (with "#2" for its second document), or ""
  std::string object;   // "Service shop/web", or ""
  std::string field;    // "spec.ports[0].port", or ""
  std::string message;  // the fault, and its consequence or advice

  friend auto operator<=>(const Problem&, const Problem&) = default;
};

using Problems = std::vector<Problem>;

bool has_error(const Problems& problems);

// The namespace of the object, or "" where there is no object. Points into the problem.
std::string_view namespace_of(const Problem& problem);

// "origin: object: field: message", on one line (visible_text.h); empty parts are left out.
std::string to_string(const Problem& problem);

}  // namespace ipvsproxier::api
