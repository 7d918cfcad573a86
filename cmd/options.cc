#include "cmd/options.h"

#include <unistd.h>
#include <climits>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cmd/config_file.h"
#include "cmd/config_validation.h"
#include "cmd/go_duration.h"
#include "cmd/text.h"

namespace ipvsproxier::cmd {

namespace {

struct Flags {
  std::string manifests;
  bool once = false;
  std::string config_file;
  std::string hostname_override;
  bool hostname_given = false;
  std::optional<std::uint32_t> verbosity;
  std::string drain_timeout = "0s";
  bool compat = false;
  bool vip_ping = false;
  bool vip_ping_given = false;
};

// "--vip_ping=x" -> "--vip-ping=x"; "-v=2" -> "--v=2". CLI11 reads arguments from the back.
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

void add_flags(CLI::App& app, Flags& flags) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_help_flag("-h,--help", "Print this and exit");
  app.set_version_flag("--version", "ipvs-proxier " IPVS_PROXIER_VERSION,
                       "Print the version and exit");
  app.add_option("--manifests", flags.manifests,
                 "File or folder of Services, EndpointSlices and Nodes (YAML or JSON)")
      ->type_name("PATH");
  app.add_flag("--once", flags.once, "Program the kernel once and exit, instead of following");
  app.add_option("--config", flags.config_file, "KubeProxyConfiguration file (YAML or JSON)")
      ->type_name("FILE");
  app.add_option("--hostname-override", flags.hostname_override,
                 "Name of this node, instead of the configuration's or the machine's")
      ->type_name("NAME");
  app.add_option("--drain-timeout", flags.drain_timeout,
                 "Cut the connections of a leaving endpoint after so long; 0s: never (default 0s)")
      ->type_name("DURATION");
  // CLI11 would take an empty value for an absent one.
  app.add_option("-v,--v", flags.verbosity, "Log verbosity")
      ->type_name("N")
      ->check([](const std::string& text) { return std::string(text.empty() ? "is empty" : ""); });
  app.add_flag("--vip-ping", flags.vip_ping,
               "Answer pings to service addresses; kube-proxy rejects them (default true)");
  app.add_flag("--kube-proxy-compat", flags.compat,
               "Do everything kube-proxy's way: switches off --vip-ping");
  app.footer(
      "Boolean flags may be written --flag=false. Flags also count beside --config.\n"
      "SIGTERM and SIGINT end it with status 0 and leave the kernel as it is. With --once, status "
      "0:\n"
      "everything that was asked for is in the kernel; status 1: something is not.");
}

Exit failure(const std::string& message) {
  return Exit{.status = 1,
              .text = fmt::format("Error: {}\nipvs-proxier --help lists the flags.\n", message)};
}

std::string list_problems(const api::Problems& problems) {
  std::string text;
  for (const auto& problem : problems)
    text += fmt::format("{}: {}\n", problem.severity == api::Severity::error ? "Error" : "Warning",
                        api::to_string(problem));
  return text;
}

// nullopt: the flags are read.
std::optional<Exit> read_flags(int argc, const char* const* argv, Flags& flags) {
  CLI::App app("Programs Services into the kernel's IPVS, in the place of kube-proxy.",
               "ipvs-proxier");
  add_flags(app, flags);
  try {
    app.parse(normalised(argc, argv));
  } catch (const CLI::CallForHelp&) {
    return Exit{.status = 0, .text = app.help()};
  } catch (const CLI::CallForVersion& version) {
    return Exit{.status = 0, .text = std::string(version.what()) + "\n"};
  } catch (const CLI::ExtrasError&) {
    const auto extra = app.remaining();
    return failure(fmt::format("unknown flag or argument: {}", fmt::join(extra, " ")));
  } catch (const CLI::Error& error) {
    return failure(error.what());
  }
  flags.vip_ping_given = app.count("--vip-ping") > 0;
  flags.hostname_given = !flags.hostname_override.empty();
  return std::nullopt;
}

// What is wrong with the combination of flags; "" when nothing is.
std::string contradiction(const Flags& flags) {
  if (flags.manifests.empty())
    return "--manifests PATH is needed: reading from an API server is not built yet";
  const auto drain_timeout = parse_go_duration(flags.drain_timeout);
  if (!drain_timeout || *drain_timeout < Nanoseconds::zero())
    return fmt::format("--drain-timeout: \"{}\" is not a duration such as 30s or 5m",
                       flags.drain_timeout);
  if (flags.hostname_given && trim(flags.hostname_override).empty())
    return "--hostname-override must not be blank";
  if (flags.compat && flags.vip_ping)
    return "--vip-ping=true contradicts --kube-proxy-compat, which switches it off";
  return "";
}

Differences differences_of(const Flags& flags) {
  Differences differences = flags.compat ? kKubeProxyCompat : Differences{};
  if (flags.vip_ping_given) differences.vip_ping = flags.vip_ping;
  return differences;
}

}  // namespace

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (gethostname(name.data(), name.size()) != 0) return "";
  name.back() = '\0';
  return name.data();
}

std::optional<std::string> resolve_node_name(const std::string& override_name,
                                             const KubeProxyConfig& config,
                                             const std::string& machine_name) {
  const std::string& chosen = !override_name.empty()              ? override_name
                              : !config.hostname_override.empty() ? config.hostname_override
                                                                  : machine_name;
  auto name = to_lower(trim(chosen));
  if (name.empty()) return std::nullopt;
  return name;
}

std::variant<Options, Exit> parse_options(int argc, const char* const* argv,
                                          const std::string& machine_name) {
  Flags flags;
  if (auto exit = read_flags(argc, argv, flags)) return *std::move(exit);
  if (const auto wrong = contradiction(flags); !wrong.empty()) return failure(wrong);
  Options options;
  options.manifests = flags.manifests;
  options.once = flags.once;
  const auto drain_timeout = parse_go_duration(flags.drain_timeout).value_or(Nanoseconds::zero());
  if (drain_timeout > Nanoseconds::zero()) options.drain_timeout = drain_timeout;
  options.config_file = flags.config_file;
  options.differences = differences_of(flags);
  if (!flags.config_file.empty()) {
    options.config = load_config_file(flags.config_file, options.warnings);
    const auto invalid = to_problems(validate(options.config), flags.config_file);
    options.warnings.insert(options.warnings.end(), invalid.begin(), invalid.end());
    if (api::has_error(options.warnings))
      return Exit{.status = 1, .text = list_problems(options.warnings)};
  }
  options.verbosity = flags.verbosity.value_or(options.config.logging.verbosity);
  auto name = resolve_node_name(flags.hostname_override, options.config, machine_name);
  if (!name)
    return failure(
        "the node has no name: the machine's or the configuration's is blank; "
        "use --hostname-override");
  options.node_name = *std::move(name);
  return options;
}

}  // namespace ipvsproxier::cmd
