// The test API server with TLS, client certificates and HTTP/2.

#include <fstream>

#include "test/support/api_server/certificates.h"
#include "test/support/api_server/objects.h"
#include "test/support/temp_dir.h"
#include "test/unit/api_server_client.h"

namespace ipvsproxier::test {
namespace {

// A CA, files for clients, and servers with certificates of it.
class Authority {
 public:
  explicit Authority(const std::string& name = "cluster") : ca_(*make_authority(name)) {
    ca_file = write("ca", ca_.certificate);
  }

  ServerTls server(const CertificateWish& wish = server_wish()) const {
    const auto made = issue(ca_, wish);
    REQUIRE(made);
    return {.certificate = made->certificate, .key = made->key, .client_ca = ca_.certificate};
  }

  void add_client(HttpRequest& request, const std::string& name) const {
    const auto made = issue(ca_, {.name = name, .client = true});
    REQUIRE(made);
    request.certificate_file = write("client", made->certificate);
    request.key_file = write("client-key", made->key);
  }

  std::string ca_file;

 private:
  std::string write(const std::string& name, const std::string& text) const {
    const auto path = (folder_.path() / name).string();
    std::ofstream(path) << text;
    return path;
  }

  TempDir folder_;
  Certificate ca_;
};

TEST_CASE("a server shows its certificate; a wrong one is refused by who looks") {
  const Authority authority;
  const Authority other("elsewhere");
  const auto server = started({.tls = authority.server()});
  const auto ask = [&](const std::string& ca_file) {
    return fetch({.url = server->url() + "/api/v1/services", .ca_file = ca_file});
  };
  CHECK(server->url().starts_with("https://"));
  const auto port = server->port();
  CHECK(ask(authority.ca_file).code == 200);
  CHECK(ask(other.ca_file).code == 0);
  CHECK(ask(other.ca_file).error.find("certificate") != std::string::npos);

  REQUIRE(server->set_tls(authority.server({.dns_names = {"elsewhere.example"}})));
  CHECK(server->port() == port);
  CHECK(ask(authority.ca_file).code == 0);
  CHECK(ask(authority.ca_file).error.find("certificate") != std::string::npos);

  auto expired = server_wish();
  expired.expired = true;
  REQUIRE(server->set_tls(authority.server(expired)));
  CHECK(ask(authority.ca_file).code == 0);

  REQUIRE(server->set_tls(authority.server()));
  CHECK(ask(authority.ca_file).code == 200);
}

TEST_CASE("a client certificate of the CA is a credential; where it is required nothing else is") {
  const Authority authority;
  const Authority other("elsewhere");
  const bool required = GENERATE(false, true);
  auto tls = authority.server();
  tls.client_ca_required = required;
  const auto server = started({.tls = tls, .token = "right"});
  HttpRequest request{.url = server->url() + "/api/v1/services", .ca_file = authority.ca_file};

  request.headers = {"Authorization: Bearer right"};
  CHECK(fetch(request).code == (required ? 401 : 200));
  request.headers = {};
  authority.add_client(request, "system:kube-proxy");
  CHECK(fetch(request).code == 200);
  other.add_client(request, "system:kube-proxy");
  CHECK(fetch(request).code == (required ? 401 : 403));
  const auto log = server->requests();
  REQUIRE(log.size() == 3);
  CHECK(log[1].credential == "certificate system:kube-proxy");
  CHECK(log[2].credential == "anonymous");
}

TEST_CASE("HTTP/2 comes by nghttpx, with lists and watches as by HTTP/1.1") {
  const Authority authority;
  const bool tls = GENERATE(false, true);
  ServerOptions options{.http2 = true, .token = "right"};
  if (tls) options.tls = authority.server();
  const auto server = started(options);
  REQUIRE(server->put_all(make_services(200)));
  HttpRequest request{.url = server->url() + "/api/v1/services",
                      .headers = {"Authorization: Bearer right"},
                      .ca_file = authority.ca_file,
                      .http2 = true,
                      .traced = true};
  const auto list = fetch(request);
  INFO(list.trace);
  CHECK(list.error == "");
  CHECK(list.version == 2);
  CHECK(Json::parse(list.body)["items"].size() == 200);
  CHECK(server->requests().at(0).credential == "token right");
  request.http2 = false;
  request.traced = false;
  CHECK(fetch(request).version == 1);

  request.http2 = true;
  request.url = watch_from_now(*server);
  const HttpStream stream(request);
  REQUIRE(server->wait_for_watches(Resource::services, 1));
  REQUIRE(server->put(make_service("shop", "web", "10.96.0.10")));
  CHECK(stream.lines(1).size() == 1);
  server->reset_connections();
  CHECK_FALSE(stream.response().error.empty());
  CHECK(server->wait_for_watches(Resource::services, 0));

  request.user_timeout_milliseconds = 2000;
  const HttpStream dying(request);
  REQUIRE(server->wait_for_watches(Resource::services, 1));
  server->vanish();
  CHECK_FALSE(dying.response().error.empty());
  server->reappear();
  const auto port = server->port();
  server->stop();
  REQUIRE(server->resume());
  CHECK(server->port() == port);
  request.user_timeout_milliseconds = 0;
  request.url = server->url() + "/api/v1/nodes";
  CHECK(fetch(request).version == 2);
}

}  // namespace
}  // namespace ipvsproxier::test
