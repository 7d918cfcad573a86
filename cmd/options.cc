#include "cmd/options.h"

#include <unistd.h>
#include <climits>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "netlink/text.h"
#include "proxier/api/document_writer.h"
#include "proxier/api/text_file.h"
#include "proxier/config/config_file.h"
#include "proxier/config/config_validation.h"
#include "proxier/config/feature_gates.h"
#include "proxier/config/text.h"

namespace ipvsproxier::cmd {

namespace {

// The texts are valid: read_command_line() has checked them.
void set_all(const GivenFlags& flags, config::FlagConfig& target) {
  for (const auto& flag : flags) static_cast<void>(flag.set(flag.text, target));
}

void ignore_mode(EffectiveConfig& effective, const std::string& origin) {
  auto& mode = effective.config.mode;
  if (mode.empty() || mode == "ipvs") return;
  effective.problems.push_back(api::Problem{
      .severity = api::Severity::warning,
      .origin = origin,
      .field = origin.empty() ? "" : "mode",
      .message = "is " + api::json_quoted(mode) + "; --ignore-mode: this program only does ipvs"});
  mode = "ipvs";
}

EffectiveConfig finish(config::FlagConfig flags, const ConfigOverrides& overrides,
                       api::Problems problems, const std::string& origin) {
  set_all(overrides.logging, flags);
  EffectiveConfig result{.config = config::take_config(std::move(flags)),
                         .problems = std::move(problems)};
  if (!overrides.hostname_override.empty())
    result.config.hostname_override =
        config::to_lower(netlink::trimmed(overrides.hostname_override));
  if (overrides.ignore_mode) ignore_mode(result, origin);
  auto invalid = config::to_problems(config::validate(result.config), origin);
  result.problems.insert(result.problems.end(), invalid.begin(), invalid.end());
  return result;
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

// The last value given.
std::string kubeconfig_flag(const CommandLine& line) {
  std::string value;
  for (const auto& flag : line.config)
    if (flag.name == "kubeconfig") value = flag.text;
  return value;
}

bool asks_for(const MainFlags& main, std::string_view flag) {
  return std::find(main.asked_for.begin(), main.asked_for.end(), flag) != main.asked_for.end();
}

// A description of contradicting flags, or "".
std::string contradiction(const CommandLine& line) {
  const MainFlags& main = line.main;
  if (!main.manifests.empty()) {
    const auto refuse = [](std::string_view flag) {
      return fmt::format(
          "--manifests contradicts --{}: objects come from files or from an API server, not both",
          flag);
    };
    if (!main.master.empty()) return refuse("master");
    if (!kubeconfig_flag(line).empty()) return refuse("kubeconfig");
    if (main.healthz_max_watch_age) return refuse("healthz-max-watch-age");
    if (asks_for(main, "mass-removal-brake")) return refuse("mass-removal-brake");
  }
  if (main.cleanup && (main.once || main.init_only))
    return fmt::format("--cleanup contradicts --{}: it removes and ends",
                       main.once ? "once" : "init-only");
  if (main.check)
    for (const auto& [given, flag] :
         {std::pair(main.cleanup, "cleanup"), std::pair(main.once, "once"),
          std::pair(main.init_only, "init-only"),
          std::pair(!main.write_config_to.empty(), "write-config-to")})
      if (given) return fmt::format("--check contradicts --{}: it looks and ends", flag);
  if (main.json && !main.check) return "--output goes with --check alone";
  if (main.once && main.manifests.empty() && !main.init_only && main.write_config_to.empty())
    return "--once needs --manifests: an API server is followed";
  if (main.once && main.init_only) return "--once contradicts --init-only, which programs nothing";
  if (!main.hostname_override.empty() && netlink::trimmed(main.hostname_override).empty())
    return "--hostname-override must not be blank";
  if (main.compat && main.bind_by_routes)
    return "--vip-binding=route contradicts --kube-proxy-compat: kube-proxy binds addresses";
  if (main.compat && main.scheduler_flags)
    return "--scheduler-flags contradicts --kube-proxy-compat: kube-proxy has its own";
  if (main.compat && main.max_connections != model::Thresholds())
    return "--max-connections contradicts --kube-proxy-compat: kube-proxy has no such limit";
  if (main.service_metrics == model::ServiceMetrics::annotated &&
      !main.differences.service_annotations)
    return fmt::format("--service-metrics=annotated contradicts --{}: no annotation counts",
                       main.compat ? "kube-proxy-compat" : "service-annotations=false");
  if (main.compat && !main.asked_for.empty())
    return fmt::format("--{}=true contradicts --kube-proxy-compat, which switches it off",
                       main.asked_for.front());
  return "";
}

// One warning with the flags that are ignored because of the file.
void tell_ignored(const CommandLine& line, api::Problems& warnings) {
  std::set<std::string> names;
  for (const auto& flag : line.config) names.insert(fmt::format("--{}", flag.name));
  if (names.empty()) return;
  warnings.push_back(api::Problem{
      .severity = api::Severity::warning,
      .message =
          fmt::format("beside --config these flags are ignored: {}", fmt::join(names, ", "))});
}

void warn_of_removed(const CommandLine& line, api::Problems& warnings) {
  if (line.removed.empty()) return;
  warnings.push_back(api::Problem{
      .severity = api::Severity::warning,
      .message = fmt::format("these flags were removed and have no effect: {}; ipvs-proxier(8) "
                             "says what to use instead",
                             fmt::join(line.removed, ", "))});
}

EffectiveConfig effective_config(const CommandLine& line, const ConfigOverrides& overrides,
                                 const std::optional<std::string>& config_text) {
  const auto& file = line.main.config_file;
  if (config_text) return config_of_file(*config_text, file, overrides);
  if (file.empty()) return config_of_flags(line.config, overrides);
  EffectiveConfig unreadable;
  const auto text = api::read_text_file(file, unreadable.problems);
  if (!text) return unreadable;
  auto effective = config_of_file(*text, file, overrides);
  tell_ignored(line, effective.problems);
  return effective;
}

}  // namespace

EffectiveConfig config_of_flags(const GivenFlags& flags, const ConfigOverrides& overrides) {
  config::FlagConfig config;
  set_all(flags, config);
  auto problems = config::check_feature_gates(config.config.feature_gates, "");
  return finish(std::move(config), overrides, std::move(problems), "");
}

EffectiveConfig config_of_file(std::string_view text, const std::string& origin,
                               const ConfigOverrides& overrides) {
  api::Problems problems;
  auto config = config::read_config_text(text, origin, problems);
  return finish(config::FlagConfig(std::move(config)), overrides, std::move(problems), origin);
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (gethostname(name.data(), name.size()) != 0) return "";
  name.back() = '\0';
  return name.data();
}

std::optional<std::string> resolve_node_name(const config::KubeProxyConfig& config,
                                             const std::string& machine_name) {
  auto name = config::to_lower(
      netlink::trimmed(config.hostname_override.empty() ? machine_name : config.hostname_override));
  if (name.empty()) return std::nullopt;
  return name;
}

std::variant<Options, Exit> parse_options(int argc, const char* const* argv,
                                          const std::string& machine_name,
                                          const std::optional<std::string>& config_text) {
  auto read = read_command_line(argc, argv);
  if (auto* exit = std::get_if<Exit>(&read)) return std::move(*exit);
  const auto& line = std::get<CommandLine>(read);
  if (const auto wrong = contradiction(line); !wrong.empty()) return failure(wrong);
  Options options{line.main};
  options.flags.assign(argv + 1, argv + argc);
  options.overrides = ConfigOverrides{.hostname_override = line.main.hostname_override,
                                      .logging = line.logging,
                                      .ignore_mode = line.main.ignore_mode};
  auto effective = effective_config(line, options.overrides, config_text);
  if (api::has_error(effective.problems))
    return Exit{.status = 1, .text = list_problems(effective.problems)};
  options.config = std::move(effective.config);
  if (options.compat && config::node_port_addresses(options.config).localhost)
    return failure(
        "nodePortAddresses: localhost contradicts --kube-proxy-compat: kube-proxy 1.36 does not "
        "know the word, and serves no node port on localhost in this mode");
  options.warnings = std::move(effective.problems);
  warn_of_removed(line, options.warnings);
  if (options.service_metrics != model::ServiceMetrics::off && !options.ipvs_estimators)
    options.warnings.push_back(api::Problem{
        .severity = api::Severity::warning,
        .message = "beside --ipvs-estimators=false a kernel older than 6.2 counts nothing that "
                   "--service-metrics could tell"});
  auto name = resolve_node_name(options.config, machine_name);
  if (!name)
    return failure(
        "the node has no name: the machine's or the configuration's is blank; "
        "use --hostname-override");
  options.node_name = *std::move(name);
  return options;
}

}  // namespace ipvsproxier::cmd
