#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "netlink/unique_fd.h"
#include "proxier/access/exec_plugin.h"
#include "proxier/access/pem.h"
#include "test/unit/certificates.h"
#include "test/unit/credentials_fixture.h"

namespace ipvsproxier::access {
namespace {

using netlink::UniqueFd;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::kCertificateOne;
using test::kKeyOne;
using test::kKeyTwo;

const std::string kV1 = "client.authentication.k8s.io/v1";

// What a plugin prints; `status` is the members of it.
std::string credential(const std::string& status, const std::string& version = kV1) {
  return R"({"kind": "ExecCredential", "apiVersion": ")" + version + R"(", "status": {)" + status +
         "}}";
}

// A string of JSON.
std::string escaped(std::string text) {
  for (auto at = text.find('\n'); at != std::string::npos; at = text.find('\n', at))
    text.replace(at, 1, "\\n");
  return '"' + text + '"';
}

struct PluginFixture : test::CredentialsFixture {
  PluginFixture() {
    source.exec = ExecPlugin{.command = path("plugin"), .api_version = kV1};
    write("runs", "");
    write("status", R"("token": "first")");
  }
  // A shell script, which notes that it ran.
  void plugin(const std::string& script) {
    write("plugin", "#!/bin/sh\ncd '" + folder.path().native() + "' || exit 9\necho >>runs\n" +
                        script + "\n");
    REQUIRE(::chmod(path("plugin").c_str(), 0700) == 0);
    if (!credentials) start();
  }
  // One that prints the members that stand in the file `status` when it runs.
  void good_plugin() { plugin("cat <<END\n" + credential("$(cat status)") + "\nEND"); }
  std::string read(const std::string& name) const { return test::read_file(folder.path() / name); }
  std::size_t runs() const { return read("runs").size(); }
  std::string failure(const std::string& how) const {
    return fmt::format("proxy.conf: user u: {} {}", path("plugin"), how);
  }
};

// A pipe with a name whose writers are programs: its end is their end.
struct Fifo {
  UniqueFd reader;

  explicit Fifo(const std::string& path) {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    reader = UniqueFd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    REQUIRE(reader);
  }
  // Blocks until somebody wrote something, or all are gone (""). There has been a writer.
  std::string wait() const {
    REQUIRE(::fcntl(reader.get(), F_SETFL, 0) == 0);
    std::array<char, 100> text{};
    const auto size = ::read(reader.get(), text.data(), text.size());
    REQUIRE(size >= 0);
    return {text.data(), static_cast<std::size_t>(size)};
  }
};

TEST_CASE("a plugin is asked once, for all who wait, and its answer used from then on") {
  PluginFixture f;
  f.good_plugin();
  CHECK(!f.credentials->current());
  CHECK(!f.credentials->current());
  std::vector<std::string> tokens;
  std::vector<Credentials::Wait> waits;
  for (int i = 0; i < 3; ++i)
    waits.push_back(f.credentials->when_known([&](const Credentials::Answer& access) {
      tokens.push_back(access->bearer_token);
      if (tokens.size() == 3) f.loop.quit();
    }));
  CHECK(tokens.empty());
  f.loop.run();
  CHECK(tokens == std::vector<std::string>{"first", "first", "first"});
  CHECK(f.token() == "first");
  CHECK(f.access().server == "https://10.0.0.1:6443");
  CHECK(f.runs() == 1);
}

TEST_CASE("who waits without having asked is answered too") {
  PluginFixture f;
  f.good_plugin();
  std::string token;
  const auto wait = f.credentials->when_known([&](const Credentials::Answer& access) {
    token = access->bearer_token;
    f.loop.quit();
  });
  f.loop.run();
  CHECK(token == "first");
  CHECK(f.runs() == 1);
}

TEST_CASE("a plugin's answer is used until shortly before it expires") {
  PluginFixture f;
  f.wall = std::chrono::system_clock::time_point(seconds(1'795'262'400));  // 2026-11-21T12:00:00Z
  f.write("status", R"("token": "first", "expirationTimestamp": "2026-11-21T12:05:00Z")");
  f.good_plugin();
  CHECK(f.token() == "first");
  f.write("status", R"("token": "second")");
  f.wall += seconds(289);
  CHECK(f.token() == "first");
  f.wall += seconds(1);
  CHECK(f.token() == "second");
  f.wall += seconds(1'000'000);
  CHECK(f.token() == "second");
  CHECK(f.runs() == 2);
}

TEST_CASE("a credential that has expired when it comes is used for what waited for it") {
  PluginFixture f;
  f.write("status", R"("token": "late", "expirationTimestamp": "2001-01-01T00:00:00Z")");
  f.good_plugin();
  CHECK(f.token() == "late");
  CHECK(f.token() == "late");
  CHECK(f.runs() == 2);
}

TEST_CASE("a wall clock that jumps neither uses up credentials nor keeps dead ones") {
  PluginFixture f;
  f.wall = std::chrono::system_clock::time_point(seconds(1'795'262'400));  // 2026-11-21T12:00:00Z
  f.write("status", R"("token": "first", "expirationTimestamp": "2026-11-21T12:05:00Z")");
  f.good_plugin();
  const auto first = f.access();
  f.write("status", R"("token": "second", "expirationTimestamp": "2026-11-21T13:00:00Z")");
  SECTION("hours back: what has expired is used until the server refuses it") {
    f.wall -= std::chrono::hours(6);
    f.steady += std::chrono::hours(1);
    CHECK(f.token() == "first");
    f.credentials->reread(first);
    CHECK(f.token() == "second");
    CHECK(f.runs() == 2);
  }
  SECTION("hours ahead: the plugin is asked for every request, and believed") {
    f.wall += std::chrono::hours(6);
    CHECK(f.token() == "second");
    CHECK(f.token() == "second");
    CHECK(f.runs() == 3);
    f.wall -= std::chrono::hours(6);
    CHECK(f.token() == "second");
    CHECK(f.runs() == 3);
  }
  SECTION("nor does a plugin that failed have to wait for hours") {
    f.wall -= std::chrono::hours(6);
    f.credentials->reread(first);
    f.write("status", R"("no": "token")");
    CHECK_FALSE(f.error().empty());
    f.write("status", R"("token": "third")");
    f.steady += kPluginRest;
    CHECK(f.token() == "third");
  }
}

TEST_CASE("a 401 asks the plugin again, once for all whose credential was refused") {
  PluginFixture f;
  f.good_plugin();
  const auto refused = f.access();
  f.write("status", R"("token": "second")");
  f.credentials->reread(refused);
  f.credentials->reread(refused);
  CHECK(f.token() == "second");
  f.credentials->reread(refused);
  CHECK(f.token() == "second");
  CHECK(f.runs() == 2);
}

TEST_CASE("a plugin may give a client certificate, which must fit its key") {
  PluginFixture f;
  const auto pair = [](const std::string& key) {
    return credential(R"("clientCertificateData": )" + escaped(kCertificateOne) +
                      R"(, "clientKeyData": )" + escaped(key));
  };
  f.write("answer", pair(kKeyOne));
  f.plugin("cat answer");
  const auto access = f.access();
  CHECK(access.client_certificate_pem == kCertificateOne);
  CHECK(access.client_key_pem == kKeyOne);
  CHECK(access.bearer_token.empty());
  f.write("answer", pair(kKeyTwo));
  f.credentials->reread(access);
  CHECK(f.error() == f.failure("printed a client certificate that is of no use: the client key is "
                               "not that of the client certificate (malformed)"));
}

TEST_CASE("what a plugin is given: arguments, environment, no input, nothing of ours") {
  PluginFixture f;
  f.source.exec->arguments = {"-a", "b c", ""};
  f.source.exec->environment = {"GREETING=hello = you", "HOME=/nowhere"};
  f.plugin(
      "for word; do echo \"<$word>\"; done >arguments\n"
      "echo \"$GREETING $HOME $KUBERNETES_EXEC_INFO\" >environment\n"
      "cat >input\n"
      "grep ^SigBlk /proc/self/status >blocked\n"
      // Who ignores the signal goes on.
      "sh -c 'kill -PIPE $$; echo ignored'; echo $? >pipe\n"
      // Of the one that lists: its own folder is the fourth.
      "ls /proc/self/fd | wc -l >descriptors\n"
      "cut -d ' ' -f 5 /proc/$$/stat >group; echo $$ >own\n"
      "echo '" +
      credential(R"("token": "t")") + "'");
  // Ours without CLOEXEC, and a blocked and an ignored signal.
  std::array<int, 2> leaking{};
  REQUIRE(::pipe(leaking.data()) == 0);
  const UniqueFd one(leaking[0]);
  const UniqueFd other(leaking[1]);
  sigset_t usual;
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  REQUIRE(pthread_sigmask(SIG_BLOCK, &blocked, &usual) == 0);
  const auto handler = std::signal(SIGPIPE, SIG_IGN);
  CHECK(f.token() == "t");
  std::signal(SIGPIPE, handler);
  REQUIRE(pthread_sigmask(SIG_SETMASK, &usual, nullptr) == 0);

  CHECK(f.read("arguments") == "<-a>\n<b c>\n<>\n");
  CHECK(f.read("environment") == R"(hello = you /nowhere {"kind":"ExecCredential","apiVersion":")" +
                                     kV1 + "\",\"spec\":{\"interactive\":false}}\n");
  CHECK(f.read("input").empty());
  CHECK(f.read("blocked") == "SigBlk:\t0000000000000000\n");
  CHECK(f.read("pipe") == std::to_string(128 + SIGPIPE) + "\n");
  CHECK(f.read("descriptors") == "4\n");
  CHECK(f.read("group") == f.read("own"));
}

TEST_CASE("a plugin is told of the cluster if it asks") {
  PluginFixture f;
  f.source.fixed.tls_server_name = "api";
  f.source.fixed.proxy_url = "http://p:1";
  f.source.ca_file = f.path("ca.crt");
  f.write("ca.crt", kCertificateOne);
  f.source.exec->provide_cluster_info = true;
  f.source.exec->cluster_config_json = R"({"audience":"x"})";
  f.plugin("echo \"$KUBERNETES_EXEC_INFO\" >info; echo '" + credential(R"("token": "t")") + "'");
  CHECK(f.token() == "t");
  CHECK(f.read("info") == R"({"kind":"ExecCredential","apiVersion":")" + kV1 +
                              R"(","spec":{"cluster":{"server":"https://10.0.0.1:6443",)"
                              R"("tls-server-name":"api","certificate-authority-data":")" +
                              base64_encode(kCertificateOne) +
                              R"(","proxy-url":"http://p:1","config":{"audience":"x"}},)"
                              R"("interactive":false}})"
                              "\n");
}

TEST_CASE("a plugin that fails is quoted, left alone for a moment, then asked again") {
  PluginFixture f;
  f.plugin("echo 'no   such\nsession' >&2; printf '\\033[1m' >&2; echo t0p; exit 3");
  const auto expected = f.failure("ended with status 3; it said: no such session [1m (failed)");
  CHECK(f.error() == expected);
  CHECK(f.error() == expected);
  CHECK(f.runs() == 1);
  f.steady += kPluginRest;
  CHECK(f.error() == expected);
  CHECK(f.runs() == 2);
  f.good_plugin();
  f.steady += kPluginRest;
  CHECK(f.token() == "first");
  f.plugin("kill -9 $$");
  f.credentials->reread(f.access());
  CHECK(f.error() == f.failure("was ended by signal 9 (failed)"));
}

TEST_CASE("a plugin says much: the end of it is shown") {
  PluginFixture f;
  f.plugin("yes 0123456789 | head -c 1100000 >&2; echo the end >&2; exit 1");
  const auto error = f.error();
  CHECK(error.find("it said: ...") != std::string::npos);
  CHECK(error.find("0123456789 the end (failed)") != std::string::npos);
  CHECK(error.size() < 600);
}

TEST_CASE("a plugin that prints no credential: nothing of it is repeated") {
  PluginFixture f;
  const auto printing = [&f](const std::string& text) {
    f.write("answer", text);
    f.plugin("cat answer");
    f.steady += kPluginRest;
    const auto error = f.error();
    CHECK(error.find("s3cret") == std::string::npos);
    const auto start = f.failure("");
    REQUIRE(error.starts_with(start));
    return error.substr(start.size());
  };
  const std::string none = "printed no ExecCredential (one JSON object) (malformed)";
  CHECK(printing("") == none);
  CHECK(printing("s3cret") == none);
  CHECK(printing("{\"token\": s3cret") == none);
  CHECK(printing("[]") == none);
  CHECK(printing(credential(R"("token": "a")") + credential(R"("token": "b")")) == none);
  CHECK(printing(std::string("\0\xff\xfe", 3)) == none);
  CHECK(printing("{}") == "printed an object of another kind than ExecCredential (malformed)");
  CHECK(printing(R"({"kind": "ExecCredential", "apiVersion": ")" + kV1 + "\"}") ==
        "printed an ExecCredential without a status (malformed)");
  CHECK(printing(credential(R"("token": "s3cret")", "client.authentication.k8s.io/v1beta1")) ==
        "printed an ExecCredential of another apiVersion than client.authentication.k8s.io/v1, "
        "which the kubeconfig says it speaks (malformed)");
  CHECK(printing(credential(R"("token": 5)")) ==
        "printed what is no ExecCredential: status.token: must be text (in "
        "quotes), not a number (malformed)");
  CHECK(printing(credential("")) == "printed neither a token nor a client certificate (malformed)");
  CHECK(printing(credential(R"("token": "s3cret s3cret")")) ==
        "printed a token that holds blanks or characters that no token has (malformed)");
  CHECK(printing(credential(R"("clientKeyData": "s3cret")")) ==
        "printed only one of clientCertificateData and clientKeyData (malformed)");
  CHECK(printing(credential(R"("token": "s3cret", "expirationTimestamp": "tomorrow")")) ==
        "printed an expirationTimestamp that is no time of RFC 3339 (malformed)");
}

TEST_CASE("a plugin that prints without end is stopped") {
  PluginFixture f;
  f.plugin("yes s3cret");
  CHECK(f.error() == f.failure("printed more than 1048576 bytes (malformed)"));
}

TEST_CASE("a plugin that does not end is killed with all that it started") {
  PluginFixture f;
  f.source.exec->time_limit = milliseconds(3000);
  const Fifo alive(f.path("alive"));
  f.plugin("exec 3>alive; echo waiting >&2; sleep 1000 & sleep 1000");
  CHECK(f.error() == f.failure("did not end within 3000 ms; it said: waiting (timeout)"));
  CHECK(alive.wait().empty());
}

TEST_CASE("a plugin that has closed its output but does not end is killed too") {
  PluginFixture f;
  f.source.exec->time_limit = milliseconds(3000);
  const Fifo alive(f.path("alive"));
  f.plugin("exec 3>alive; exec >&- 2>&-; sleep 1000");
  CHECK(f.error() == f.failure("did not end within 3000 ms (timeout)"));
  CHECK(alive.wait().empty());
}

TEST_CASE("the exit status counts, also when it comes after the end of the output") {
  PluginFixture f;
  f.plugin("echo '" + credential(R"("token": "t")") + "'; exec >&- 2>&-; sleep 0.2; exit 4");
  CHECK(f.error() == f.failure("ended with status 4 (failed)"));
}

TEST_CASE("the loop goes on while a plugin runs") {
  PluginFixture f;
  const Fifo asked(f.path("asked"));
  REQUIRE(::mkfifo(f.path("go").c_str(), 0600) == 0);
  f.plugin("echo asked >asked; read word <go; echo '" + credential(R"("token": "t")") + "'");
  UniqueFd go;  // open until the plugin has read
  bool answered_from_the_loop = false;
  f.loop.watch(asked.reader.get(), [&] {
    f.loop.unwatch(asked.reader.get());
    go = UniqueFd(::open(f.path("go").c_str(), O_RDWR | O_CLOEXEC));
    answered_from_the_loop = ::write(go.get(), "go\n", 3) == 3;
  });
  CHECK(f.token() == "t");
  CHECK(answered_from_the_loop);
}

TEST_CASE("a program that is not there: the hint says what to do") {
  PluginFixture f;
  f.source.exec->command = f.path("nowhere");
  f.start();
  CHECK(f.error() ==
        "proxy.conf: user u: run " + f.path("nowhere") + ": No such file or directory (missing)");
  f.source.exec->install_hint = "get it from the vendor";
  f.start();
  CHECK(f.error() == "proxy.conf: user u: run " + f.path("nowhere") +
                         ": there is no such program; get it from the vendor (missing)");
  f.write("plugin", "#!/bin/sh\n");
  REQUIRE(::chmod(f.path("plugin").c_str(), 0600) == 0);
  f.source.exec->command = f.path("plugin");
  f.start();
  CHECK(f.error() ==
        "proxy.conf: user u: run " + f.path("plugin") + ": Permission denied (denied)");
}

TEST_CASE("a plugin is killed when nobody needs it any more") {
  PluginFixture f;
  const Fifo alive(f.path("alive"));
  f.plugin("exec 3>alive; echo on >&3; exec sleep 1000");
  CHECK(!f.credentials->current());
  bool called = false;
  {
    const auto wait = f.credentials->when_known([&](const auto&) { called = true; });
    f.loop.watch(alive.reader.get(), [&] { f.loop.quit(); });
    f.loop.run();
    f.loop.unwatch(alive.reader.get());
  }
  CHECK(alive.wait() == "on\n");
  f.credentials.reset();
  CHECK(alive.wait().empty());
  CHECK(!called);
}

}  // namespace
}  // namespace ipvsproxier::access
