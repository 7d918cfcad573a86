#pragma once

// The feature gates of Kubernetes 1.36 that concern a proxy. Pure.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "proxier/api/problem.h"

namespace ipvsproxier::cmd {

enum class GateStage : std::uint8_t { stable, beta, alpha };

struct FeatureGate {
  std::string_view name;
  bool enabled = false;  // by default
  bool locked = false;   // the other value is an error
  GateStage stage = GateStage::stable;
};

inline constexpr std::array<FeatureGate, 11> kFeatureGates = {{
    {"AllAlpha", false, false},
    {"AllBeta", false, false},
    {"AllowServiceExternalIPs", true, false},
    {"ComponentFlagz", true, false, GateStage::beta},
    {"ComponentStatusz", true, false, GateStage::beta},
    {"ContextualLogging", true, false, GateStage::beta},
    {"LoggingAlphaOptions", false, false, GateStage::alpha},
    {"LoggingBetaOptions", true, false, GateStage::beta},
    {"MultiCIDRServiceAllocator", true, true},
    {"NativeHistograms", false, false, GateStage::alpha},
    {"PreferSameTrafficDistribution", true, true},
}};

// nullptr: unknown.
const FeatureGate* find_feature_gate(std::string_view name);

// Unknown gates are a warning and are ignored, a locked one with its other value is an error.
api::Problems check_feature_gates(const std::map<std::string, bool>& set,
                                  const std::string& origin);

// As set, else as AllAlpha or AllBeta is set for gates of its stage, else the gate's default; false
// for an unknown gate that is not set.
bool feature_enabled(const std::map<std::string, bool>& set, std::string_view name);

}  // namespace ipvsproxier::cmd
