#pragma once

// What the tests of the test API server have in common: a running one, and requests to it.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "test/support/api_server/api_server.h"
#include "test/support/http_client.h"

namespace ipvsproxier::test {

using Json = nlohmann::ordered_json;

inline std::unique_ptr<ApiServer> started(ServerOptions options = {}) {
  auto server = ApiServer::start(std::move(options));
  INFO((server ? "" : to_string(server.error())));
  REQUIRE(server);
  return *std::move(server);
}

inline HttpResponse get(const ApiServer& server, const std::string& target,
                        std::vector<std::string> headers = {}) {
  return fetch({.url = server.url() + target, .headers = std::move(headers)});
}

// From now on, with bookmarks when they are sent.
inline std::string watch_from_now(const ApiServer& server,
                                  const std::string& path = "/api/v1/services") {
  return server.url() + path +
         "?watch=1&allowWatchBookmarks=true&resourceVersion=" + std::to_string(server.version());
}

}  // namespace ipvsproxier::test
