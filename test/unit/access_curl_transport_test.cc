// CurlTransport against the test API server: TLS, HTTP/1.1 and HTTP/2, Events, proxies, and what is
// refused.

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "proxier/watch/cluster_event.h"
#include "proxier/watch/event_recorder.h"
#include "test/support/api_server/objects.h"
#include "test/unit/curl_client.h"

namespace ipvsproxier::access {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using netlink::ErrorKind;
using test::ApiServer;
using test::Resource;

TEST_CASE("a request says who we are and gets the whole answer") {
  const auto server = started({.token = "right"});
  REQUIRE(server->put(test::make_service("shop", "web", "10.96.0.10")));
  const auto answer =
      fetch({.server = server->url(), .user_agent = "ipvs-proxier/1", .bearer_token = "right"},
            kServices + "?limit=500");
  CHECK(answer.error().empty());
  CHECK(answer.status() == 200);
  CHECK_THAT(answer.body, Contains("\"ServiceList\"") && Contains("10.96.0.10"));
  const auto request = server->requests().at(0);
  CHECK(request.method == "GET");
  CHECK(request.path == kServices);
  CHECK(request.query == std::map<std::string, std::string>{{"limit", "500"}});
  CHECK(request.credential == "token right");
  CHECK(request.headers.at("user-agent") == "ipvs-proxier/1");
  CHECK(request.headers.at("accept") == "application/json");
  CHECK(request.headers.at("accept-encoding") == "gzip");
}

TEST_CASE("an answer tells by which address the server is reached") {
  const auto server = started({});
  Client client({.server = server->url()});
  std::map<std::string, int> told;
  client.transport.on_answer([&](const std::string& name, const netlink::IpAddress& peer) {
    ++told[name + " " + peer.to_string()];
  });
  Answer answer;
  client.fetch(answer);
  CHECK(answer.status() == 200);
  CHECK(told == std::map<std::string, int>{{server->url() + " 127.0.0.1", 1}});
}

TEST_CASE("a server is believed only if its certificate is right") {
  const Authority authority;
  const Authority other("other");
  const auto server = started({.tls = authority.server()});
  ClusterAccess access{.server = server->url(), .ca_pem = authority.ca.certificate};
  CHECK(fetch(access).status() == 200);

  const auto check_refused = [&](const std::string& why) {
    INFO(why);
    server->clear_requests();
    const auto answer = fetch(access);
    REQUIRE(answer.outcome);
    REQUIRE_FALSE(*answer.outcome);
    CHECK(answer.outcome->error().kind == ErrorKind::denied);
    CHECK_THAT(answer.error(), Contains(server->url()));
    CHECK(server->requests().empty());
  };
  access.ca_pem = other.ca.certificate;
  check_refused("another authority");
  access.ca_pem = Authority().ca.certificate;
  // One that calls itself the same.
  const auto namesake = fetch(access);
  CHECK(namesake.status() == 0);
  CHECK_THAT(namesake.error(), Contains(server->url()) && Contains("configured authority?"));
  CHECK(server->requests().empty());
  access.ca_pem.clear();
  check_refused("the system's authorities");
  access.insecure_skip_tls_verify = true;
  CHECK(fetch(access).status() == 200);

  access = {.server = server->url(), .ca_pem = authority.ca.certificate};
  REQUIRE(server->set_tls(authority.server({.dns_names = {"elsewhere.example"}})));
  check_refused("another name");
  auto wish = test::server_wish();
  wish.expired = true;
  REQUIRE(server->set_tls(authority.server(wish)));
  check_refused("expired");
  REQUIRE(server->set_tls(authority.server()));
  CHECK(fetch(access).status() == 200);
}

TEST_CASE("a CA that is none is an error, not the end of checking") {
  const Authority authority;
  const auto server = started({.tls = authority.server()});
  const auto answer = fetch({.server = server->url(), .ca_pem = "no PEM"});
  CHECK(answer.status() == 0);
  CHECK_THAT(answer.error(), Contains(server->url()));
}

TEST_CASE("the certificate may have another name than the server") {
  const Authority authority;
  const bool http2 = GENERATE(false, true);
  const auto server =
      started({.tls = authority.server({.dns_names = {"kubernetes.default.svc"}}), .http2 = http2});
  ClusterAccess access{.server = server->url(), .ca_pem = authority.ca.certificate};
  CHECK_FALSE(fetch(access).error().empty());
  access.tls_server_name = "elsewhere.example";
  CHECK_FALSE(fetch(access).error().empty());
  CHECK(server->requests().empty());

  access.tls_server_name = "kubernetes.default.svc";
  const auto answer = fetch(access, kServices + "?limit=5");
  CHECK(answer.error().empty());
  CHECK(answer.status() == 200);
  const auto request = server->requests().at(0);
  CHECK(request.path == kServices);
  CHECK(request.query.at("limit") == "5");
  if (!http2) CHECK("http://" + request.headers.at("host") == "http" + server->url().substr(5));
}

TEST_CASE("a client certificate says who we are") {
  const Authority authority;
  const auto server = started({.tls = authority.server(), .token = "right"});
  const auto made = test::issue(authority.ca, {.name = "system:kube-proxy", .client = true});
  REQUIRE(made);
  const auto answer = fetch({.server = server->url(),
                             .ca_pem = authority.ca.certificate,
                             .client_certificate_pem = made->certificate,
                             .client_key_pem = made->key});
  CHECK(answer.status() == 200);
  CHECK(server->requests().at(0).credential == "certificate system:kube-proxy");
  CHECK(fetch({.server = server->url(), .ca_pem = authority.ca.certificate}).status() != 200);
}

TEST_CASE("large answers come compressed, in small chunks") {
  const auto server = started({});
  REQUIRE(server->put_all(test::make_services(1000)));
  const auto answer = fetch({.server = server->url()});
  CHECK(answer.error().empty());
  CHECK(answer.body.size() > 150'000);
  CHECK(answer.body.starts_with('{'));
  CHECK_THAT(answer.body, Contains("s-000999"));
  CHECK(answer.chunks > 5);
}

// Connections of this network namespace to a port.
std::size_t connections_to(std::uint16_t port) {
  std::ostringstream wanted;
  wanted << ":" << std::uppercase << std::hex << std::setw(4) << std::setfill('0') << port;
  std::ifstream table("/proc/self/net/tcp");
  std::size_t count = 0;
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number;
    std::string local;
    std::string remote;
    std::string state;
    words >> number >> local >> remote >> state;
    if (remote.ends_with(wanted.str()) && state == "01") ++count;  // established
  }
  return count;
}

TEST_CASE("HTTP/2 where the server has it: one connection for all; else HTTP/1.1") {
  const Authority authority;
  const bool tls = GENERATE(true, false);
  const bool http2 = tls && GENERATE(true, false);
  const auto server =
      started({.tls = tls ? std::optional(authority.server()) : std::nullopt, .http2 = http2});
  REQUIRE(server->put_all(test::make_services(100)));
  Client client(ClusterAccess{.server = server->url(), .ca_pem = authority.ca.certificate});
  std::array<Answer, 3> answers;
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (auto& answer : answers) {
    answer.then_chunk = [&] {
      for (const auto& one : answers)
        if (one.body.find("s-000099") == std::string::npos) return;
      client.loop.quit();
    };
    exchanges.push_back(client.transport.open({.target = kServices + "?watch=1"}, answer));
  }
  client.loop.run();
  for (auto& answer : answers) CHECK(answer.status() == 200);
  CHECK(connections_to(server->port()) == (http2 ? 1 : 3));
  // Where one is distrusted, by whomever, what comes later shares another.
  exchanges[0]->distrust_connection();
  exchanges[1]->distrust_connection();
  std::array<Answer, 2> later;
  std::size_t begun = 0;
  for (auto& answer : later) {
    answer.then_head = [&] {
      if (++begun == later.size()) client.loop.quit();
    };
    exchanges.push_back(client.transport.open({.target = kServices + "?watch=1"}, answer));
  }
  client.loop.run();
  CHECK(connections_to(server->port()) == (http2 ? 2 : 5));
  // It ends with the last exchange on it.
  exchanges.erase(exchanges.begin(), exchanges.begin() + 3);
  CHECK(connections_to(server->port()) == (http2 ? 1 : 2));
}

TEST_CASE("a busy server says when to come back") {
  const auto server = started({});
  server->set_faults({.answers = {{.code = 429, .retry_after_seconds = 7, .times = 1}}});
  const auto answer = fetch({.server = server->url()});
  CHECK(answer.error().empty());
  CHECK(answer.head == ResponseHead{.status = 429, .retry_after = 7s});
  CHECK_THAT(answer.body, Contains("\"Status\""));
  CHECK(fetch({.server = server->url()}).head == ResponseHead{.status = 200, .retry_after = {}});
}

TEST_CASE("a body is sent") {
  const auto server = started({});
  Client client(ClusterAccess{.server = server->url()});
  const std::string event =
      watch::event_document({.event = {.regarding = {.kind = "Node", .name = "kp"},
                                       .reason = "Starting",
                                       .action = "StartKubeProxy"},
                             .host = "h",
                             .name = "a"});
  Answer answer;
  client.fetch(answer, "/apis/events.k8s.io/v1/namespaces/default/events", Method::post, event);
  CHECK(answer.status() == 201);
  CHECK(server->requests().at(0).body == event);
  CHECK(server->events().size() == 1);
  CHECK(server->requests().at(0).headers.at("content-type") == "application/json");
}

TEST_CASE("Events are told, and their repeats") {
  const bool tls_and_http2 = GENERATE(false, true);
  const Authority authority;
  test::ServerOptions options;
  if (tls_and_http2) options = {.tls = authority.server(), .http2 = true};
  const auto server = started(options);
  Client client(ClusterAccess{.server = server->url(), .ca_pem = authority.ca.certificate});
  watch::EventRecorder events(
      "host-1", client.transport, client.loop, [] { return 0.0; }, client.log);
  events.on_idle([&] { client.loop.quit(); });
  const watch::ClusterEvent event{.regarding = {.kind = "Service", .ns = "shop", .name = "web"},
                                  .level = watch::EventLevel::warning,
                                  .reason = "FailedToStartServiceHealthcheck",
                                  .action = "Listen",
                                  .note = std::string(2000, '\xff')};
  events.record(event);
  client.loop.run();
  REQUIRE(server->events().size() == 1);
  CHECK_THAT(server->events()[0], !Contains("series"));
  events.record(event);
  client.loop.run();
  REQUIRE(server->events().size() == 1);
  CHECK_THAT(server->events()[0], Contains(R"("series":{"count":2,"lastObservedTime":)"));
  CHECK(server->requests().at(1).method == "PATCH");
}

TEST_CASE("a server that is not there is named, with the cause") {
  const auto server = started({});
  const auto url = server->url();
  server->stop();
  const auto answer = fetch({.server = url});
  CHECK(answer.status() == 0);
  CHECK_THAT(answer.error(), Contains(url) && Contains("Connection refused"));
  CHECK_THAT(answer.error(), !Contains(" ms"));  // the same text each time
  CHECK_THAT(fetch({.server = "https://no-such-host.invalid:6443"}).error(),
             Contains("https://no-such-host.invalid:6443") && Contains("resolve"));
}

TEST_CASE("a server that is no URL is an error of the exchange") {
  const auto url = GENERATE("nonsense://x", "http://", "file:///etc/passwd");
  const auto answer = fetch({.server = url});
  CHECK(answer.status() == 0);
  CHECK_THAT(answer.error(), Contains(url));
}

TEST_CASE("the proxy that is named is used") {
  const auto server = started({});
  const auto answer = fetch({.server = server->url(), .proxy_url = "http://127.0.0.1:1"});
  CHECK(answer.status() == 0);
  CHECK_THAT(answer.error(), Contains("refused"));
  CHECK(server->requests().empty());
}

// Of the environment while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST_CASE("the password in a proxy's URL is in no message, whatever is wrong with the URL") {
  const std::string url =
      GENERATE("http://user:secret@127.0.0.1:1", "http://user:secret@127.0.0.1:1x",
               "http://user:sec ret@127.0.0.1:1", "http://user:secret@no-such-host.invalid:1",
               "socks5h://user:secret@127.0.0.1:1", "nonsense://user:secret@127.0.0.1:1",
               "nonsense://user:" + std::string(400, 's') + "sec@127.0.0.1:1");
  const bool by_environment = GENERATE(false, true);
  const Variable proxy("HTTPS_PROXY", by_environment ? url : "");
  const auto answer =
      fetch({.server = "https://127.0.0.1:1", .proxy_url = by_environment ? "" : url});
  CHECK(answer.status() == 0);
  CHECK_THAT(answer.error(), Contains("https://127.0.0.1:1"));
  CHECK_THAT(answer.error(), !Contains("user") && !Contains("sec") && !Contains("sss"));
}

TEST_CASE("NO_PROXY is about the server, whatever name its certificate has") {
  const Authority authority;
  const auto server = started({.tls = authority.server({.dns_names = {"api.example"}})});
  const ClusterAccess access{.server = server->url(),
                             .ca_pem = authority.ca.certificate,
                             .tls_server_name = "api.example"};
  const Variable proxy("HTTPS_PROXY", "http://127.0.0.1:1");
  CHECK_THAT(fetch(access).error(), Contains("refused"));
  {
    const Variable none("NO_PROXY", "api.example");
    CHECK_THAT(fetch(access).error(), Contains("refused"));
    CHECK(server->requests().empty());
  }
  const Variable none("NO_PROXY", "localhost,127.0.0.0/8");
  CHECK(fetch(access).status() == 200);
}

}  // namespace
}  // namespace ipvsproxier::access
