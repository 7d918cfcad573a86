#include "cmd/effective_config.h"

#include <utility>

#include "cmd/config_file.h"
#include "cmd/config_validation.h"
#include "cmd/feature_gates.h"
#include "cmd/text.h"

namespace ipvsproxier::cmd {

namespace {

// The texts are sound: read_command_line() has tried them.
void set_all(const GivenFlags& flags, FlagConfig& target) {
  for (const auto& flag : flags) static_cast<void>(flag.set(flag.text, target));
}

EffectiveConfig finish(FlagConfig flags, const ConfigOverrides& overrides, api::Problems problems,
                       const std::string& origin) {
  set_all(overrides.logging, flags);
  EffectiveConfig result{.config = take_config(std::move(flags)), .problems = std::move(problems)};
  if (!overrides.hostname_override.empty())
    result.config.hostname_override = to_lower(trim(overrides.hostname_override));
  const auto invalid = validate(result.config);
  if (!invalid.empty()) result.problems.push_back(to_problem(invalid, origin));
  return result;
}

}  // namespace

EffectiveConfig config_of_flags(const GivenFlags& flags, const ConfigOverrides& overrides) {
  FlagConfig config;
  set_all(flags, config);
  auto problems = check_feature_gates(config.config.feature_gates, "");
  return finish(std::move(config), overrides, std::move(problems), "");
}

EffectiveConfig config_of_file(std::string_view text, const std::string& origin,
                               const ConfigOverrides& overrides) {
  api::Problems problems;
  auto config = read_config_text(text, origin, problems);
  return finish(FlagConfig(std::move(config)), overrides, std::move(problems), origin);
}

}  // namespace ipvsproxier::cmd
