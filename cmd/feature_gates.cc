#include "cmd/feature_gates.h"

#include <algorithm>

namespace ipvsproxier::cmd {

const FeatureGate* find_feature_gate(std::string_view name) {
  const auto* gate = std::find_if(kFeatureGates.begin(), kFeatureGates.end(),
                                  [name](const FeatureGate& known) { return known.name == name; });
  return gate == kFeatureGates.end() ? nullptr : gate;
}

bool feature_enabled(const std::map<std::string, bool>& set, std::string_view name) {
  const auto found = set.find(std::string(name));
  if (found != set.end()) return found->second;
  const auto* gate = find_feature_gate(name);
  return gate != nullptr && gate->enabled;
}

}  // namespace ipvsproxier::cmd
