#pragma once

// The command line of ipvs-proxier: the given flags, with our own flags as values. "_" counts as
// "-" in flags, as in kube-proxy; the last of a repeated flag counts, lists grow. Pure.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ipset/rules/packet_filter_choice.h"
#include "netlink/ip_address.h"
#include "proxier/config/kube_proxy_flags.h"
#include "proxier/model/service_settings.h"
#include "proxier/plan/differences.h"

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
  // --manifests: a file or folder. "": objects come from the API server named by --master, else by
  // the configuration's kubeconfig, else from the pod's environment.
  std::string manifests;
  std::string master;
  std::string config_file;  // "": configured by flags
  std::string hostname_override;
  bool once = false;       // program the kernel and exit, else follow
  bool cleanup = false;    // remove our kernel state and exit
  bool init_only = false;  // prepare the host and exit
  bool check = false;      // say whether this node can do it, and exit
  bool json = false;       // --output=json, of --check
  std::string write_config_to;
  // Remove a draining real server after this time; nullopt: only when it is idle.
  std::optional<config::Nanoseconds> drain_timeout;
  // Unhealthy after this time without data of a watch; nullopt: never.
  std::optional<config::Nanoseconds> healthz_max_watch_age;
  bool ipv6_forwarding = false;
  bool reserve_node_ports = false;
  bool ipvs_estimators = true;
  std::optional<std::uint32_t> scheduler_flags;  // netlink::kSchedulerFlag*; nullopt: ours
  model::Thresholds max_connections;             // of each real server
  model::ServiceMetrics service_metrics = model::ServiceMetrics::off;
  bool drain_deleted_services = false;
  bool bind_by_routes = false;  // --vip-binding=route
  ipset::PacketFilterWish packet_filter = ipset::PacketFilterWish::automatic;
  std::vector<netlink::IpPrefix> in_cluster_ranges = {
      *netlink::IpPrefix::parse("240.0.0.0/4"), *netlink::IpPrefix::parse("fd69:7076:7300::/64")};
  bool ignore_mode = false;
  std::optional<bool> external_ips;             // nullopt: as the feature gate says
  std::string control_socket = kControlSocket;  // "": no socket for ipvsctl
  bool mass_removal_brake = true;               // for an API server's lists
  plan::Differences differences;
  bool compat = false;  // --kube-proxy-compat switches mass_removal_brake and differences off
  // Names of flags that it switches off and that were given as true.
  std::vector<std::string_view> asked_for;
};

struct GivenFlag {
  std::string_view name;
  std::string text;
  std::function<std::string(std::string_view text, config::FlagConfig& target)> set;
};
// In the order of the tables; a repeated flag in the order given.
using GivenFlags = std::vector<GivenFlag>;

struct CommandLine {
  MainFlags main;
  GivenFlags config;                 // ignored with --config
  GivenFlags logging;                // take precedence over the file
  std::vector<std::string> removed;  // given flags of earlier builds, which have no effect
};

// Exit with status 0: --help and --version; with 1: a mistake, described after the usage. The texts
// of `config` and `logging` have been checked.
std::variant<CommandLine, Exit> read_command_line(int argc, const char* const* argv);

// Adds all flags that read_command_line() knows to `app`.
void add_daemon_flags(CLI::App& app);

}  // namespace ipvsproxier::cmd
