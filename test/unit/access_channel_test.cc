// Whether the path to the server still leads there: CurlTransport behind a proxy that keeps our
// side open, or cuts what is idle.

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "proxier/watch/api_source.h"
#include "test/support/relay.h"
#include "test/unit/curl_client.h"

namespace ipvsproxier::access {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using test::Resource;

std::unique_ptr<test::Relay> relay_to(const test::ApiServer& server) {
  auto relay = test::Relay::start(server.port());
  if (!relay) FAIL(relay.error().where);
  return *std::move(relay);
}

std::size_t questions(const test::ApiServer& server) {
  std::size_t count = 0;
  for (const auto& request : server.requests()) count += request.path == "/livez" ? 1 : 0;
  return count;
}

// A server with HTTP/2 behind a relay, and a client.
struct World {
  Authority authority;
  std::unique_ptr<test::ApiServer> server;
  std::unique_ptr<test::Relay> relay;
  std::unique_ptr<Client> client;

  explicit World(const PathCheck& check, bool http2 = true)
      : server(started({.tls = authority.server(), .http2 = http2})), relay(relay_to(*server)) {
    client = std::make_unique<Client>(
        ClusterAccess{.server = "https://127.0.0.1:" + std::to_string(relay->port()),
                      .ca_pem = authority.ca.certificate},
        check);
  }
  loop::MainLoop& loop() { return client->loop; }
  // Looks again every few milliseconds.
  void run_until(const std::function<bool()>& condition) {
    std::function<void()> look = [&] {
      if (condition()) return loop().quit();
      loop().at("look", loop().now() + 5ms, look);
    };
    look();
    loop().run();
    loop().cancel("look");
  }
};

// Three watches that have begun.
struct Watches {
  std::array<Answer, 3> answers;
  std::vector<std::unique_ptr<Exchange>> exchanges;

  explicit Watches(World& world) {
    for (auto& answer : answers)
      exchanges.push_back(world.client->transport.open({.target = kServices + "?watch=1"}, answer));
    world.run_until([this] {
      return std::all_of(answers.begin(), answers.end(),
                         [](const auto& answer) { return answer.head.has_value(); });
    });
  }
  bool all_ended() const {
    return std::all_of(answers.begin(), answers.end(),
                       [](const auto& answer) { return answer.outcome.has_value(); });
  }
};

TEST_CASE("an idle connection sees a question every while, and stays") {
  World world({.silence = 20ms, .patience = 10s});
  const Watches watches(world);
  world.run_until([&] { return questions(*world.server) >= 5; });
  CHECK(world.relay->accepted() == 1);
  for (const auto& answer : watches.answers) CHECK_FALSE(answer.outcome);
}

TEST_CASE("a path that leads nowhere ends all that is on it; what comes then goes another") {
  World world({.silence = 200ms, .patience = 300ms});
  Watches watches(world);
  world.relay->swallow();
  world.run_until([&] { return watches.all_ended(); });
  for (const auto& answer : watches.answers) {
    CHECK_THAT(answer.error(), Contains(std::to_string(world.relay->port())) &&
                                   Contains("the connection is dead: no sign of life"));
    CHECK(answer.outcome->error().kind == netlink::ErrorKind::timeout);
  }
  CHECK(world.relay->swallowed_bytes() > 0);
  CHECK(world.relay->accepted() == 1);
  // Also while the old exchanges are still there.
  const Watches next(world);
  CHECK(world.relay->accepted() == 2);
  for (const auto& answer : next.answers) CHECK(answer.status() == 200);
}

TEST_CASE("what is asked over a path that leads nowhere ends too") {
  World world({.silence = 200ms, .patience = 300ms});
  Watches watches(world);
  world.relay->swallow();
  // The question that the channel has asked by then may be the first that is lost, or this one.
  Answer late;
  const auto exchange = world.client->transport.open({.target = kServices}, late);
  world.run_until([&] { return watches.all_ended() && late.outcome; });
  CHECK_THAT(late.error(), Contains("the connection is dead"));
}

TEST_CASE("without HTTP/2 nothing is asked: another connection would tell nothing") {
  World world({.silence = 1ms, .patience = 1ms}, false);
  const Watches watches(world);
  int turns = 0;
  world.run_until([&] { return ++turns == 40; });
  CHECK(questions(*world.server) == 0);
  CHECK(world.relay->accepted() == 3);
  for (const auto& answer : watches.answers) CHECK_FALSE(answer.outcome);
}

TEST_CASE("nothing is asked for nobody") {
  World world({.silence = 1ms, .patience = 10s});
  {
    const Watches watches(world);
    world.run_until([&] { return questions(*world.server) >= 1; });
  }
  // Some may be on their way.
  auto asked = questions(*world.server);
  int quiet = 0;
  int turns = 0;
  world.run_until([&] {
    quiet = questions(*world.server) == asked ? quiet + 1 : 0;
    asked = questions(*world.server);
    return quiet == 20 || ++turns == 400;
  });
  CHECK(quiet == 20);
}

TEST_CASE("the three resources are watched over one connection, and over one again") {
  World world({.silence = 200ms, .patience = 300ms});
  loop::MainLoop& loop = world.loop();
  watch::ApiSource source(
      "n1", world.client->transport, loop, [] { return 0.0; }, std::nullopt, world.client->log,
      [](const model::Changes&) {});
  const auto watching = [&](std::uint64_t at_least) {
    return [&source, &world, at_least] {
      for (const auto& [name, now] : source.status())
        if (now.watches < at_least || !now.last_error.empty() || !now.is_listed) return false;
      for (const auto resource : {Resource::services, Resource::endpoint_slices, Resource::nodes})
        if (world.server->watches(resource) == 0) return false;
      return true;
    };
  };
  source.start();
  world.run_until(watching(1));
  CHECK(world.relay->accepted() == 1);
  SECTION("after a cut") {
    world.relay->cut();
  }
  SECTION("after it led nowhere") {
    world.relay->swallow();
  }
  world.run_until(watching(2));
  CHECK(world.relay->accepted() == 2);
  for (const auto& [name, now] : source.status()) {
    CHECK(now.failures == 1);
    CHECK(now.lists == 1);
  }
}

}  // namespace
}  // namespace ipvsproxier::access
