#pragma once

// The feature gates of Kubernetes 1.36 that concern a proxy. Pure.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "proxier/api/problem.h"

namespace ipvsproxier::config {

enum class GateStage : std::uint8_t { stable, beta, alpha };

struct FeatureGate {
  std::string_view name;
  bool enabled = false;  // default value
  bool locked = false;   // changing it is an error
  GateStage stage = GateStage::stable;
};

// Of a gate that is not among them.
inline constexpr std::string_view kUnknownGate = "unknown feature gate; it is ignored";

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

// nullptr: unknown gate.
const FeatureGate* find_feature_gate(std::string_view name);

// An unknown gate is a warning and ignored; a changed locked one is an error.
api::Problems check_feature_gates(const std::map<std::string, bool>& set,
                                  const std::string& origin);

// The gate's set value, else the set value of AllAlpha or AllBeta if the gate has that stage, else
// its default; false for an unknown gate that is not set.
bool feature_enabled(const std::map<std::string, bool>& set, std::string_view name);

}  // namespace ipvsproxier::config
