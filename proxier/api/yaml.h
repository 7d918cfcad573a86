#pragma once

// YAML text -> JSON values. Only this file and its source use the YAML library. Scalars mean the
// same as in kubectl (yaml_scalar.h); anchors, aliases and merge keys ("<<") are resolved. Pure;
// any thread.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace ipvsproxier::api {

// Limit on the values that aliases of one document add: ten lines must not expand to gigabytes.
inline constexpr std::size_t kMaxAliasedValues = 100'000;

struct ParsedValue {
  nlohmann::json value;
  std::vector<std::string> duplicates;  // paths of repeated keys; the last value counts
};

struct SyntaxError {
  std::size_t line = 0;    // from 1; 0: unknown position
  std::size_t column = 0;  // from 1
  std::string message;
};

// Appends the text's documents, up to the first error.
std::optional<SyntaxError> read_yaml(std::string_view text, std::vector<ParsedValue>& documents);

}  // namespace ipvsproxier::api
