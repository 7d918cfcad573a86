#pragma once

// The paths of the metrics server (10249):
//   /metrics       Prometheus text
//   /healthz       "ok" as long as the process answers; ?verbose lists its one check, "ping".
//   /healthz/ping  Both say nothing about the proxy's health, as in kube-proxy.
//   /proxyMode     "ipvs"
//   /configz       the configuration in use, as JSON
// Other paths are 404, also those that only kube-proxy has: /metrics/slis, /flagz and /statusz
// belong to Kubernetes' component library, /debug/pprof to the Go runtime.

#include <functional>
#include <string>

#include "proxier/serve/http.h"
#include "proxier/serve/metrics.h"
#include "proxier/serve/service_figures.h"
#include "proxier/serve/status.h"

namespace ipvsproxier::serve {

// `metrics`, `status` and `figures` must outlive the handler. `configz` is the whole body:
// {"kubeproxy.config.k8s.io":{...}}. `figures`: nullptr without traffic figures of Services; with
// them /metrics may wait for the sync thread, so that the server must have nothing else to answer.
HttpHandler metrics_routes(const Metrics& metrics, const Status& status, std::string configz,
                           FiguresDesk* figures = nullptr);

}  // namespace ipvsproxier::serve
