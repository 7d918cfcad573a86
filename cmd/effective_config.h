#pragma once

// The configuration in effect: from flags alone, or from a file and the flags that override it.
// Pure.

#include <string>
#include <string_view>

#include "cmd/command_line.h"
#include "proxier/api/problem.h"
#include "proxier/config/kube_proxy_config.h"

namespace ipvsproxier::cmd {

// Values that override a file.
struct ConfigOverrides {
  std::string hostname_override;  // "": as in the file
  GivenFlags logging;
  bool ignore_mode = false;  // treat any mode as ipvs, with a warning
};

// A validated configuration; it must not be used if a problem is an error.
struct EffectiveConfig {
  config::KubeProxyConfig config;
  api::Problems problems;
};

EffectiveConfig config_of_flags(const GivenFlags& flags, const ConfigOverrides& overrides);

// `origin` is the file's name.
EffectiveConfig config_of_file(std::string_view text, const std::string& origin,
                               const ConfigOverrides& overrides);

}  // namespace ipvsproxier::cmd
