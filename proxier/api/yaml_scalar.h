#pragma once

// What an unquoted YAML scalar means to Kubernetes' tools: they read YAML 1.1, so "on" is true,
// "010" is eight and "1_000" a thousand. Pure.

#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace ipvsproxier::api {

// null, true, false, an integer or a float where the text is one of these, else the text itself.
// Infinities and NaN, which JSON cannot hold, stay text.
nlohmann::json resolve_plain_scalar(std::string_view text);

// The scalar under an explicit tag ("tag:yaml.org,2002:int"); nullopt when the text does not fit
// the tag or the tag is unknown.
std::optional<nlohmann::json> resolve_tagged_scalar(std::string_view tag, std::string_view text);

}  // namespace ipvsproxier::api
