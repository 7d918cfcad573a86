#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>

#include "netlink/unique_fd.h"
#include "proxier/serve/http_server.h"
#include "test/support/raw_http.h"

namespace ipvsproxier::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::http_get;
using test::RawHttp;

const netlink::IpAddress kLoopback4 = netlink::IpAddress::v4(0x7f000001);
const netlink::IpAddress kLoopback6 = netlink::IpAddress::parse("::1").value();
const netlink::IpAddress kAny4 = netlink::IpAddress::any(netlink::Family::ipv4);
const netlink::IpAddress kAny6 = netlink::IpAddress::any(netlink::Family::ipv6);

HttpHandler says(const std::string& text) {
  return [text](const HttpRequest&) { return plain_text(200, text); };
}

struct ServerFixture {
  std::ostringstream log;
  spdlog::logger logger{"test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)};
  HttpLimits limits{.connections = 20, .connections_per_listener = 10, .retry = milliseconds(20)};
  std::unique_ptr<HttpServer> server = std::make_unique<HttpServer>(logger, limits);

  HttpServer::Listening listen(HttpHandler handler) {
    auto listening = server->listen({.address = kLoopback4}, std::move(handler));
    REQUIRE(listening);
    return *listening;
  }
  // Until the server has noticed.
  void wait_for_connections(std::size_t count) {
    for (int i = 0; i < 1000 && server->counts().connections != count; ++i)
      std::this_thread::sleep_for(milliseconds(10));
    REQUIRE(server->counts().connections == count);
  }
  // Those that must make room are gone when the server has noticed.
  void wait_for_room() {
    for (int i = 0; i < 1000 && server->counts().connections > limits.connections; ++i)
      std::this_thread::sleep_for(milliseconds(10));
    REQUIRE(server->counts().connections <= limits.connections);
  }
};

TEST_CASE_METHOD(ServerFixture, "an answer arrives as the handler gave it") {
  const auto port = listen([](const HttpRequest& request) {
                      auto answer = json_text(503, request.method + " " + request.path);
                      for (const auto& [key, value] : request.query)
                        answer.body += " " + key + "=" + value;
                      answer.headers.emplace_back("X-More", "7");
                      return answer;
                    }).port;
  auto answer = http_get(port, "/a%20b/c?verbose&x=1%2B1");
  CHECK(answer.status == 503);
  CHECK(answer.body == "GET /a b/c verbose= x=1+1");
  CHECK(answer.headers["Content-Type"] == "application/json");
  CHECK(answer.headers["X-Content-Type-Options"] == "nosniff");
  CHECK(answer.headers["X-More"] == "7");
  for (const auto* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
    CHECK(http_get(port, "/", method).body == std::string(method) + " /");
  answer = http_get(port, "/", "HEAD");
  CHECK(answer.status == 503);
  CHECK(answer.headers["Content-Length"] == "6");
}

TEST_CASE_METHOD(ServerFixture, "routes are exact") {
  const auto port = listen(routes({{"/healthz", says("h")}, {"/livez", says("l")}})).port;
  CHECK(http_get(port, "/healthz").body == "h");
  CHECK(http_get(port, "/livez?x").body == "l");
  auto missing = http_get(port, "/healthz/");
  CHECK(missing.status == 404);
  CHECK(missing.body == "404 page not found\n");
  CHECK(missing.headers["Content-Type"] == "text/plain; charset=utf-8");
  CHECK(missing.headers["X-Content-Type-Options"] == "nosniff");
  CHECK(http_get(port, "/HEALTHZ").status == 404);
  CHECK(http_get(port, "/").status == 404);
}

TEST_CASE_METHOD(ServerFixture, "a connection serves many requests, also torn and sent ahead") {
  const auto port = listen([](const HttpRequest& r) { return plain_text(200, r.path); }).port;
  RawHttp client(port);
  CHECK(client.get("/1").body == "/1");
  CHECK(client.get("/2").body == "/2");
  const std::string request = "GET /torn HTTP/1.1\r\nHost: x\r\n\r\n";
  for (const char byte : request) REQUIRE(client.send({&byte, 1}));
  CHECK(client.read().body == "/torn");
  REQUIRE(client.send("GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n"));
  CHECK(client.read().body == "/a");
  CHECK(client.read().body == "/b");
  CHECK(server->counts().connections == 1);
}

TEST_CASE_METHOD(ServerFixture, "bodies of requests are dropped, large ones end the connection") {
  const auto port = listen(says("ok")).port;
  RawHttp client(port);
  const std::string body(60'000, 'x');
  REQUIRE(client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" + body));
  CHECK(client.read().body == "ok");
  CHECK(client.get("/").body == "ok");
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 600000000\r\n\r\n");
  bool open = true;
  for (int i = 0; i < 100 && open; ++i) open = client.send(body);
  CHECK_FALSE(open);
}

TEST_CASE_METHOD(ServerFixture, "what is no HTTP is refused, and large headers are") {
  const auto port = listen(says("ok")).port;
  RawHttp garbage(port);
  garbage.send("\x16\x03\x01 TLS?\r\n\r\n");
  CHECK(garbage.ended(seconds(10)));
  RawHttp large(port);
  large.send("GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n");
  CHECK(large.ended(seconds(10)));
  CHECK(http_get(port, "/").status == 200);
}

TEST_CASE_METHOD(ServerFixture, "listeners have their own handlers, and are closed one by one") {
  const auto one = listen(says("one"));
  const auto two = listen(says("two"));
  CHECK(http_get(one.port, "/").body == "one");
  CHECK(http_get(two.port, "/").body == "two");
  RawHttp kept_one(one.port);
  RawHttp kept_two(two.port);
  CHECK(kept_one.get("/").body == "one");
  CHECK(kept_two.get("/").body == "two");
  server->close(one.id);
  CHECK_FALSE(RawHttp(one.port).connected());
  CHECK(kept_one.ended(seconds(10)));
  CHECK(kept_two.get("/").body == "two");
  CHECK(server->counts().listeners == 1);
  wait_for_connections(1);
}

TEST_CASE_METHOD(ServerFixture, "after close() a handler does not run") {
  std::atomic<bool> gone{false};
  std::atomic<bool> ran_late{false};
  std::atomic<int> answers{0};
  const auto listening = listen([&](const HttpRequest&) {
    if (gone) ran_late = true;
    ++answers;
    return plain_text(200, "");
  });
  std::vector<std::jthread> clients;
  for (int i = 0; i < 3; ++i)
    clients.emplace_back([&] {
      while (http_get(listening.port, "/").status == 200) {
      }
    });
  while (answers < 20) std::this_thread::yield();
  server->close(listening.id);
  gone = true;
  clients.clear();
  CHECK_FALSE(ran_late);
}

// While a large answer is copied, the daemon's thread takes no connection.
TEST_CASE_METHOD(ServerFixture, "the server's end closes a connection that waited to be taken") {
  std::promise<void> asked;
  const auto port = listen([&](const HttpRequest&) {
                      asked.set_value();
                      return plain_text(200, std::string(std::size_t{64} << 20U, 'x'));
                    }).port;
  const std::jthread client([port] { http_get(port, "/"); });
  asked.get_future().wait();
  RawHttp waiting(port);
  wait_for_connections(2);
  server.reset();
  CHECK(waiting.ended(seconds(10)));
}

TEST_CASE_METHOD(ServerFixture, "a handler that throws costs its connection, not the server") {
  const auto port = listen([](const HttpRequest& request) {
                      if (request.path == "/bad") throw std::runtime_error("on purpose");
                      return plain_text(200, "ok");
                    }).port;
  CHECK(http_get(port, "/bad").status == 0);
  CHECK(http_get(port, "/").body == "ok");
  CHECK(log.str().find("GET /bad: on purpose") != std::string::npos);
}

TEST_CASE_METHOD(ServerFixture,
                 "one too many costs the connection that was silent longest its place") {
  const auto port = listen(says("ok")).port;
  const auto other = listen(says("other")).port;
  RawHttp bystander(other);
  CHECK(bystander.get("/").body == "other");
  std::vector<std::unique_ptr<RawHttp>> silent;
  for (int i = 0; i < 10; ++i) {
    silent.push_back(std::make_unique<RawHttp>(port));
    wait_for_connections(silent.size() + 1);
  }
  // The first one moves: then the second is the oldest.
  CHECK(silent[0]->get("/").body == "ok");
  CHECK(http_get(port, "/").body == "ok");
  CHECK(silent[1]->ended(seconds(10)));
  CHECK(silent[0]->get("/").body == "ok");
  CHECK(silent[2]->get("/").body == "ok");
  CHECK(bystander.get("/").body == "other");
}

TEST_CASE_METHOD(ServerFixture,
                 "a crowd of silent and trickling clients does not keep others out") {
  const auto port = listen(says("ok")).port;
  const auto other = listen(says("other")).port;
  std::vector<std::unique_ptr<RawHttp>> crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.push_back(std::make_unique<RawHttp>(i % 2 ? port : other));
    crowd.back()->send("GET / HTTP/1.1\r\nX-Slow: ");
    for (const auto& slow : crowd) slow->send("x");
    CHECK(server->counts().connections <= limits.connections * 2);
    if (i % 10 != 0) continue;
    CHECK(http_get(port, "/").body == "ok");
    CHECK(http_get(other, "/").body == "other");
  }
  wait_for_room();
  crowd.clear();
  wait_for_connections(0);
}

// Whoever logs waits until it lets go.
struct HoldingSink : spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg&) override {
    reached.count_down();
    released.wait(false);
  }
  void flush_() override {}
  void let_go() {
    released = true;
    released.notify_all();
  }

  std::latch reached{1};
  std::atomic<bool> released{false};
};

TEST_CASE_METHOD(ServerFixture, "a crowd has bounds while the thread that answers is held up") {
  const auto hold = std::make_shared<HoldingSink>();
  spdlog::logger holding("test", hold);
  struct End {
    HoldingSink& sink;
    std::unique_ptr<HttpServer>& server;
    ~End() {
      sink.let_go();
      server.reset();
    }
  };
  const End end{*hold, server};
  server = std::make_unique<HttpServer>(holding, limits);
  const auto port = listen([](const HttpRequest& request) {
                      if (request.path == "/hold") throw std::runtime_error("a fault");
                      return plain_text(200, "ok");
                    }).port;
  RawHttp holder(port);
  holder.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  hold->reached.wait();
  std::vector<std::unique_ptr<RawHttp>> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(std::make_unique<RawHttp>(port));
  wait_for_connections(limits.connections * 2);
  std::this_thread::sleep_for(milliseconds(100));  // time for more to be accepted
  CHECK(server->counts().connections == limits.connections * 2);

  hold->let_go();
  CHECK(http_get(port, "/").body == "ok");
  wait_for_room();
  crowd.clear();
  wait_for_connections(0);
}

TEST_CASE_METHOD(ServerFixture, "a client that does not read is no obstacle") {
  const auto port =
      listen([](const HttpRequest& request) {
        return plain_text(200, std::string(request.path == "/" ? 2 : 20'000'000, 'x'));
      }).port;
  std::vector<std::unique_ptr<RawHttp>> lazy;
  for (int i = 0; i < 15; ++i) {
    lazy.push_back(std::make_unique<RawHttp>(port));
    lazy.back()->send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(http_get(port, "/").body == "xx");
  }
  lazy.clear();
  wait_for_connections(0);
}

TEST_CASE_METHOD(ServerFixture, "silence ends a connection") {
  limits.silence = seconds(1);
  server = std::make_unique<HttpServer>(logger, limits);
  const auto port = listen(says("ok")).port;
  RawHttp client(port);
  CHECK(client.get("/").body == "ok");
  CHECK(client.ended(seconds(10)));
  wait_for_connections(0);
}

// While it lives, this process gets no new descriptor. No CHECK meanwhile: UBSan needs some.
class NoDescriptors {
 public:
  NoDescriptors() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const netlink::UniqueFd next(::dup(0));  // the lowest that is free
    const rlimit none{.rlim_cur = static_cast<rlim_t>(next.get()), .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_CASE_METHOD(ServerFixture, "without descriptors the server pauses until there are some") {
  const auto port = listen(says("ok")).port;
  auto socket = RawHttp::make_socket();
  std::optional<NoDescriptors> none(std::in_place);
  RawHttp client(std::move(socket), port);  // the kernel connects
  const auto before = std::clock();
  std::this_thread::sleep_for(milliseconds(300));
  const auto used = std::clock() - before;
  none.reset();
  CHECK(used < CLOCKS_PER_SEC / 10);
  CHECK(client.get("/").body == "ok");
}

TEST_CASE_METHOD(ServerFixture, "a connection that waits gives its descriptor to a new one") {
  const auto port = listen(says("ok")).port;
  RawHttp waiting(port);
  CHECK(waiting.get("/").body == "ok");
  auto socket = RawHttp::make_socket();
  std::optional<NoDescriptors> none(std::in_place);
  RawHttp client(std::move(socket), port);
  const auto answer = client.get("/");
  const bool ended = waiting.ended(seconds(10));
  none.reset();
  CHECK(answer.body == "ok");
  CHECK(ended);
}

TEST_CASE_METHOD(ServerFixture, "a wildcard takes both families, or one if that is wanted") {
  const auto both = server->listen({.address = kAny4}, says("both"));
  REQUIRE(both);
  CHECK(http_get(both->port, "/").body == "both");
  CHECK(http_get(both->port, "/", "GET", "::1").body == "both");
  const auto both6 = server->listen({.address = kAny6}, says("both6"));
  REQUIRE(both6);
  CHECK(http_get(both6->port, "/").body == "both6");
  CHECK(http_get(both6->port, "/", "GET", "::1").body == "both6");

  const auto four = server->listen({kAny4, 0, ListenNetwork::one_family}, says("four"));
  REQUIRE(four);
  CHECK(http_get(four->port, "/").body == "four");
  CHECK_FALSE(RawHttp(four->port, "::1").connected());
  const auto six = server->listen({kAny6, four->port, ListenNetwork::one_family}, says("six"));
  REQUIRE(six);
  CHECK(http_get(four->port, "/").body == "four");
  CHECK(http_get(four->port, "/", "GET", "::1").body == "six");
  const auto loopback6 = server->listen({.address = kLoopback6}, says("lo6"));
  REQUIRE(loopback6);
  CHECK(http_get(loopback6->port, "/", "GET", "::1").body == "lo6");
}

TEST_CASE_METHOD(ServerFixture, "a port that is taken is a failure that names it") {
  const auto taken = listen(says("first"));
  const auto refused = server->listen({kLoopback4, taken.port}, says("second"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().sys_errno == EADDRINUSE);
  CHECK(refused.error().where == "listen on 127.0.0.1:" + std::to_string(taken.port));
  const auto wild = server->listen({kAny4, taken.port}, says("second"));
  REQUIRE_FALSE(wild);
  CHECK(wild.error().where == "listen on 0.0.0.0:" + std::to_string(taken.port));
  CHECK(http_get(taken.port, "/").body == "first");
  CHECK(server->counts().listeners == 1);
}

TEST_CASE_METHOD(ServerFixture, "it keeps trying to listen, and says so once") {
  const auto taken = listen(says("first"));
  const auto first =
      server->keep_listening("health server", {kLoopback4, taken.port}, says("patient"));
  REQUIRE_FALSE(first);
  CHECK(first.error().sys_errno == EADDRINUSE);
  std::this_thread::sleep_for(limits.retry * 5);
  CHECK(http_get(taken.port, "/").body == "first");
  server->close(taken.id);
  for (int i = 0; i < 1000 && server->counts().listeners == 0; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  CHECK(http_get(taken.port, "/").body == "patient");
  server.reset();
  const auto text = log.str();
  const auto failure = text.find("health server: listen on 127.0.0.1:");
  REQUIRE(failure != std::string::npos);
  CHECK(text.find("Address already in use", failure) != std::string::npos);
  CHECK(text.find("trying again every 20 ms", failure) != std::string::npos);
  CHECK(text.find("health server: listen on", failure + 1) == std::string::npos);
  CHECK(text.find("health server: listening on 127.0.0.1:") != std::string::npos);
}

TEST_CASE_METHOD(ServerFixture, "when it can listen at once it says nothing") {
  const auto listening = server->keep_listening("metrics server", {kLoopback4, 0}, says("now"));
  REQUIRE(listening);
  CHECK(http_get(listening->port, "/").body == "now");
  CHECK(log.str().empty());
}

TEST_CASE_METHOD(ServerFixture, "it ends with connections open and a listener still waiting") {
  const auto taken = listen(says("first"));
  CHECK_FALSE(server->keep_listening("x", {kLoopback4, taken.port}, says("patient")));
  RawHttp client(taken.port);
  CHECK(client.get("/").body == "first");
  server.reset();
  CHECK(client.ended(seconds(10)));
  CHECK_FALSE(RawHttp(taken.port).connected());
}

}  // namespace
}  // namespace ipvsproxier::serve
