#pragma once

// Trees of nlohmann-json: what YAML is read into, what the configuration is read from, and what
// explains text that the reader of objects (json_value.h) refuses. Pure; any thread.

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "proxier/api/json_value.h"

namespace ipvsproxier::api {

using Json = nlohmann::json;

Json to_tree(const JsonValue& value);

// "a number", "an object": what a value is, for messages.
std::string_view kind_of_json(const Json& value);
// The value as it was written, in quotes when it is text, cut after some 60 characters.
std::string show(const Json& value);

}  // namespace ipvsproxier::api
