#include "proxier/serve/metrics_server.h"

#include <utility>

namespace ipvsproxier::serve {

namespace {

HttpHandler always(HttpResponse response) {
  return [response = std::move(response)](const HttpRequest&) { return response; };
}

HttpResponse ping(const HttpRequest& request) {
  return plain_text(
      200, request.query.contains("verbose") ? "[+]ping ok\nhealthz check passed\n" : "ok");
}

}  // namespace

HttpHandler metrics_routes(const Metrics& metrics, const Status& status, std::string configz,
                           FiguresDesk* figures) {
  return routes({{"/metrics",
                  [&metrics, &status, figures](const HttpRequest&) {
                    auto body = figures == nullptr ? metrics.exposition(status)
                                                   : metrics.exposition(status, figures->text());
                    return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                                        .body = std::move(body)};
                  }},
                 {"/healthz", ping},
                 {"/healthz/ping", always(plain_text(200, "ok"))},
                 {"/proxyMode", always(plain_text(200, "ipvs"))},
                 {"/configz", always(json_text(200, std::move(configz)))}});
}

}  // namespace ipvsproxier::serve
