#pragma once

// YAML text -> JSON values. The only file pair that knows the YAML library. Scalars mean what they
// mean to kubectl (yaml_scalar.h); anchors, aliases and merge keys ("<<") are resolved.
// Pure; any thread.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxier/api/json_builder.h"

namespace ipvsproxier::api {

// Values that aliases of one document may add, so that ten lines cannot become gigabytes.
inline constexpr std::size_t kMaxAliasedValues = 100'000;

struct ParsedValue {
  Json value;
  std::vector<std::string> duplicates;  // paths of keys that came twice; the last value counts
};

struct SyntaxError {
  std::size_t line = 0;    // from 1; 0: the position is not known
  std::size_t column = 0;  // from 1
  std::string message;
};

// Appends the text's documents; those before an error are there.
std::optional<SyntaxError> read_yaml(std::string_view text, std::vector<ParsedValue>& documents);

}  // namespace ipvsproxier::api
