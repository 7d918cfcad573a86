#pragma once

// HTTP as our handlers see it: a request is a method, a path and its query; an answer is a value.
// Values; any thread.

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ipvsproxier::serve {

struct HttpRequest {
  std::string method;
  std::string path;                          // percent-decoded, without the query
  std::map<std::string, std::string> query;  // decoded; of equal keys the last
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers;  // besides the type
  std::string body;

  friend bool operator==(const HttpResponse&, const HttpResponse&) = default;
};

// Runs on the server's thread: must not block, and must not call the server.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

// text/plain, application/json; both tell browsers not to guess another type.
HttpResponse plain_text(unsigned status, std::string body);
HttpResponse json_text(unsigned status, std::string body);

// By exact path, whatever the method; all other paths are 404.
HttpHandler routes(std::map<std::string, HttpHandler> handlers);

}  // namespace ipvsproxier::serve
