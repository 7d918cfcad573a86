#pragma once

// The meaning of an unquoted YAML scalar to Kubernetes tools: they read YAML 1.1, where "on" is
// true, "010" is eight and "1_000" a thousand. Pure.

#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace ipvsproxier::api {

// null, true, false, an integer or a float if the text spells one of them, else the text itself.
// Infinities and NaN, which JSON cannot hold, stay text.
nlohmann::json resolve_plain_scalar(std::string_view text);

// The scalar with an explicit tag ("tag:yaml.org,2002:int"); nullopt if the text does not fit the
// tag or the tag is unknown.
std::optional<nlohmann::json> resolve_tagged_scalar(std::string_view tag, std::string_view text);

}  // namespace ipvsproxier::api
