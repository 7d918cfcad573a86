#include "cmd/effective_config.h"

#include <utility>

#include "proxier/api/json_text.h"
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
    result.config.hostname_override = config::to_lower(config::trim(overrides.hostname_override));
  if (overrides.ignore_mode) ignore_mode(result, origin);
  auto invalid = config::to_problems(config::validate(result.config), origin);
  result.problems.insert(result.problems.end(), invalid.begin(), invalid.end());
  return result;
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

}  // namespace ipvsproxier::cmd
