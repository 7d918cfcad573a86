#pragma once

// Options: the flags of ipvs-proxier and their configuration file. A value.

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

struct Options : MainFlags {
  ConfigOverrides overrides;       // values that override the file
  std::string node_name;           // lower case, not empty
  std::vector<std::string> flags;  // as given
  config::KubeProxyConfig config;  // validated
  api::Problems warnings;          // of configuration and flags
};

// The configuration in effect: from flags alone, or from a file and the flags that override it.
// Pure.
EffectiveConfig config_of_flags(const GivenFlags& flags, const ConfigOverrides& overrides);

// `origin` is the file's name.
EffectiveConfig config_of_file(std::string_view text, const std::string& origin,
                               const ConfigOverrides& overrides);

// The host name of this machine; "" if it has none.
std::string host_name();

// The configuration's node name, else the machine's, trimmed and in lower case. nullopt: it is
// empty. A configured name of blanks counts as empty, not as absent.
std::optional<std::string> resolve_node_name(const config::KubeProxyConfig& config,
                                             const std::string& machine_name);

// Reads the configuration file as well, unless its text is given. Exit with status 0: --help and
// --version; with 1: a mistake in flags or file, with all problems of the configuration.
std::variant<Options, Exit> parse_options(
    int argc, const char* const* argv, const std::string& machine_name,
    const std::optional<std::string>& config_text = std::nullopt);

}  // namespace ipvsproxier::cmd
