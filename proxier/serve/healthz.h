#pragma once

// /healthz and /livez, with kube-proxy's bodies: what load balancers in front of the nodes and the
// kubelet ask. Handlers run on the HTTP server's thread.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "proxier/serve/http.h"
#include "proxier/serve/metrics.h"
#include "proxier/serve/status.h"

namespace ipvsproxier::serve {

// A moment as Go writes it into JSON: RFC 3339 in the local zone, with as many digits of a second
// as it has ("2026-01-02T03:04:05.678901234Z"); nullopt is Go's zero time, in the year 1.
std::string go_time(std::optional<std::chrono::system_clock::time_point> time);

// 200 when traffic may come here: all families are healthy, the Node is eligible, and the watches
// are fresh if that was asked for. The body's "healthy" is that of the families.
HttpResponse healthz(const Health& health);

// Why /healthz is not 200, in words; empty: it is.
std::vector<std::string> reasons_not_ready(const Health& health);

// 200 when both threads move. The body's families are as healthy as the thread that syncs them.
HttpResponse livez(const Health& health, const Liveness& liveness);

// Both, counted. `status` and `metrics` outlive the handler.
HttpHandler health_routes(const Status& status, Metrics& metrics);

}  // namespace ipvsproxier::serve
