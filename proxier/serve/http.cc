#include "proxier/serve/http.h"

namespace ipvsproxier::serve {

namespace {

HttpResponse typed(unsigned status, const char* type, std::string body) {
  return {.status = status,
          .content_type = type,
          .headers = {{"X-Content-Type-Options", "nosniff"}},
          .body = std::move(body)};
}

}  // namespace

HttpResponse plain_text(unsigned status, std::string body) {
  return typed(status, "text/plain; charset=utf-8", std::move(body));
}

HttpResponse json_text(unsigned status, std::string body) {
  return typed(status, "application/json", std::move(body));
}

HttpHandler routes(std::map<std::string, HttpHandler> handlers) {
  return [handlers = std::move(handlers)](const HttpRequest& request) {
    const auto it = handlers.find(request.path);
    if (it == handlers.end()) return plain_text(404, "404 page not found\n");
    return it->second(request);
  };
}

}  // namespace ipvsproxier::serve
