#pragma once

// What the metrics server (10249) answers, by path:
//   /metrics       Prometheus text
//   /healthz       "ok" for as long as the process answers; ?verbose lists the one check; it says
//   /healthz/ping  nothing of the proxy's health, as in kube-proxy
//   /proxyMode     "ipvs"
//   /configz       the configuration in force, as JSON
// and 404 for the rest, which kube-proxy has: /metrics/slis, /flagz, /statusz describe Kubernetes
// components' own library, /debug/pprof a Go runtime.

#include <functional>
#include <string>

#include "proxier/serve/http.h"
#include "proxier/serve/metrics.h"
#include "proxier/serve/status.h"

namespace ipvsproxier::serve {

// `metrics` and `status` outlive the handler. `configz` is the whole body:
// {"kubeproxy.config.k8s.io":{...}}.
HttpHandler metrics_routes(const Metrics& metrics, const Status& status, std::string configz);

}  // namespace ipvsproxier::serve
