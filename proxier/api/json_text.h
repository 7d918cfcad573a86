#pragma once

// Writes JSON text; all JSON output of the project uses this. Invalid UTF-8 becomes U+FFFD. Pure;
// any thread.

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace ipvsproxier::api {

// On one line, or with `indent` blanks for each level.
std::string to_json_text(const nlohmann::json& value, int indent = -1);
std::string to_json_text(const nlohmann::ordered_json& value, int indent = -1);

// Makes every text in the value visible (visible_text.h), for pages that are not JSON.
nlohmann::json visible_texts(nlohmann::json value);

// A text as a JSON string with its quotes.
std::string json_quoted(std::string_view text);

}  // namespace ipvsproxier::api
