#pragma once

// Chooses the source of the credentials: the kubeconfig, the pod's service account, or --master
// alone. Plain file I/O on the caller's thread, at start. KUBECONFIG in the environment is not
// read, as in kube-proxy.

#include <string>

#include "proxier/access/cluster_access.h"
#include "proxier/access/kubeconfig.h"

namespace ipvsproxier::access {

// What Kubernetes gives to a pod: environment variables and mounted files.
struct PodPlace {
  std::string host;  // KUBERNETES_SERVICE_HOST; "": not in a pod
  std::string port;  // KUBERNETES_SERVICE_PORT
  std::string folder = "/var/run/secrets/kubernetes.io/serviceaccount";  // holds token and ca.crt

  static PodPlace from_environment();
};

// kube-proxy's rule: a kubeconfig, with `master` in place of its server; `master` alone means that
// server without credentials and with the system's certificate authorities; if both are empty, the
// pod's service account. Every named file must be readable and valid now.
AccessChoice choose_access(const std::string& kubeconfig, const std::string& master,
                           const PodPlace& pod);

// "ipvs-proxier/0.1.0 (linux/amd64)"
std::string default_user_agent();

}  // namespace ipvsproxier::access
