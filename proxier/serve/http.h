#pragma once

// The HTTP request and response types of our handlers. Values; any thread.

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ipvsproxier::serve {

struct HttpRequest {
  std::string method;
  std::string path;                          // percent-decoded, without the query
  std::map<std::string, std::string> query;  // decoded; of repeated keys the last value
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers;  // besides Content-Type
  std::string body;

  friend bool operator==(const HttpResponse&, const HttpResponse&) = default;
};

// Runs on the server's thread: must neither block nor call the server.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

// text/plain and application/json; both forbid browsers to guess another type.
HttpResponse plain_text(unsigned status, std::string body);
HttpResponse json_text(unsigned status, std::string body);

// Routes by exact path, for all methods; other paths are 404.
HttpHandler routes(std::map<std::string, HttpHandler> handlers);

}  // namespace ipvsproxier::serve
