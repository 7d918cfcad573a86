#include "cmd/command_line.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "proxier/config/text.h"

namespace ipvsproxier::cmd {

namespace {

using MainFlag = config::Flag<MainFlags>;
using M = MainFlags;
using D = plan::Differences;

template <auto... Path>
constexpr auto to_main = &config::set_member<MainFlags, Path...>;

// 0 means none.
template <auto Member>
std::string set_length(std::string_view text, MainFlags& flags) {
  config::Nanoseconds value{0};
  auto wrong = config::set_value(text, value);
  if (wrong.empty() && value < config::Nanoseconds::zero()) wrong = "must not be negative";
  if (wrong.empty())
    flags.*Member = value == config::Nanoseconds::zero() ? std::nullopt : std::optional(value);
  return wrong;
}

std::string set_vip_binding(std::string_view text, MainFlags& flags) {
  if (text != "address" && text != "route") return "must be address or route";
  flags.bind_by_routes = text == "route";
  return "";
}

std::string set_packet_filter(std::string_view text, MainFlags& flags) {
  if (text == "auto")
    flags.packet_filter = ipset::PacketFilterWish::automatic;
  else if (text == "iptables")
    flags.packet_filter = ipset::PacketFilterWish::iptables;
  else if (text == "nftables")
    flags.packet_filter = ipset::PacketFilterWish::nftables;
  else
    return "must be auto, iptables or nftables";
  return "";
}

std::string set_scheduler_flags(std::string_view text, MainFlags& flags) {
  const auto bits = model::parse_scheduler_flags(text);
  if (!bits) return fmt::format("must be {}", model::kSchedulerFlagsMustBe);
  flags.scheduler_flags = bits;
  return "";
}

std::string set_max_connections(std::string_view text, MainFlags& flags) {
  const auto thresholds = model::parse_max_connections(text);
  if (!thresholds) return fmt::format("must be {}", model::kMaxConnectionsMustBe);
  flags.max_connections = *thresholds;
  return "";
}

// One range of a family at most; "": none.
std::string set_in_cluster_ranges(std::string_view text, MainFlags& flags) {
  constexpr int kFewestBits = 8;
  std::map<netlink::Family, netlink::IpPrefix> ranges;
  for (const auto& element : text.empty() ? std::vector<std::string>() : config::split_list(text)) {
    const auto range = netlink::IpPrefix::parse(element);
    if (!range || netlink::address_bits(range->family()) - range->length < kFewestBits)
      return fmt::format("\"{}\" must be a range with {} bits for cluster IPs at least", element,
                         kFewestBits);
    if (range->address.is_loopback() || range->address.is_any())
      return fmt::format("\"{}\" has addresses with a meaning of their own", element);
    if (!ranges.emplace(range->family(), *range).second)
      return fmt::format("has two ranges of {}", to_string(range->family()));
  }
  flags.in_cluster_ranges.clear();
  for (const auto& [family, range] : ranges) flags.in_cluster_ranges.push_back(range);
  return "";
}

std::string set_service_metrics(std::string_view text, MainFlags& flags) {
  if (text == "off")
    flags.service_metrics = model::ServiceMetrics::off;
  else if (text == "annotated")
    flags.service_metrics = model::ServiceMetrics::annotated;
  else if (text == "all")
    flags.service_metrics = model::ServiceMetrics::all;
  else
    return "must be off, annotated or all";
  return "";
}

std::string set_output(std::string_view text, MainFlags& flags) {
  if (text != "text" && text != "json") return "must be text or json";
  flags.json = text == "json";
  return "";
}

template <auto Difference>
constexpr auto to_difference = &config::set_member<MainFlags, &M::differences, Difference>;

const auto kMainFlags = std::to_array<MainFlag>({
    {"manifests", "PATH",
     "File or folder of Services, EndpointSlices and Nodes (YAML or JSON), instead of an API "
     "server",
     to_main<&M::manifests>},
    {"master", "URL", "The API server, instead of the kubeconfig's", to_main<&M::master>},
    {"config", "FILE", "KubeProxyConfiguration (YAML or JSON); the daemon ends when it changes",
     to_main<&M::config_file>},
    {"hostname-override", "NAME",
     "Name of this node, instead of the configuration's or the machine's",
     to_main<&M::hostname_override>},
    {"once", "", "Program the kernel once and exit, instead of following", to_main<&M::once>},
    {"cleanup", "",
     "Remove from the kernel what this and kube-proxy keep there, in any mode, and exit",
     to_main<&M::cleanup>},
    {"init-only", "", "Do what needs more privileges (sysctls, IPVS timeouts) and exit",
     to_main<&M::init_only>},
    {"check", "",
     "Say whether this node can do it, changing nothing, and exit: status 0 fine, 1 with limits, 2 "
     "not",
     to_main<&M::check>},
    {"output", "FORM", "Form of what --check says: text or json (default text)", set_output},
    {"write-config-to", "FILE", "Write the effective configuration there and exit",
     to_main<&M::write_config_to>},
    {"drain-timeout", "DURATION",
     "Cut the connections of a leaving endpoint after so long; 0s: never (default 0s)",
     set_length<&M::drain_timeout>},
    {"healthz-max-watch-age", "DURATION",
     "Be unhealthy when nothing was heard from the API server for so long; 0s: never (default 0s)",
     set_length<&M::healthz_max_watch_age>},
    {"ipv6-forwarding", "",
     "Have the kernel forward IPv6, as it is made to forward IPv4 (default false)",
     to_main<&M::ipv6_forwarding>},
    {"reserve-node-ports", "",
     "Add the node ports to the sysctl ip_local_reserved_ports, so that no connection of the node "
     "begins at one; none is taken out again (default false)",
     to_main<&M::reserve_node_ports>},
    {"ipvs-estimators", "",
     "Count rates of virtual and real servers; false spares kernels older than 6.2 a walk of all "
     "of "
     "them every 2 s (default true)",
     to_main<&M::ipvs_estimators>},
    {"drain-deleted-services", "",
     "Let connections of TCP and SCTP finish when their Service, its address or its port is "
     "deleted; "
     "--drain-timeout bounds it (default false: they are cut, as kube-proxy does)",
     to_main<&M::drain_deleted_services>},
    {"scheduler-flags", "LIST",
     "Flags of ipvs.scheduler, as of ipvsadm -b: mh-fallback, mh-port, sh-fallback, sh-port, "
     "flag-1 to flag-3, or \"\" for none (default mh-fallback,mh-port for mh, sh-fallback for sh)",
     set_scheduler_flags},
    {"max-connections", "UPPER[/LOWER]",
     "Connections after which a real server gets no new ones, until it has fewer than the lower "
     "number; for each virtual service by itself; 0: no limit (default 0)",
     set_max_connections},
    {"service-metrics", "WHICH",
     "Serve traffic figures of Services among the metrics: of all, of those annotated "
     "ipvs-proxier/metrics: \"true\", or off (default off)",
     set_service_metrics},
    {"vip-binding", "KIND",
     "Bind service addresses as addresses of links, or by local routes to them: address or route "
     "(default address, as kube-proxy does)",
     set_vip_binding},
    {"packet-filter", "NAME",
     "Keep sets and rules in iptables or nftables; auto: what this kernel suggests (default auto)",
     set_packet_filter},
    {"in-cluster-ranges", "LIST",
     "With --in-cluster-clients: a range of each family of which this node uses an address for "
     "each "
     "Service whose external and internal policies are both Local, with the last bits of its "
     "cluster IP; \"\": none, such Services stay as with kube-proxy (default "
     "240.0.0.0/4,fd69:7076:7300::/64)",
     set_in_cluster_ranges},
    {"external-ips", "",
     "Serve spec.externalIPs of Services; whoever may write a Service can take any address with "
     "them (CVE-2020-8554) (default as feature gate AllowServiceExternalIPs, true)",
     to_main<&M::external_ips>},
    {"ignore-mode", "",
     "Take a configuration whose mode is not ipvs, as upgrade tools write it, as if it were "
     "(default false)",
     to_main<&M::ignore_mode>},
    {"control-socket", "PATH",
     "Answer ipvsctl on this unix socket; \"\": nowhere (default /run/ipvs-proxier/control.sock)",
     to_main<&M::control_socket>},
});

// What --kube-proxy-compat switches off, beside all other differences: those that an operator may
// have a reason to go without. Pings: policies that forbid answers. Internal policy: applications
// that count on kube-proxy's way. Other programs' virtual services: nodes that are to be swept.
// In-cluster clients: policy Local as a firewall. The API server: an address that is meant to be a
// Service's. Annotations: tenants who may not choose. The brake: clusters that are emptied by
// lists.
const auto kDifferences = std::to_array<MainFlag>({
    {"vip-ping", "", "Answer pings to service addresses; kube-proxy rejects them (default true)",
     to_difference<&D::vip_ping>},
    {"strict-internal-traffic-policy", "",
     "internalTrafficPolicy Local never uses other nodes' endpoints; kube-proxy does for Services "
     "that can be reached from outside (default true)",
     to_difference<&D::strict_internal_traffic_policy>},
    {"keep-foreign-services", "",
     "Leave virtual services of other programs, also where a Service claims their address; "
     "kube-proxy removes all that ipvs.excludeCIDRs does not name (default true)",
     to_difference<&D::keep_foreign_services>},
    {"in-cluster-clients", "",
     "This node and its pods reach addresses and node ports of "
     "externalTrafficPolicy Local as if it were Cluster, from every node; kube-proxy has them "
     "served by endpoints of this node alone, if it has any (default true)",
     to_difference<&D::in_cluster_clients>},
    {"guard-api-server", "",
     "No Service gets an address of the API server as an external IP or load-balancer address; "
     "kube-proxy binds it, which cuts the node off (default true)",
     to_difference<&D::guard_api_server>},
    {"service-annotations", "",
     "Heed annotations that shape the virtual services of a Service: scheduler, weights, limits "
     "(default true)",
     to_difference<&D::service_annotations>},
    {"mass-removal-brake", "",
     "When more than half of 20 Services or more are missing from a list of the API server, keep "
     "them until a list one ipvs.syncPeriod later lacks them, too; so with EndpointSlices "
     "(default true)",
     to_main<&M::mass_removal_brake>},
});

// Flags of earlier builds. They have no effect, which one warning says; after the first release
// they are unknown.
constexpr auto kRemovedSwitches = std::to_array<std::string_view>(
    {"open-health-check-ports", "lean-loop-back", "short-paths", "growing-sets", "spread-addresses",
     "follow-node-ip", "scheduler-fallback", "unbind-special", "node-ports-on-node-only",
     "ready-wins", "drop-invalid", "drain-sctp", "leave-untracked", "take-over-kube-router"});
constexpr auto kRemovedValues =
    std::to_array<std::string_view>({"ipvs-conn-max", "ipvs-conn-lfactor", "ipvs-svc-lfactor",
                                     "ipvs-est-cpulist", "ipvs-est-nice"});

const auto kCompat = std::to_array<MainFlag>({
    {"kube-proxy-compat", "",
     "Leave the kernel as kube-proxy would: switches off the differences above",
     to_main<&M::compat>},
});

constexpr auto kUsage =
    "Switches may be written --switch=false, and _ for - in every name.\n"
    "SIGTERM and SIGINT end it with status 0 and leave the kernel as it is. With --once, status "
    "0:\n"
    "everything that was asked for is in the kernel; status 1: something is not. --cleanup: status "
    "0 "
    "if nothing of it is left.";

// "--vip_ping=x" -> "--vip-ping=x"; "-v=2" -> "--v=2". In reverse order, as CLI11 expects.
std::vector<std::string> normalised(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  bool flags_end = false;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    flags_end = flags_end || argument == "--";
    if (!flags_end && argument.rfind("-v=", 0) == 0) argument.insert(0, "-");
    if (!flags_end && argument.rfind("--", 0) == 0) {
      const auto name_end = std::min(argument.find('='), argument.size());
      std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(name_end), '_',
                   '-');
    }
    // CLI11 would drop an empty value.
    const bool empty_value = !flags_end && argument.rfind("--", 0) == 0 && argument.size() > 3 &&
                             argument.find('=') == argument.size() - 1;
    if (empty_value) argument.pop_back();
    arguments.push_back(std::move(argument));
    if (empty_value) arguments.emplace_back();
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

std::string long_name(std::string_view name) {
  return fmt::format("--{}", name);
}

std::string short_name(std::string_view name) {
  if (name == "v") return "-v,";
  return name == "output" ? "-o," : "";
}

template <typename Target>
void add_flags(CLI::App& app, const std::string& group,
               std::span<const config::Flag<Target>> flags) {
  for (const auto& flag : flags) {
    const auto name = short_name(flag.name) + long_name(flag.name);
    const std::string help(flag.help);
    auto* option = flag.value.empty() ? app.add_flag(name, help) : app.add_option(name, help);
    if (!flag.value.empty()) option->type_name(std::string(flag.value));
    option->group(group)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
}

// Calls the function for each occurrence of each flag.
template <typename Target>
void for_each_given(
    const CLI::App& app, std::span<const config::Flag<Target>> flags,
    const std::function<void(const config::Flag<Target>&, const std::string&)>& then) {
  for (const auto& flag : flags)
    for (const auto& text : app.get_option(long_name(flag.name))->results()) then(flag, text);
}

// Applies the flags of `app` to `target`; appends mistakes.
template <typename Target>
void set_flags(const CLI::App& app, std::span<const config::Flag<Target>> flags, Target& target,
               std::vector<std::string>& wrong) {
  for_each_given<Target>(app, flags, [&](const auto& flag, const std::string& text) {
    const auto fault = flag.set(text, target);
    if (!fault.empty())
      wrong.push_back(
          fmt::format("invalid argument \"{}\" for \"--{}\" flag: {}", text, flag.name, fault));
  });
}

GivenFlags given(const CLI::App& app, std::span<const config::ConfigFlag> flags) {
  GivenFlags result;
  for_each_given<config::FlagConfig>(app, flags, [&](const auto& flag, const std::string& text) {
    result.push_back(GivenFlag{.name = flag.name, .text = text, .set = flag.set});
  });
  return result;
}

std::array<std::span<const MainFlag>, 3> main_flags() {
  return {kMainFlags, kDifferences, kCompat};
}

// All texts were checked.
void settle_differences(const CLI::App& app, MainFlags& main) {
  if (main.compat) {
    main.differences = plan::kKubeProxyCompat;
    main.mass_removal_brake = false;
  }
  for (const auto& flag : kDifferences) {
    const auto& texts = app.get_option(long_name(flag.name))->results();
    bool is_on = false;
    if (!texts.empty() && config::set_value(texts.back(), is_on).empty() && is_on)
      main.asked_for.push_back(flag.name);
  }
}

std::vector<std::string> removed_flags(const CLI::App& app) {
  std::vector<std::string> given;
  for (const std::span<const std::string_view> names :
       {std::span<const std::string_view>(kRemovedSwitches),
        std::span<const std::string_view>(kRemovedValues)})
    for (const auto name : names)
      if (app.count(long_name(name)) > 0) given.push_back(long_name(name));
  return given;
}

Exit usage_error(const CLI::App& app, const std::string& message) {
  return Exit{.status = 1, .text = fmt::format("{}\nError: {}\n", app.help(), message)};
}

// nullopt: parsed without a reason to exit.
std::optional<Exit> parse(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(normalised(argc, argv));
  } catch (const CLI::CallForHelp&) {
    return Exit{.status = 0, .text = app.help()};
  } catch (const CLI::CallForVersion& version) {
    return Exit{.status = 0, .text = std::string(version.what()) + "\n"};
  } catch (const CLI::ExtrasError&) {
    const auto extra = app.remaining();
    return usage_error(app, fmt::format("unknown flag or argument: {}", fmt::join(extra, " ")));
  } catch (const CLI::Error& error) {
    return usage_error(app, error.what());
  }
  return std::nullopt;
}

}  // namespace

void add_daemon_flags(CLI::App& app) {
  for (const auto& flags : main_flags()) add_flags<MainFlags>(app, "Flags", flags);
  add_flags<config::FlagConfig>(app, "kube-proxy's flags for the log, which win over --config",
                                config::logging_flags());
  add_flags<config::FlagConfig>(app, "kube-proxy's other flags, which are ignored beside --config",
                                config::config_flags());
  for (const auto name : kRemovedSwitches) app.add_flag(long_name(name))->group("");
  for (const auto name : kRemovedValues) app.add_option(long_name(name))->group("");
}

std::variant<CommandLine, Exit> read_command_line(int argc, const char* const* argv) {
  CLI::App app("Programs Services into the kernel's IPVS, in the place of kube-proxy.",
               "ipvs-proxier");
  app.get_formatter()->column_width(44);
  app.set_help_flag("-h,--help", "Print this and exit");
  app.set_version_flag("--version", "ipvs-proxier " IPVS_PROXIER_VERSION,
                       "Print the version and exit");
  app.footer(kUsage);
  add_daemon_flags(app);
  if (auto exit = parse(app, argc, argv)) return *std::move(exit);
  CommandLine line;
  std::vector<std::string> wrong;
  for (const auto& flags : main_flags()) set_flags<MainFlags>(app, flags, line.main, wrong);
  if (wrong.empty()) settle_differences(app, line.main);
  config::FlagConfig judged;
  set_flags<config::FlagConfig>(app, config::logging_flags(), judged, wrong);
  set_flags<config::FlagConfig>(app, config::config_flags(), judged, wrong);
  if (!wrong.empty()) return usage_error(app, wrong.front());
  line.config = given(app, config::config_flags());
  line.logging = given(app, config::logging_flags());
  line.removed = removed_flags(app);
  return line;
}

}  // namespace ipvsproxier::cmd
