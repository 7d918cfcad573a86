#pragma once

// What kubeadm gives kube-proxy.

#include <fstream>
#include <iterator>
#include <string>

namespace ipvsproxier::test {

// config.conf of the ConfigMap kube-proxy that `kubeadm init` leaves, with mode ipvs and a cluster
// CIDR: every field, most of them empty or null.
inline const std::string kKubeadmConfig = [] {
  std::ifstream file(TEST_DATA "/data/kubeadm_config.yaml");
  return std::string(std::istreambuf_iterator<char>(file), {});
}();

}  // namespace ipvsproxier::test
