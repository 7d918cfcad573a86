#pragma once

// JSON values -> YAML text. Pure; any thread.

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace ipvsproxier::api {

// Writes one document that ends in a newline. Texts that mean something else to Kubernetes tools
// without quotes (yaml_scalar.h) are quoted.
std::string write_yaml(const nlohmann::json& value);

}  // namespace ipvsproxier::api
