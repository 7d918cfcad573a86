#pragma once

// The allowed values of a KubeProxyConfig: kube-proxy's rules with its paths and details, except
// that `mode` must be ipvs or empty. Pure.

#include <string>
#include <vector>

#include "proxier/api/problem.h"
#include "proxier/config/kube_proxy_config.h"

namespace ipvsproxier::config {

struct ValidationError {
  std::string field;   // in the file: "ipvs.excludeCIDRs[0]"
  std::string path;    // kube-proxy's: "KubeProxyConfiguration.KubeProxyIPVSConfiguration...."
  std::string kind;    // "Invalid value", "Unsupported value", "Forbidden", "Required value"
  std::string value;   // as JSON; "" for Forbidden
  std::string detail;  // "must be a valid CIDR"
  // The field has no effect here: the value may be valid in a later version.
  bool no_effect = false;

  friend bool operator==(const ValidationError&, const ValidationError&) = default;
};

// "<path>: <kind>: <value>: <detail>".
std::string to_string(const ValidationError& error);

// All errors of a configuration after apply_defaults().
std::vector<ValidationError> validate(const KubeProxyConfig& config);

// One error "failed validate: a" or "failed validate: [a, b]" with the configuration file as origin
// ("" for flags), and a warning for each field without effect.
api::Problems to_problems(const std::vector<ValidationError>& errors, const std::string& origin);

}  // namespace ipvsproxier::config
