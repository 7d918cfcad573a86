// Unix sockets, and HTTP on them.

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include <spdlog/sinks/null_sink.h>
#include <catch2/catch.hpp>

#include "proxier/serve/http_server.h"
#include "proxier/serve/listen_socket.h"
#include "test/support/files.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::serve {
namespace {

// What comes back until the other end closes; "refused" without one.
std::string ask(const std::string& path, const std::string& request) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(&name.sun_path[0], sizeof name.sun_path - 1);
  const netlink::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0)
    return "refused";
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "gone";
  std::string answer(65536, 0);
  std::size_t size = 0;
  for (;;) {
    const auto got = ::recv(fd.get(), answer.data() + size, answer.size() - size, 0);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  answer.resize(size);
  return answer;
}

TEST_CASE("a local socket is its owner's alone, in a folder that is made, and answers HTTP") {
  const test::TempDir dir;
  const std::string path = dir.path() / "run" / "control.sock";
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  HttpServer server(logger);
  auto socket = open_local_socket(path);
  REQUIRE(socket);
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  CHECK((found.st_mode & 07777) == 0600);
  CHECK(S_ISSOCK(found.st_mode));
  REQUIRE(server.serve(
      *std::move(socket),
      routes({{"/hello", [](const HttpRequest&) { return plain_text(200, "there"); }}})));
  const auto answer =
      ask(path, "GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  CHECK(answer.find("HTTP/1.1 200 OK") == 0);
  CHECK(answer.find("\r\n\r\nthere") != std::string::npos);
}

TEST_CASE("a local socket that a process left is replaced, one that answers is not") {
  const test::TempDir dir;
  const std::string path = dir.path() / "control.sock";
  {
    const auto left = open_local_socket(path);
    REQUIRE(left);
    const auto second = open_local_socket(path);
    REQUIRE_FALSE(second);
    CHECK(second.error().kind == netlink::ErrorKind::already);
    CHECK(to_string(second.error()).find(path) != std::string::npos);
  }
  CHECK(ask(path, "x") == "refused");
  CHECK(open_local_socket(path));
}

TEST_CASE("what is no place for a local socket is named") {
  const test::TempDir dir;
  for (const auto& path : {std::string(), std::string(dir.path()) + "/" + std::string(200, 'x')}) {
    const auto socket = open_local_socket(path);
    REQUIRE_FALSE(socket);
    CHECK(socket.error().kind == netlink::ErrorKind::malformed);
  }
  const auto file = (dir.path() / "file").string();
  test::write_file(file, "mine");
  const auto socket = open_local_socket(file);
  REQUIRE_FALSE(socket);
  CHECK(socket.error().sys_errno == EADDRINUSE);
  CHECK(test::read_file(file) == "mine");
}

}  // namespace
}  // namespace ipvsproxier::serve
