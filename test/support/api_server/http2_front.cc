#include "test/support/api_server/http2_front.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "netlink/unique_fd.h"

namespace ipvsproxier::test {
namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::make_error;
using netlink::Operation;
using netlink::Result;
using netlink::UniqueFd;

constexpr std::chrono::seconds kStart{10};

std::string written(const TempDir& folder, const std::string& name, const std::string& text) {
  const auto path = folder.path() / name;
  std::ofstream(path) << text;
  return path.string();
}

// nghttpx's own time-outs are longer than any test: faults are the Front's to make.
std::vector<std::string> arguments(std::uint16_t port, std::uint16_t backend,
                                   const std::optional<ServerTls>& tls, const TempDir& folder) {
  std::vector<std::string> out{
      "nghttpx",
      "--conf=/dev/null",
      "--single-process",
      "--workers=1",
      "--no-via",
      "--no-server-rewrite",
      "--no-ocsp",
      "--errorlog-file=" + (folder.path() / "errors").string(),
      "--frontend-http2-read-timeout=1h",
      "--frontend-read-timeout=1h",
      "--frontend-write-timeout=1h",
      "--backend-read-timeout=1h",
      "--backend-write-timeout=1h",
      fmt::format("--backend=127.0.0.1,{}", backend),
      fmt::format("--frontend=127.0.0.1,{}{}", port, tls ? "" : ";no-tls")};
  if (!tls) return out;
  if (tls->client_ca_required) {
    out.push_back("--verify-client");
    out.push_back("--verify-client-cacert=" + written(folder, "client-ca", tls->client_ca));
  }
  out.push_back(written(folder, "key", tls->key));
  out.push_back(written(folder, "certificate", tls->certificate));
  return out;
}

// What it says goes to this file.
pid_t spawn(const std::vector<std::string>& arguments, const std::string& log) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  execvp(argv[0], argv.data());
  _exit(127);
}

std::optional<std::uint16_t> local_port(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      address.sin_family != AF_INET)
    return std::nullopt;
  return ntohs(address.sin_port);
}

// nghttpx does not take 0 for any. The kernel does not give a port again soon.
std::uint16_t free_port() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 0;
  return local_port(socket.get()).value_or(0);
}

bool is_listening(int socket) {
  int listening = 0;
  socklen_t size = sizeof listening;
  return getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0;
}

// Copies of every descriptor of another process.
void each_descriptor(pid_t process, const std::function<void(int)>& visit) {
  const UniqueFd handle(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!handle) return;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", process), error)) {
    const UniqueFd copy(static_cast<int>(
        syscall(SYS_pidfd_getfd, handle.get(), std::atoi(entry.path().filename().c_str()), 0)));
    if (copy) visit(copy.get());
  }
}

}  // namespace

Result<std::unique_ptr<Http2Front>> Http2Front::start(std::uint16_t port, std::uint16_t backend,
                                                      const std::optional<ServerTls>& tls) {
  std::unique_ptr<Http2Front> front(new Http2Front);
  front->port_ = port != 0 ? port : free_port();
  const auto log = (front->files_.path() / "log").string();
  front->child_ = spawn(arguments(front->port_, backend, tls, front->files_), log);
  if (front->child_ < 0) return make_error(Operation::generic, errno, "start nghttpx");
  const auto deadline = std::chrono::steady_clock::now() + kStart;
  while (!front->listens()) {
    if (waitpid(front->child_, nullptr, WNOHANG) == front->child_) {
      front->child_ = -1;
      std::ostringstream said;
      said << std::ifstream(log).rdbuf();
      return Error{ErrorKind::io, 0, "nghttpx (of nghttp2-proxy) ended at once: " + said.str()};
    }
    if (std::chrono::steady_clock::now() > deadline)
      return Error{ErrorKind::timeout, 0, "nghttpx does not listen"};
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return front;
}

bool Http2Front::listens() const {
  bool found = false;
  each_socket([&](int, bool listening) { found = found || listening; });
  return found;
}

void Http2Front::each_socket(const std::function<void(int, bool)>& visit) const {
  each_descriptor(child_, [&](int socket) {
    if (local_port(socket) == port_) visit(socket, is_listening(socket));
  });
}

Http2Front::~Http2Front() {
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

}  // namespace ipvsproxier::test
