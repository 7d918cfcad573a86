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
#include "proxier/plan/differences.h"

namespace ipvsproxier::cmd {

struct Options {
  // --manifests: a file or folder. "": objects come from the API server named by --master, else by
  // config.client_connection.kubeconfig, else from the pod's environment.
  std::string manifests;
  std::string master;
  bool once = false;  // --once: program the kernel and exit, else follow
  // --cleanup: remove our kernel state and exit.
  bool cleanup = false;
  bool init_only = false;       // --init-only: prepare the host and exit
  std::string write_config_to;  // --write-config-to: write the configuration there and exit
  std::string config_file;      // "": configured by flags
  ConfigOverrides overrides;    // values that override the file
  std::string node_name;        // lower case, not empty
  // --drain-timeout: remove a draining real server after this time; nullopt: only when it is idle
  std::optional<config::Nanoseconds> drain_timeout;
  // --healthz-max-watch-age: unhealthy after this time without data of a watch; nullopt: never
  std::optional<config::Nanoseconds> healthz_max_watch_age;
  bool ipv6_forwarding = false;         // --ipv6-forwarding
  bool ipvs_estimators = true;          // --ipvs-estimators
  bool drain_deleted_services = false;  // --drain-deleted-services
  bool bind_by_routes = false;          // --vip-binding=route
  bool mass_removal_brake = true;       // --mass-removal-brake, for an API server's lists
  std::optional<bool> external_ips;     // --external-ips; nullopt: as the feature gate says
  std::string control_socket;           // --control-socket; "": no socket for ipvsctl
  std::vector<std::string> flags;       // as given
  plan::Differences differences;        // --kube-proxy-compat switches all off
  config::KubeProxyConfig config;       // validated
  api::Problems warnings;               // of configuration and flags
};

// The host name of this machine; "" if it has none.
std::string host_name();

// The configuration's node name, else the machine's, trimmed and in lower case. nullopt: it is
// empty. A configured name of blanks counts as empty, not as absent.
std::optional<std::string> resolve_node_name(const config::KubeProxyConfig& config,
                                             const std::string& machine_name);

// Reads the configuration file as well. Exit with status 0: --help and --version; with 1: a mistake
// in flags or file, with all problems of the configuration.
std::variant<Options, Exit> parse_options(int argc, const char* const* argv,
                                          const std::string& machine_name);

}  // namespace ipvsproxier::cmd
