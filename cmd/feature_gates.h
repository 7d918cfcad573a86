#pragma once

// The feature gates of Kubernetes 1.36 that concern a proxy. Pure.

#include <array>
#include <map>
#include <string>
#include <string_view>

namespace ipvsproxier::cmd {

struct FeatureGate {
  std::string_view name;
  bool enabled = false;  // by default
  bool locked = false;   // the other value is an error
};

inline constexpr std::array<FeatureGate, 11> kFeatureGates = {{
    {"AllAlpha", false, false},
    {"AllBeta", false, false},
    {"AllowServiceExternalIPs", true, false},
    {"ComponentFlagz", true, false},
    {"ComponentStatusz", true, false},
    {"ContextualLogging", true, false},
    {"LoggingAlphaOptions", false, false},
    {"LoggingBetaOptions", true, false},
    {"MultiCIDRServiceAllocator", true, true},
    {"NativeHistograms", false, false},
    {"PreferSameTrafficDistribution", true, true},
}};

// nullptr: unknown.
const FeatureGate* find_feature_gate(std::string_view name);

// As set, else the gate's default; false for an unknown gate that is not set.
bool feature_enabled(const std::map<std::string, bool>& set, std::string_view name);

}  // namespace ipvsproxier::cmd
