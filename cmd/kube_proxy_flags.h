#pragma once

// kube-proxy's flags that are fields of its configuration. Pure.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cmd/flag.h"

namespace ipvsproxier::cmd {

// What these flags set. Without any it is what kube-proxy runs with when it has no file: a minimum
// sync period of 1 s, where a file that does not mention it means 0 s.
struct FlagConfig {
  FlagConfig() { config.ipvs.min_sync_period = std::chrono::seconds(1); }
  explicit FlagConfig(KubeProxyConfig of_a_file) : config(std::move(of_a_file)) {}

  KubeProxyConfig config;
  std::int32_t healthz_port = kHealthzPort;
  std::int32_t metrics_port = kMetricsPort;
  std::vector<VModule> vmodule;  // comes before the file's
};

using ConfigFlag = Flag<FlagConfig>;

// Ignored beside --config.
std::span<const ConfigFlag> config_flags();
// They win over a file.
std::span<const ConfigFlag> logging_flags();

// The configuration, once every flag was set.
KubeProxyConfig take_config(FlagConfig flags);

}  // namespace ipvsproxier::cmd
