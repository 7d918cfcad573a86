#pragma once

// The flags of ipvs-proxier and the configuration file that they name -> Options.
// Flags accept "_" for "-", as kube-proxy's do; the last of a repeated flag counts.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "cmd/kube_proxy_config.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::cmd {

// Deliberate differences from kube-proxy that can be seen in the kernel; each has its flag, and
// --kube-proxy-compat switches all of them to kube-proxy's way.
struct Differences {
  bool vip_ping = true;  // --vip-ping: echo requests to service addresses are answered

  friend bool operator==(const Differences&, const Differences&) = default;
};

inline constexpr Differences kKubeProxyCompat = {.vip_ping = false};

struct Options {
  std::string manifests;  // --manifests: a file or folder
  bool once = false;      // --once: program the kernel and exit, else follow
  std::string config_file;
  std::string node_name;  // lower case, not empty
  std::uint32_t verbosity = 0;
  // --drain-timeout: a leaving real server is cut off after so long; nullopt: when it is idle
  std::optional<Nanoseconds> drain_timeout;
  Differences differences;
  KubeProxyConfig config;  // validated
  api::Problems warnings;  // of the configuration file
};

// The program is to print the text (on standard output with status 0, else on standard error) and
// to end.
struct Exit {
  int status = 0;
  std::string text;
};

// The name of this machine; "" when it has none.
std::string host_name();

// Override, else the configuration's, else the machine's; trimmed and in lower case. nullopt:
// empty. An override of blanks alone is not "no override", it is empty.
std::optional<std::string> resolve_node_name(const std::string& override_name,
                                             const KubeProxyConfig& config,
                                             const std::string& machine_name);

// Reads the configuration file. Exit with status 0: --help and --version; with 1: a mistake in
// flags or file, all problems of the file listed.
std::variant<Options, Exit> parse_options(int argc, const char* const* argv,
                                          const std::string& machine_name);

}  // namespace ipvsproxier::cmd
