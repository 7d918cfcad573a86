#pragma once

// JSON trees of nlohmann-json: used for YAML, for the configuration, and to explain text that the
// reader of objects (json_value.h) refuses. Pure; any thread.

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "proxier/api/json_value.h"

namespace ipvsproxier::api {

using Json = nlohmann::json;

Json to_tree(const JsonValue& value);

// The kind of a value for messages: "a number", "an object".
std::string_view kind_of_json(const Json& value);
// The value as written, text in quotes, cut after about 60 characters.
std::string show(const Json& value);

}  // namespace ipvsproxier::api
