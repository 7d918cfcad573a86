#pragma once

// The configuration that counts: of flags alone, or of a file and the flags that win over it. Pure.

#include <string>
#include <string_view>

#include "cmd/command_line.h"
#include "cmd/kube_proxy_config.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::cmd {

// What wins over a file.
struct ConfigOverrides {
  std::string hostname_override;  // "": the file's
  GivenFlags logging;
  bool ignore_mode = false;  // whatever mode there is, it counts as ipvs, with a warning
};

// Validated: must not be used when a problem is an error.
struct EffectiveConfig {
  KubeProxyConfig config;
  api::Problems problems;
};

EffectiveConfig config_of_flags(const GivenFlags& flags, const ConfigOverrides& overrides);

// `origin` is the file's name.
EffectiveConfig config_of_file(std::string_view text, const std::string& origin,
                               const ConfigOverrides& overrides);

}  // namespace ipvsproxier::cmd
