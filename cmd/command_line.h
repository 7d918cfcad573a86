#pragma once

// The command line of ipvs-proxier: the given flags, with our own flags as values. "_" counts as
// "-" in flags, as in kube-proxy; the last of a repeated flag counts, lists grow. Pure.

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proxier/config/kube_proxy_flags.h"

namespace CLI {
class App;
}

namespace ipvsproxier::cmd {

// The daemon's socket for ipvsctl, unless --control-socket names another one.
inline constexpr const char* kControlSocket = "/run/ipvs-proxier/control.sock";
// The daemon's socket for probes, beside the control socket.
inline std::string probe_socket(const std::string& control_socket) {
  return control_socket + ".probes";
}

// The program prints the text (on standard output for status 0, else on standard error) and exits.
struct Exit {
  int status = 0;
  std::string text;
};

// Flags that always count: our own, and those of kube-proxy that are not in its configuration file
// or take precedence over it.
struct MainFlags {
  std::string manifests;
  std::string master;
  std::string config_file;
  std::string hostname_override;
  bool once = false;
  bool cleanup = false;
  bool init_only = false;
  std::string write_config_to;
  config::Nanoseconds drain_timeout{0};
  config::Nanoseconds healthz_max_watch_age{0};
  bool ipv6_forwarding = false;
  bool ipvs_estimators = true;
  bool drain_deleted_services = false;
  bool bind_by_routes = false;
  bool ignore_mode = false;
  std::optional<bool> external_ips;
  std::string control_socket = kControlSocket;
  std::optional<bool> mass_removal_brake;  // nullopt: on, unless --kube-proxy-compat is given
  // Differences from kube-proxy; nullopt: the default, which --kube-proxy-compat changes.
  std::optional<bool> vip_ping;
  std::optional<bool> strict_internal_traffic_policy;
  std::optional<bool> open_health_check_ports;
  std::optional<bool> lean_loop_back;
  std::optional<bool> growing_sets;
  std::optional<bool> spread_addresses;
  std::optional<bool> follow_node_ip;
  std::optional<bool> scheduler_fallback;
  std::optional<bool> unbind_special;
  bool compat = false;
};

struct GivenFlag {
  std::string_view name;
  std::string text;
  std::string (*set)(std::string_view text, config::FlagConfig& target);
};
// In the order of the tables; a repeated flag in the order given.
using GivenFlags = std::vector<GivenFlag>;

struct CommandLine {
  MainFlags main;
  GivenFlags config;   // ignored with --config
  GivenFlags logging;  // take precedence over the file
};

// Exit with status 0: --help and --version; with 1: a mistake, described after the usage. The texts
// of `config` and `logging` have been checked.
std::variant<CommandLine, Exit> read_command_line(int argc, const char* const* argv);

// Adds all flags that read_command_line() knows to `app`.
void add_daemon_flags(CLI::App& app);

}  // namespace ipvsproxier::cmd
