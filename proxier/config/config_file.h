#pragma once

// Reads a KubeProxyConfiguration file (YAML or JSON). Problems name the file and the field
// ("ipvs.scheduler"): an unknown or repeated field is a warning; a wrong type, apiVersion or kind
// is an error. An unknown feature gate is a warning, a changed locked one an error. Values are
// checked by config_validation.h.

#include <string>
#include <string_view>

#include "proxier/api/problem.h"
#include "proxier/config/kube_proxy_config.h"

namespace ipvsproxier::config {

// Applies defaults. If `problems` then holds an error, the configuration must not be used. Pure.
KubeProxyConfig read_config_text(std::string_view text, const std::string& origin,
                                 api::Problems& problems);

}  // namespace ipvsproxier::config
