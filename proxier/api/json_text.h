#pragma once

// JSON values -> JSON text: the one way in which any is written. What is no UTF-8 in it is replaced
// by U+FFFD. Pure; any thread.

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace ipvsproxier::api {

// On one line, or indented by so many blanks a level.
std::string to_json_text(const nlohmann::json& value, int indent = -1);
std::string to_json_text(const nlohmann::ordered_json& value, int indent = -1);

// Every text in it made visible (visible_text.h), for pages that are not JSON.
nlohmann::json visible_texts(nlohmann::json value);

// A text with its quotes.
std::string json_quoted(std::string_view text);

}  // namespace ipvsproxier::api
