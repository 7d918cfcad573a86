#pragma once

// A configuration as kube-proxy shows it: its file's fields and names, durations as Go writes them,
// and of the sections of proxy modes only ipvs with its periods. Pure, but for write_config_file().

#include <string>

#include "cmd/kube_proxy_config.h"

namespace ipvsproxier::cmd {

// The body of /configz: {"kubeproxy.config.k8s.io":{"kind":...,...}}.
std::string config_json(const KubeProxyConfig& config);

// The same object as a file for --config, keys in their order by name.
std::string config_yaml(const KubeProxyConfig& config);

// Writes that file, over what is there. What went wrong, or "". Blocks.
std::string write_config_file(const std::string& path, const KubeProxyConfig& config);

}  // namespace ipvsproxier::cmd
