#pragma once

// What values a KubeProxyConfig may have: kube-proxy's rules, with its paths and details, except
// that `mode` must be ipvs or empty. Pure.

#include <string>
#include <vector>

#include "cmd/kube_proxy_config.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::cmd {

struct ValidationError {
  std::string field;       // in the file: "ipvs.excludeCIDRs[0]"
  std::string path;        // kube-proxy's: "KubeProxyConfiguration.KubeProxyIPVSConfiguration...."
  std::string kind;        // "Invalid value", "Unsupported value", "Forbidden", "Required value"
  std::string value;       // as JSON; "" with Forbidden, which shows none
  std::string detail;      // "must be a valid CIDR"
  bool no_effect = false;  // the field has none: the value may be a later version's

  friend bool operator==(const ValidationError&, const ValidationError&) = default;
};

// "<path>: <kind>: <value>: <detail>".
std::string to_string(const ValidationError& error);

// All errors of a configuration to which apply_defaults() was applied.
std::vector<ValidationError> validate(const KubeProxyConfig& config);

// "failed validate: a" or "failed validate: [a, b]", as one error of the file that the
// configuration came from, "" for flags; a warning for each field without effect.
api::Problems to_problems(const std::vector<ValidationError>& errors, const std::string& origin);

}  // namespace ipvsproxier::cmd
