// What a server, or what sits before it, may send: CurlTransport takes an answer for whole only if
// it is, follows nobody, and shows its credentials to nobody else.

#include <string>
#include <vector>

#include "test/support/api_server/objects.h"
#include "test/support/random_run.h"
#include "test/support/raw_server.h"
#include "test/unit/curl_client.h"

namespace ipvsproxier::access {
namespace {

using Catch::Contains;
using test::RawServer;

const std::string kBody = R"({"kind":"ServiceList","apiVersion":"v1","items":[]})";

std::string head_of(const std::string& fields) {
  return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + fields + "\r\n";
}

std::string chunk_of(const std::string& text) {
  const std::string digits = "0123456789abcdef";
  std::string size;
  size += digits[text.size() / 16];
  size += digits[text.size() % 16];
  return size + "\r\n" + text + "\r\n";
}

TEST_CASE("an answer that is cut at any byte is not whole", "[cuts]") {
  const bool is_chunked = GENERATE(true, false);
  const bool resets = GENERATE(false, true);
  CAPTURE(is_chunked, resets);
  const auto answer =
      is_chunked ? head_of("Transfer-Encoding: chunked\r\n") + chunk_of(kBody.substr(0, 20)) +
                       chunk_of(kBody.substr(20)) + "0\r\n\r\n"
                 : head_of("Content-Length: " + std::to_string(kBody.size()) + "\r\n") + kBody;
  std::size_t length = 0;
  const auto server = RawServer::start([&](const std::string&) {
    return RawServer::Reply{answer.substr(0, length), resets && length < answer.size()};
  });
  REQUIRE(server);
  for (length = 0; length <= answer.size(); ++length) {
    INFO("cut after byte " << length << " of " << answer.size());
    const auto got = fetch({.server = server->url()});
    if (length == answer.size()) {
      REQUIRE(got.error().empty());
      REQUIRE(got.body == kBody);
      continue;
    }
    // Of the last, empty, chunk the end may be missing: all that there is has come.
    if (got.error().empty()) {
      REQUIRE(is_chunked);
      REQUIRE(length > answer.size() - 5);
      REQUIRE(got.body == kBody);
      continue;
    }
    REQUIRE_THAT(got.error(), Contains(server->url()));
    REQUIRE(kBody.starts_with(got.body));
    REQUIRE((got.status() == 0 || got.status() == 200));
  }
}

TEST_CASE("an answer over HTTP/2 that is cut is not whole", "[cuts][random]") {
  const Authority authority;
  const auto server = started({.tls = authority.server(), .http2 = true});
  REQUIRE(server->put(test::make_service("shop", "web", "10.96.0.10")));
  const ClusterAccess access{.server = server->url(), .ca_pem = authority.ca.certificate};
  const auto whole = fetch(access).body;
  REQUIRE_THAT(whole, Contains("10.96.0.10"));
  const auto seed = test::environment_number("IPVS_PROXIER_SOAK_SEED", 0);
  const auto step = static_cast<std::size_t>(
      test::environment_number("IPVS_PROXIER_SOAK_SECONDS", 0) > 0 ? 1 : 41);
  for (std::size_t at = static_cast<std::size_t>(seed) % step; at < whole.size(); at += step) {
    INFO("cut after byte " << at << " of " << whole.size());
    server->set_faults({.cut_after = at});
    const auto got = fetch(access);
    REQUIRE_FALSE(got.error().empty());
    REQUIRE(whole.starts_with(got.body));
  }
}

TEST_CASE("nobody is followed elsewhere, and nobody else is shown who we are") {
  const auto code = GENERATE(301, 302, 303, 307, 308);
  CAPTURE(code);
  const auto elsewhere = RawServer::start([](const std::string&) { return RawServer::Reply{}; });
  REQUIRE(elsewhere);
  const auto server = RawServer::start([&](const std::string&) {
    return RawServer::Reply{"HTTP/1.1 " + std::to_string(code) + " Moved\r\nLocation: " +
                            elsewhere->url() + "/login\r\nContent-Length: 3\r\n\r\nno\n"};
  });
  REQUIRE(server);
  for (const bool has_token : {true, false}) {
    ClusterAccess access{.server = server->url()};
    if (has_token) {
      access.bearer_token = "secret";
    } else {
      access.username = "admin";
      access.password = "secret";
    }
    const auto got = fetch(access);
    CHECK(got.error().empty());
    CHECK(got.status() == code);
    CHECK(got.body == "no\n");
  }
  CHECK(server->requests().size() == 2);
  CHECK(elsewhere->requests().empty());
}

TEST_CASE("whatever an answer is said to be, it is what it is") {
  const auto type = GENERATE(
      as<std::string>(), "", "text/html; charset=utf-8", "application/vnd.kubernetes.protobuf",
      "application/json;charset=UTF-8", "application/json;stream=watch;q=\"", "\xff\x01");
  const auto server = RawServer::start([&](const std::string&) {
    return RawServer::Reply{"HTTP/1.1 200 OK\r\n" +
                            (type.empty() ? "" : "Content-Type: " + type + "\r\n") +
                            "Content-Length: " + std::to_string(kBody.size()) + "\r\n\r\n" + kBody};
  });
  REQUIRE(server);
  const auto got = fetch({.server = server->url()});
  CHECK(got.error().empty());
  CHECK(got.body == kBody);
}

TEST_CASE("a head without end is no answer") {
  const auto bytes = GENERATE(as<std::string>(), "lines", "a line");
  const auto server = RawServer::start([&](const std::string&) {
    std::string head = "HTTP/1.1 200 OK\r\n";
    if (bytes == "a line") head += "X-Long: ";
    while (head.size() < (std::size_t{8} << 20U))
      head += bytes == "a line" ? "xxxxxxxxxxxxxxxx" : "X-Some: thing\r\n";
    return RawServer::Reply{head, true};
  });
  REQUIRE(server);
  const auto got = fetch({.server = server->url()});
  CHECK(got.status() == 0);
  CHECK_FALSE(got.error().empty());
  CHECK_THAT(got.error(), !Contains("reset"));
}

}  // namespace
}  // namespace ipvsproxier::access
