#pragma once

// Where the credentials come from: the kubeconfig, the pod that we run in, or --master alone. Plain
// file I/O on the caller's thread, at start-up. The environment's KUBECONFIG is not read, as
// kube-proxy does not.

#include <string>

#include "proxier/watch/cluster_access.h"
#include "proxier/watch/kubeconfig.h"

namespace ipvsproxier::watch {

// What a pod is told: environment and mounted files.
struct PodPlace {
  std::string host;  // KUBERNETES_SERVICE_HOST; "": we are in no pod
  std::string port;  // KUBERNETES_SERVICE_PORT
  std::string folder = "/var/run/secrets/kubernetes.io/serviceaccount";  // of token and ca.crt

  static PodPlace from_environment();
};

// kube-proxy's rule: the kubeconfig, with `master` in its server's place; `master` alone is that
// server with no credentials and the system's authorities; the pod's when both are empty. Each file
// that is named must be readable and make sense now.
AccessChoice choose_access(const std::string& kubeconfig, const std::string& master,
                           const PodPlace& pod);

// "ipvs-proxier/0.1.0 (linux/amd64)"
std::string default_user_agent();

}  // namespace ipvsproxier::watch
