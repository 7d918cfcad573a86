#pragma once

// Options: the flags of ipvs-proxier and their configuration file. A value.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cmd/command_line.h"
#include "cmd/effective_config.h"
#include "proxier/api/problem.h"
#include "proxier/config/kube_proxy_config.h"

namespace ipvsproxier::cmd {

struct Options : MainFlags {
  ConfigOverrides overrides;       // values that override the file
  std::string node_name;           // lower case, not empty
  std::vector<std::string> flags;  // as given
  config::KubeProxyConfig config;  // validated
  api::Problems warnings;          // of configuration and flags
};

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
