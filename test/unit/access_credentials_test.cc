#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/access/credentials.h"
#include "test/unit/certificates.h"
#include "test/unit/credentials_fixture.h"

namespace ipvsproxier::access {
namespace {

using std::chrono::seconds;
using test::kCertificateOne;
using test::kCertificateTwo;
using test::kKeyOne;
using test::kKeyTwo;

struct TokenFixture : test::CredentialsFixture {
  // The token from a file, as a pod has it.
  void with_token_file() {
    source.token_file = path("token");
    write("token", "first\n");
    start();
  }
};

TEST_CASE("what does not change is there at once, for those who wait too") {
  TokenFixture f;
  f.source.fixed.bearer_token = "t";
  f.source.fixed.ca_pem = kCertificateOne;
  auto& credentials = f.start();
  const auto now = credentials.current();
  REQUIRE(now);
  CHECK(**now == f.source.fixed);

  int called = 0;
  const auto wait = credentials.when_known([&](const Credentials::Answer& access) {
    ++called;
    CHECK(*access == f.source.fixed);
    f.loop.quit();
  });
  CHECK(called == 0);
  f.loop.run();
  CHECK(called == 1);
}

TEST_CASE("a token file is looked at again after a minute, not before") {
  TokenFixture f;
  f.with_token_file();
  CHECK(f.token() == "first");
  f.write("token", "second");
  f.steady += kCredentialFileAge - seconds(1);
  CHECK(f.token() == "first");
  f.steady += seconds(1);
  CHECK(f.token() == "second");
  CHECK(f.take_log().empty());
}

TEST_CASE("a 401 makes the token be read again, unless there is a newer one already") {
  TokenFixture f;
  f.with_token_file();
  const auto refused = f.access();
  f.write("token", "second");
  f.credentials->reread(refused);
  CHECK(f.token() == "second");
  // Another request of the old token comes back: nothing is read for it.
  f.write("token", "third");
  f.credentials->reread(refused);
  CHECK(f.token() == "second");
  f.credentials->reread(f.access());
  CHECK(f.token() == "third");
}

TEST_CASE("a token file that goes or makes no sense costs a warning, and what was read stays") {
  TokenFixture f;
  f.with_token_file();
  CHECK(f.token() == "first");
  std::filesystem::remove(f.path("token"));
  f.steady += kCredentialFileAge;
  CHECK(f.token() == "first");
  CHECK(f.take_log() == "warning: proxy.conf: user u: " + f.path("token") +
                            ": cannot be read: No such file or directory; what was read before "
                            "stays in use, looking again in 60 s\n");
  // Said once.
  f.steady += kCredentialFileAge;
  CHECK(f.token() == "first");
  CHECK(f.take_log().empty());
  f.write("token", "a b");
  f.steady += kCredentialFileAge;
  CHECK(f.token() == "first");
  CHECK(f.take_log().find("holds blanks") != std::string::npos);
  f.write("token", "good");
  f.steady += kCredentialFileAge;
  CHECK(f.token() == "good");
}

TEST_CASE("a token that was never read is an error, and looked for at each request") {
  TokenFixture f;
  f.source.token_file = f.path("token");
  f.start();
  CHECK(f.error() == "proxy.conf: user u: " + f.path("token") +
                         ": cannot be read: No such file or directory (missing)");
  f.write("token", "t");
  CHECK(f.token() == "t");
}

TEST_CASE("of a token and a token file the file counts as soon as it can be read") {
  TokenFixture f;
  f.source.fixed.bearer_token = "written";
  f.source.token_file = f.path("token");
  f.start();
  CHECK(f.token() == "written");
  f.write("token", "filed");
  f.steady += kCredentialFileAge;
  CHECK(f.token() == "filed");
}

TEST_CASE("a certificate authority that is replaced is there for new connections") {
  TokenFixture f;
  f.source.ca_file = f.path("ca.crt");
  f.write("ca.crt", kCertificateOne);
  f.start();
  CHECK(f.access().ca_pem == kCertificateOne);
  f.write("ca.crt", kCertificateOne + kCertificateTwo);
  f.steady += kCredentialFileAge;
  CHECK(f.access().ca_pem == kCertificateOne + kCertificateTwo);
  // Never no authority, which would be the system's.
  f.write("ca.crt", "");
  f.steady += kCredentialFileAge;
  CHECK(f.access().ca_pem == kCertificateOne + kCertificateTwo);
  CHECK(f.take_log().find("holds no certificate") != std::string::npos);
}

TEST_CASE("a client certificate is taken over with its key only") {
  TokenFixture f;
  f.source.client_certificate_file = f.path("crt");
  f.source.client_key_file = f.path("key");
  f.write("crt", kCertificateOne);
  f.write("key", kKeyOne);
  f.start();
  CHECK(f.access().client_key_pem == kKeyOne);
  f.write("crt", kCertificateTwo);
  f.steady += kCredentialFileAge;
  CHECK(f.access().client_certificate_pem == kCertificateOne);
  CHECK(f.access().client_key_pem == kKeyOne);
  CHECK(f.take_log().find("the client key is not that") != std::string::npos);
  f.write("key", kKeyTwo);
  f.credentials->reread(f.access());
  CHECK(f.access().client_certificate_pem == kCertificateTwo);
  CHECK(f.access().client_key_pem == kKeyTwo);
}

TEST_CASE("who waits no longer is not called; who waits may wait again, and end others' waiting") {
  TokenFixture f;
  f.source.fixed.bearer_token = "t";
  auto& credentials = f.start();
  std::string called;
  Credentials::Wait second;
  Credentials::Wait again;
  const auto first = credentials.when_known([&](const auto&) {
    called += "1";
    second = {};
    again = credentials.when_known([&](const auto&) {
      called += "a";
      f.loop.quit();
    });
  });
  second = credentials.when_known([&](const auto&) { called += "2"; });
  {
    const auto gone = credentials.when_known([&](const auto&) { called += "3"; });
  }
  auto replaced = credentials.when_known([&](const auto&) { called += "4"; });
  replaced = credentials.when_known([&](const auto&) { called += "5"; });
  f.loop.run();
  CHECK(called == "15a");
}

}  // namespace
}  // namespace ipvsproxier::access
