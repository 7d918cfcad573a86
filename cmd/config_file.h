#pragma once

// A KubeProxyConfiguration file, YAML or JSON -> KubeProxyConfig. Problems name the file and the
// field ("ipvs.scheduler"): an unknown or repeated field is a warning, a wrong type an error, as is
// a wrong apiVersion or kind. Feature gates: unknown ones are a warning, a locked one with its
// other value is an error. Values are not judged here: config_validation.h does that.

#include <string>
#include <string_view>

#include "cmd/kube_proxy_config.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::cmd {

// Defaults are applied. When `problems` holds an error afterwards the configuration must not be
// used. Pure.
KubeProxyConfig read_config_text(std::string_view text, const std::string& origin,
                                 api::Problems& problems);

}  // namespace ipvsproxier::cmd
