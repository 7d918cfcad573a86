#pragma once

// kube-proxy's flags that are fields of its configuration. Pure.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "proxier/config/config_flag.h"

namespace ipvsproxier::config {

// The values that these flags set. Without flags it is kube-proxy's configuration without a file: a
// minimum sync period of 1 s, while a file without that field means 0 s.
struct FlagConfig {
  FlagConfig() { config.ipvs.min_sync_period = std::chrono::seconds(1); }
  explicit FlagConfig(KubeProxyConfig of_a_file) : config(std::move(of_a_file)) {}

  KubeProxyConfig config;
  std::int32_t healthz_port = kHealthzPort;
  std::int32_t metrics_port = kMetricsPort;
  std::vector<VModule> vmodule;  // precedes the file's
};

using ConfigFlag = Flag<FlagConfig>;

// Ignored with --config.
std::span<const ConfigFlag> config_flags();
// They override a file.
std::span<const ConfigFlag> logging_flags();

// The configuration, after all flags were applied.
KubeProxyConfig take_config(FlagConfig flags);

}  // namespace ipvsproxier::config
