#pragma once

// The flags of ipvs-proxier and the configuration file that they name -> Options.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cmd/command_line.h"
#include "cmd/effective_config.h"
#include "cmd/kube_proxy_config.h"
#include "proxier/api/problem.h"
#include "proxier/plan/differences.h"

namespace ipvsproxier::cmd {

struct Options {
  // --manifests: a file or folder; "": objects come from the API server, which --master names, else
  // config.client_connection.kubeconfig, else the pod in which this runs.
  std::string manifests;
  std::string master;
  bool once = false;            // --once: program the kernel and exit, else follow
  bool cleanup = false;         // --cleanup: remove what we keep in the kernel and exit
  bool init_only = false;       // --init-only: prepare the host and exit
  std::string write_config_to;  // --write-config-to: write the configuration there and exit
  std::string config_file;      // "": the configuration is that of flags
  ConfigOverrides overrides;    // what won over the file
  std::string node_name;        // lower case, not empty
  // --drain-timeout: a leaving real server is cut off after so long; nullopt: when it is idle
  std::optional<Nanoseconds> drain_timeout;
  // --healthz-max-watch-age: unhealthy when no watch said anything for so long; nullopt: never
  std::optional<Nanoseconds> healthz_max_watch_age;
  bool ipv6_forwarding = false;         // --ipv6-forwarding
  bool ipvs_estimators = true;          // --ipvs-estimators
  bool drain_deleted_services = false;  // --drain-deleted-services
  bool bind_by_routes = false;          // --vip-binding=route
  bool mass_removal_brake = true;       // --mass-removal-brake; of an API server's lists
  std::optional<bool> external_ips;     // --external-ips; nullopt: as the feature gate says
  std::string control_socket;           // --control-socket; "": ipvsctl cannot ask
  std::vector<std::string> flags;       // as given
  plan::Differences differences;        // --kube-proxy-compat switches all of them off
  KubeProxyConfig config;               // validated
  api::Problems warnings;               // of configuration and flags
};

// The name of this machine; "" when it has none.
std::string host_name();

// The configuration's, else the machine's; trimmed and in lower case. nullopt: empty. One of blanks
// alone is not "none", it is empty.
std::optional<std::string> resolve_node_name(const KubeProxyConfig& config,
                                             const std::string& machine_name);

// Reads the configuration file. Exit with status 0: --help and --version; with 1: a mistake in
// flags or file, all problems of the configuration listed.
std::variant<Options, Exit> parse_options(int argc, const char* const* argv,
                                          const std::string& machine_name);

}  // namespace ipvsproxier::cmd
