#pragma once

// Who we are and where the API server is: from a kubeconfig, from the pod that we run in, or from
// --master alone. Values with plain file I/O on the caller's thread at start-up.
//
// Of the kubeconfig the current context counts. What is not supported, or makes no sense, is an
// error that says what to do; nothing that would weaken a connection is ever skipped silently.
// The environment's KUBECONFIG is not read, as kube-proxy does not.

#include <optional>
#include <string>
#include <string_view>

#include "proxier/api/problem.h"
#include "proxier/watch/cluster_access.h"

namespace ipvsproxier::watch {

struct AccessChoice {
  std::optional<AccessSource> source;  // none: the problems say why
  api::Problems problems;
};

// Text that was read from `path`; reads no file, relative paths in it are made those of `path`'s
// folder. `master` replaces the server and drops tls-server-name, which was the other's; "": none.
AccessChoice read_kubeconfig_text(std::string_view text, const std::string& path,
                                  const std::string& master);

// What a pod is told: environment and mounted files.
struct PodPlace {
  std::string host;  // KUBERNETES_SERVICE_HOST; "": we are in no pod
  std::string port;  // KUBERNETES_SERVICE_PORT
  std::string folder = "/var/run/secrets/kubernetes.io/serviceaccount";  // files token and ca.crt

  static PodPlace from_environment();
};

AccessChoice in_cluster_access(const PodPlace& pod);

// kube-proxy's rule: the kubeconfig, with `master` in its server's place; --master alone is that
// server with no credentials and the system's authorities; in-cluster when both are empty. Every
// file that it names must be readable and make sense now.
AccessChoice choose_access(const std::string& kubeconfig, const std::string& master,
                           const PodPlace& pod);

// "ipvs-proxier/0.1.0 (linux/amd64)"
std::string default_user_agent();

}  // namespace ipvsproxier::watch
