#include "proxier/config/feature_gates.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::config {

const FeatureGate* find_feature_gate(std::string_view name) {
  const auto* gate = std::find_if(kFeatureGates.begin(), kFeatureGates.end(),
                                  [name](const FeatureGate& known) { return known.name == name; });
  return gate == kFeatureGates.end() ? nullptr : gate;
}

api::Problems check_feature_gates(const std::map<std::string, bool>& set,
                                  const std::string& origin) {
  api::Problems problems;
  for (const auto& [name, enabled] : set) {
    const auto* gate = find_feature_gate(name);
    api::Problem problem{.origin = origin, .field = "featureGates." + name};
    if (gate == nullptr) {
      problem.severity = api::Severity::warning;
      problem.message = kUnknownGate;
    } else if (gate->locked && enabled != gate->enabled) {
      problem.message =
          fmt::format("cannot be set to {}, it is locked to {}", enabled, gate->enabled);
    } else {
      continue;
    }
    problems.push_back(std::move(problem));
  }
  return problems;
}

bool feature_enabled(const std::map<std::string, bool>& set, std::string_view name) {
  if (const auto found = set.find(std::string(name)); found != set.end()) return found->second;
  const auto* gate = find_feature_gate(name);
  if (gate == nullptr) return false;
  if (gate->stage != GateStage::stable) {
    const auto all = set.find(gate->stage == GateStage::alpha ? "AllAlpha" : "AllBeta");
    if (all != set.end()) return all->second;
  }
  return gate->enabled;
}

}  // namespace ipvsproxier::config
