#pragma once

// What kubeadm gives kube-proxy.

#include <string>

#include "test/support/files.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {

// config.conf of the ConfigMap kube-proxy that `kubeadm init` leaves, with mode ipvs and a cluster
// CIDR: every field, most of them empty or null.
inline const std::string kKubeadmConfig = read_file(data_path("data/kubeadm_config.yaml"));

}  // namespace ipvsproxier::test
