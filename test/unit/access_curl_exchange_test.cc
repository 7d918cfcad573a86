// The course of an exchange of CurlTransport: credentials, pieces, cancelling, a peer that
// vanishes.

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "test/support/api_server/objects.h"
#include "test/support/temp_dir.h"
#include "test/unit/curl_client.h"

namespace ipvsproxier::access {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using test::Resource;

TEST_CASE("after a 401 the token file is read again") {
  const test::TempDir folder;
  const auto file = (folder.path() / "token").string();
  std::ofstream(file) << "old";
  const auto server = started({.token = "old"});
  Client client(
      AccessSource{.origin = "test", .fixed = {.server = server->url()}, .token_file = file});
  Answer first;
  client.fetch(first);
  CHECK(first.status() == 200);

  server->set_token("new");
  std::ofstream(file) << "new";
  Answer refused;
  refused.then_end = [&] { client.loop.quit(); };
  const auto exchange = client.transport.open({.target = kServices}, refused);
  client.loop.run();
  CHECK(refused.status() == 401);
  CHECK(exchange->server() == server->url());
  exchange->refuse_credentials();
  Answer again;
  client.fetch(again);
  CHECK(again.status() == 200);
}

TEST_CASE("without credentials there is no request, and the exchange says so") {
  Client client(AccessSource{.origin = "test",
                             .fixed = {.server = "http://127.0.0.1:1"},
                             .token_file = "/nonexistent/token"});
  Answer answer;
  client.fetch(answer);
  CHECK_THAT(answer.error(), Contains("/nonexistent/token"));
}

TEST_CASE("a watch comes byte by byte, and ends when the connection does") {
  const auto server = started({});
  REQUIRE(server->put(test::make_service("shop", "web", "10.96.0.10")));
  Client client(ClusterAccess{.server = server->url()});
  Answer answer;
  std::unique_ptr<Exchange> exchange;
  SECTION("reset") {
    answer.then_chunk = [&] {
      answer.then_chunk = [] {};
      server->reset_connections();
    };
  }
  SECTION("cut") {
    server->set_faults({.cut_after = 20});
  }
  SECTION("stopped, a byte at a time") {
    server->set_faults({.bytes_per_second = 300});
    answer.then_chunk = [&] {
      if (answer.body.size() < 40) return;
      answer.then_chunk = [] {};
      CHECK(answer.chunks > 10);
      server->stop();
    };
  }
  answer.then_end = [&] { client.loop.quit(); };
  exchange = client.transport.open({.target = kServices + "?watch=1"}, answer);
  client.loop.run();
  CHECK(answer.status() == 200);
  CHECK_FALSE(answer.body.empty());
  CHECK_THAT(answer.error(), Contains(server->url()));
}

TEST_CASE("an exchange may be cancelled from anywhere") {
  const auto server = started({});
  REQUIRE(server->put_all(test::make_services(500)));
  Client client(ClusterAccess{.server = server->url()});
  Answer cancelled;
  Answer other;
  std::unique_ptr<Exchange> exchange;
  std::unique_ptr<Exchange> next;
  cancelled.then_end = [] { FAIL_CHECK("it was cancelled"); };
  other.then_end = [&] { client.loop.quit(); };
  // Goes, and asks for something else at once.
  const auto cancel = [&] {
    exchange.reset();
    next = client.transport.open({.target = kServices}, other);
  };
  SECTION("before it began") {
    exchange = client.transport.open({.target = kServices}, cancelled);
    cancel();
  }
  SECTION("from its head") {
    cancelled.then_head = cancel;
    exchange = client.transport.open({.target = kServices}, cancelled);
  }
  SECTION("from its body") {
    cancelled.then_chunk = cancel;
    exchange = client.transport.open({.target = kServices}, cancelled);
  }
  SECTION("from its end") {
    cancelled.then_end = cancel;
    exchange = client.transport.open({.target = kServices}, cancelled);
  }
  SECTION("by a deadline, while it watches") {
    exchange = client.transport.open({.target = kServices + "?watch=1"}, cancelled);
    client.loop.at("cancel", client.loop.now() + 50ms, cancel);
  }
  SECTION("by a deadline, before a failure is told") {
    exchange = client.transport.open({.target = kServices + " nonsense"}, cancelled);
    cancel();
  }
  client.loop.run();
  CHECK(other.status() == 200);
  CHECK(other.error().empty());
}

// Takes about 20 seconds: the kernel's probes are that slow.
TEST_CASE("a peer that vanishes is noticed within 30 seconds") {
  const auto server = started({});
  REQUIRE(server->put(test::make_service("shop", "web", "10.96.0.10")));
  Client client(ClusterAccess{.server = server->url()});
  Answer watch;
  int left = 2;
  const auto count_down = [&] {
    if (--left == 0) client.loop.quit();
  };
  watch.then_end = count_down;
  Answer late;
  late.then_end = count_down;
  std::unique_ptr<Exchange> second;
  watch.then_chunk = [&] {
    watch.then_chunk = [] {};
    server->vanish();
    // On a connection that nobody accepts.
    second = client.transport.open({.target = kServices}, late);
  };
  const auto begun = client.loop.now();
  const auto exchange = client.transport.open({.target = kServices + "?watch=1"}, watch);
  client.loop.run();
  CHECK(client.loop.now() - begun < 40s);
  CHECK_THAT(watch.error(), Contains(server->url()) && Contains("timed out"));
  CHECK_FALSE(late.error().empty());
}

}  // namespace
}  // namespace ipvsproxier::access
