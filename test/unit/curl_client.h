#pragma once

// CurlTransport as its tests use it: a server, a client of it, and what came of one exchange.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <spdlog/logger.h>
#include <spdlog/sinks/null_sink.h>
#include <catch2/catch.hpp>

#include "proxier/access/curl_transport.h"
#include "test/support/api_server/api_server.h"
#include "test/support/api_server/certificates.h"

namespace ipvsproxier::access {

inline const std::string kServices = "/api/v1/services";

inline std::unique_ptr<test::ApiServer> started(test::ServerOptions options) {
  auto server = test::ApiServer::start(std::move(options));
  if (!server) FAIL(server.error().where);
  return *std::move(server);
}

struct Authority {
  explicit Authority(const std::string& name = "cluster") : ca(*test::make_authority(name)) {}

  test::Certificate ca;

  test::ServerTls server(const test::CertificateWish& wish = test::server_wish()) const {
    const auto made = test::issue(ca, wish);
    REQUIRE(made);
    return {.certificate = made->certificate, .key = made->key, .client_ca = ca.certificate};
  }
};

// What came of one exchange.
struct Answer final : ResponseHandler {
  std::optional<ResponseHead> head;
  std::string body;
  std::size_t chunks = 0;
  std::optional<netlink::Status> outcome;
  std::function<void()> then_head = [] {};
  std::function<void()> then_chunk = [] {};
  std::function<void()> then_end = [] {};

  void on_head(const ResponseHead& told) override {
    CHECK_FALSE(head);
    head = told;
    run(then_head);
  }
  void on_chunk(std::string_view chunk) override {
    CHECK(head);
    CHECK_FALSE(chunk.empty());
    body += chunk;
    ++chunks;
    run(then_chunk);
  }
  void on_end(const netlink::Status& told) override {
    CHECK_FALSE(outcome);
    outcome = told;
    run(then_end);
  }
  // A copy, as it may replace itself.
  static void run(std::function<void()> function) { function(); }
  int status() const { return head ? head->status : 0; }
  std::string error() const {
    return outcome && !*outcome ? netlink::to_string(outcome->error()) : "";
  }
};

struct Client {
  loop::MainLoop loop;
  spdlog::logger log{"test", std::make_shared<spdlog::sinks::null_sink_mt>()};
  Credentials credentials;
  CurlTransport transport;

  explicit Client(AccessSource source, const PathCheck& check = {})
      : credentials(loop, std::move(source), log), transport(loop, credentials, check) {
    loop.at("give up", loop.now() + std::chrono::minutes(2), [this] {
      FAIL_CHECK("nothing happened");
      loop.quit();
    });
  }
  explicit Client(ClusterAccess access, const PathCheck& check = {})
      : Client(AccessSource{.origin = "test", .fixed = access}, check) {}

  void fetch(Answer& answer, const std::string& target = kServices, Method method = Method::get,
             const std::string& body = "") {
    answer.then_end = [this] { loop.quit(); };
    const auto exchange = transport.open(
        {.method = method, .target = target, .content_type = "application/json", .body = body},
        answer);
    CHECK_FALSE(answer.outcome);
    loop.run();
    REQUIRE(answer.outcome);
  }
};

inline Answer fetch(const ClusterAccess& access, const std::string& target = kServices) {
  Client client(access);
  Answer answer;
  client.fetch(answer, target);
  return answer;
}

}  // namespace ipvsproxier::access
