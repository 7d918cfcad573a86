#pragma once

// /healthz and /livez with kube-proxy's bodies, for load balancers in front of the nodes and for
// kubelet. Handlers run on the HTTP server's thread.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "proxier/serve/http.h"
#include "proxier/serve/metrics.h"
#include "proxier/serve/status.h"

namespace ipvsproxier::serve {

// A time in Go's JSON format: RFC 3339 in the local zone, with as many fractional digits as needed
// ("2026-01-02T03:04:05.678901234Z"). nullopt gives Go's zero time, in the year 1.
std::string go_time(std::optional<std::chrono::system_clock::time_point> time);

// 200 if traffic may come to this node: all families are healthy, the Node is eligible, and, if
// that is configured, the watches are fresh. The body's "healthy" is that of the families.
HttpResponse healthz(const Health& health);

// The reasons why /healthz is not 200, in words; empty if it is.
std::vector<std::string> reasons_not_ready(const Health& health);

// 200 if both threads make progress. The body reports the families as healthy if the sync thread
// does.
HttpResponse livez(const Health& health, const Liveness& liveness);

// Both handlers, with counters. `status` and `metrics` must outlive the handler.
HttpHandler health_routes(const Status& status, Metrics& metrics);

}  // namespace ipvsproxier::serve
