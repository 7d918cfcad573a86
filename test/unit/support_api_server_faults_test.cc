// Each fault of the test API server does what it says.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "test/support/api_server/objects.h"
#include "test/unit/api_server_client.h"

namespace ipvsproxier::test {
namespace {

constexpr auto kServices = Resource::services;

std::string type_of(const std::string& line) {
  return Json::parse(line)["type"].get<std::string>();
}

std::string name_in(const std::string& line) {
  return Json::parse(line)["object"]["metadata"]["name"].get<std::string>();
}

// By the C library, which is fast where our own code is not optimised.
std::size_t occurrences(const std::string& text, const std::string& of) {
  std::size_t count = 0;
  const char* at = text.c_str();
  for (; (at = std::strstr(at, of.c_str())) != nullptr; at += of.size()) ++count;
  return count;
}

TEST_CASE("torn bodies are whole, in small pieces") {
  const auto server = started();
  REQUIRE(server->put_all(make_services(20)));
  const auto whole = get(*server, "/api/v1/services");
  REQUIRE(whole.body.size() > 4096);
  server->set_faults(kServices, {.tear = 7});
  const auto torn = get(*server, "/api/v1/services");
  CHECK(torn.error.empty());
  CHECK(torn.body == whole.body);
  CHECK(std::ranges::max(torn.pieces) <= 7);
  CHECK(std::ranges::min(torn.pieces) < 4);
}

TEST_CASE("a trickling body comes byte by byte at its rate") {
  const auto server = started();
  server->set_faults(Resource::nodes, {.bytes_per_second = 200});
  const auto begin = std::chrono::steady_clock::now();
  const HttpStream stream({.url = watch_from_now(*server, "/api/v1/nodes")});
  REQUIRE(server->wait_for_watches(Resource::nodes, 1));
  server->send_raw(Resource::nodes, std::string(99, 'x') + "\n");
  REQUIRE(stream.lines(1).size() == 1);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(99 * 5));
  server->end_watches(Resource::nodes);
  CHECK(std::ranges::max(stream.response().pieces) == 1);
}

TEST_CASE("a silent server keeps the connection and what it has to say") {
  const auto server = started();
  const HttpStream stream({.url = watch_from_now(*server)});
  REQUIRE(server->wait_for_watches(kServices, 1));
  server->set_faults(kServices, {.silent = true});
  REQUIRE(server->put(make_service("shop", "web", "10.96.0.10")));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  CHECK(stream.body().empty());
  CHECK_FALSE(stream.ended());
  server->clear_faults();
  REQUIRE(stream.lines(1).size() == 1);
  CHECK(name_in(stream.lines(1)[0]) == "web");
}

TEST_CASE("a server that gives no answer gives none until it is told to") {
  const auto server = started();
  server->set_faults(kServices, {.silent_answer = true});
  const HttpStream stream({.url = server->url() + "/api/v1/services"});
  REQUIRE(server->wait_for_requests(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(server->requests()[0].status == 0);
  CHECK_FALSE(stream.ended());
  server->clear_faults();
  CHECK(stream.response().code == 200);
  CHECK(server->requests()[0].status == 200);
}

TEST_CASE("a cut body is an error of the transfer") {
  const auto count = GENERATE(std::size_t{1}, std::size_t{50});  // with a length, and in chunks
  const auto server = started();
  REQUIRE(server->put_all(make_services(count)));
  server->set_faults(kServices, {.cut_after = 300});
  const auto response = get(*server, "/api/v1/services");
  CHECK_FALSE(response.error.empty());
  CHECK(response.body.size() == 300);
}

TEST_CASE(
    "a server that vanishes acknowledges nothing, not even a probe, and is back in one piece") {
  const auto server = started();
  const HttpStream dying({.url = watch_from_now(*server), .user_timeout_milliseconds = 2000});
  const HttpStream waiting({.url = watch_from_now(*server), .timeout_seconds = 60});
  REQUIRE(server->wait_for_watches(kServices, 2));
  server->vanish();
  CHECK_FALSE(dying.response().error.empty());  // nothing but unanswered probes ends it
  CHECK_FALSE(waiting.ended());
  CHECK(fetch({.url = server->url() + "/api/v1/nodes", .timeout_seconds = 1}).code == 0);
  CHECK(server->requests().size() == 2);

  REQUIRE(server->put(make_service("shop", "web", "10.96.0.10")));
  CHECK(waiting.body().empty());
  server->reappear();
  REQUIRE(waiting.lines(1).size() == 1);
  CHECK(get(*server, "/api/v1/nodes").code == 200);
}

TEST_CASE("a reset ends every connection at once") {
  const auto server = started();
  const HttpStream stream({.url = watch_from_now(*server)});
  REQUIRE(server->wait_for_watches(kServices, 1));
  server->reset_connections();
  const auto response = stream.response();
  CHECK(response.error == "Failure when receiving data from the peer");  // ECONNRESET
  CHECK(server->wait_for_watches(kServices, 0));
  CHECK(server->wait_for([](const ApiServer& now) { return now.connections() == 0; }));
}

TEST_CASE("watches end when told, and at their timeout") {
  const auto server = started();
  const HttpStream told({.url = watch_from_now(*server)});
  const HttpStream timed({.url = watch_from_now(*server) + "&timeoutSeconds=1"});
  REQUIRE(timed.response().error.empty());
  CHECK_FALSE(told.ended());
  server->end_watches(kServices);
  CHECK(told.response().error.empty());
  CHECK(told.response().body.empty());
  CHECK(server->wait_for_watches(kServices, 0));
}

TEST_CASE("a watch is expired by an ERROR event") {
  const auto server = started();
  const HttpStream stream({.url = watch_from_now(*server)});
  REQUIRE(server->wait_for_watches(kServices, 1));
  server->expire_watches(kServices);
  const auto response = stream.response();
  CHECK(response.error.empty());
  const auto event = Json::parse(response.body);
  CHECK(event["type"] == "ERROR");
  CHECK(event["object"]["code"] == 410);
  CHECK(event["object"]["reason"] == "Expired");
}

TEST_CASE("answers that are told come as often as told, and where") {
  const auto server = started();
  server->set_faults(kServices, {.answers = {{.code = 429, .retry_after_seconds = 7, .times = 2},
                                             {.code = 503, .times = 1, .plain_text = true},
                                             {.code = 410, .asked = Asked::watches}}});
  for (int i = 0; i < 2; ++i) {
    const auto busy = get(*server, "/api/v1/services");
    CHECK(busy.code == 429);
    CHECK(busy.headers.at("retry-after") == "7");
    CHECK(Json::parse(busy.body)["details"]["retryAfterSeconds"] == 7);
  }
  const auto proxy = get(*server, "/api/v1/services");
  CHECK(proxy.code == 503);
  CHECK(proxy.headers.at("content-type").starts_with("text/plain"));
  CHECK(get(*server, "/api/v1/services").code == 200);
  const auto gone = get(*server, "/api/v1/services?watch=1&resourceVersion=5");
  CHECK(gone.code == 410);
  CHECK(Json::parse(gone.body)["reason"] == "Expired");
  CHECK(get(*server, "/api/v1/nodes").code == 200);
}

TEST_CASE("events come twice, backwards, damaged or not at all") {
  const auto server = started();
  const HttpStream stream({.url = watch_from_now(*server)});
  REQUIRE(server->wait_for_watches(kServices, 1));
  server->set_faults(kServices, {.duplicate = true, .reorder = true});
  REQUIRE(server->put_all(make_services(2)));
  auto lines = stream.lines(4);
  REQUIRE(lines.size() == 4);
  CHECK(name_in(lines[0]) == "s-000001");
  CHECK(lines[0] == lines[1]);
  CHECK(name_in(lines[2]) == "s-000000");

  server->set_faults(kServices, {.malformed = true});
  REQUIRE(server->remove(kServices, "s-000000", "bulk"));
  lines = stream.lines(5);
  REQUIRE(lines.size() == 5);
  CHECK(Json::parse(lines[4], nullptr, false).is_discarded());
  CHECK(Json::parse(get(*server, "/api/v1/services").body, nullptr, false).is_discarded());

  const auto before = server->version();
  server->set_faults(kServices, {.bookmarks_only = true});
  REQUIRE(server->remove(kServices, "s-000001", "bulk"));
  server->send_bookmark(kServices);
  lines = stream.lines(6);
  REQUIRE(lines.size() == 6);
  CHECK(type_of(lines[5]) == "BOOKMARK");
  // It skips nothing of what is held back.
  CHECK(Json::parse(lines[5])["object"]["metadata"]["resourceVersion"] == std::to_string(before));
  server->clear_faults();
  lines = stream.lines(7);
  REQUIRE(lines.size() == 7);
  CHECK(type_of(lines[6]) == "DELETED");
}

TEST_CASE("compaction takes nothing from a watch that runs") {
  const auto server = started();
  const HttpStream stream({.url = watch_from_now(*server)});
  REQUIRE(server->wait_for_watches(kServices, 1));
  server->set_faults(kServices, {.silent = true});
  REQUIRE(server->put_all(make_services(3)));
  server->compact();
  REQUIRE(server->put(make_service("shop", "web", "10.96.0.10")));
  server->clear_faults();
  CHECK(stream.lines(4).size() == 4);
}

TEST_CASE("a stopped server refuses connections and comes back on its port with its objects") {
  const auto server = started();
  REQUIRE(server->put_all(make_services(1)));
  const auto port = server->port();
  const HttpStream stream({.url = watch_from_now(*server)});
  REQUIRE(server->wait_for_watches(kServices, 1));
  server->stop();
  CHECK_FALSE(stream.response().error.empty());
  CHECK(get(*server, "/api/v1/services").error == "Couldn't connect to server");
  REQUIRE(server->resume());
  CHECK(server->port() == port);
  CHECK(Json::parse(get(*server, "/api/v1/services").body)["items"].size() == 1);
}

TEST_CASE("an object of 10 MB comes in a list and in a watch") {
  const auto server = started();
  const HttpStream stream({.url = watch_from_now(*server)});
  REQUIRE(server->wait_for_watches(kServices, 1));
  REQUIRE(server->put(inflate(make_service("shop", "fat", "10.96.0.9"), 10'000'000)));
  const auto lines = stream.lines(1);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].size() > 10'000'000);
  CHECK(name_in(lines[0]) == "fat");
  CHECK(get(*server, "/api/v1/services").body.size() > 10'000'000);
}

// Not more, and without a parser: a hundred thousand take minutes where nothing is optimised.
TEST_CASE("ten thousand objects come in pages and compressed") {
  const auto server = started();
  REQUIRE(server->put_all(make_services(10'000)));
  const std::string target = "/api/v1/services?limit=2000&continue=";
  std::size_t items = 0;
  std::size_t pages = 0;
  std::string token;
  do {
    const auto packed = get(*server, target + token, {"Accept-Encoding: gzip"});
    REQUIRE(packed.code == 200);
    CHECK(packed.headers.at("content-encoding") == "gzip");
    const auto plain = get(*server, target + token);
    CHECK_FALSE(plain.headers.contains("content-encoding"));
    CHECK(plain.body.size() > 4 * packed.body.size());
    items += occurrences(plain.body, "\"uid\"");
    const auto head = Json::parse(plain.body.substr(0, plain.body.find(R"(,"items")")) + "}");
    token = head["metadata"].value("continue", "");
    ++pages;
  } while (!token.empty());
  CHECK(pages == 5);
  CHECK(items == 10'000);
}

}  // namespace
}  // namespace ipvsproxier::test
