#pragma once

// Prints a configuration as kube-proxy does: the file's fields and names, durations in Go's form,
// and of the sections for proxy modes only ipvs with its periods. Pure, except write_config_file().

#include <string>

#include "proxier/api/document_writer.h"
#include "proxier/config/kube_proxy_config.h"

namespace ipvsproxier::config {

// The body of /configz: {"kubeproxy.config.k8s.io":{"kind":...,...}}.
std::string config_json(const KubeProxyConfig& config);

// The inner object, with keys sorted by name.
void write_sorted_config(api::DocumentWriter& out, const KubeProxyConfig& config);

// The same object as YAML for --config, with keys sorted by name.
std::string config_yaml(const KubeProxyConfig& config);

// Writes that file, replacing an existing one. Returns a description of the failure, or "". Blocks.
std::string write_config_file(const std::string& path, const KubeProxyConfig& config);

}  // namespace ipvsproxier::config
