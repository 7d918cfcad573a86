#pragma once

// JSON values -> YAML text. Pure; any thread.

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace ipvsproxier::api {

// One document that ends in a newline. Texts that unquoted would mean something else to Kubernetes'
// tools (yaml_scalar.h) are quoted.
std::string write_yaml(const nlohmann::json& value);

}  // namespace ipvsproxier::api
