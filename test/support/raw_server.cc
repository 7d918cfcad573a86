#include "test/support/raw_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "test/support/sockets.h"

namespace ipvsproxier::test {

namespace {

constexpr int kPatienceMs = 10'000;

// Until the client closes: an end while bytes of it are unread would be a reset.
void drain(int socket) {
  std::array<char, 4096> buffer{};
  ::shutdown(socket, SHUT_WR);
  while (wait_for(socket, POLLIN, kPatienceMs, "drain") &&
         ::recv(socket, buffer.data(), buffer.size(), 0) > 0) {
  }
}

}  // namespace

std::unique_ptr<RawServer> RawServer::start(Answer answer) {
  std::unique_ptr<RawServer> server(new RawServer(std::move(answer)));
  auto listener =
      server_socket(netlink::Protocol::tcp, netlink::IpAddress::parse("127.0.0.1").value(), 0);
  if (!listener) return nullptr;
  server->listener_ = *std::move(listener);
  sockaddr_in bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(server->listener_.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return nullptr;
  server->port_ = ntohs(bound.sin_port);
  if (!server->thread_.start([self = server.get()] { self->serve(); })) return nullptr;
  return server;
}

std::vector<std::string> RawServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void RawServer::serve() {
  while (true) {
    std::array<pollfd, 2> fds = {{{thread_.stop_fd(), POLLIN, 0}, {listener_.get(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[0].revents != 0) return;
    const netlink::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) serve_one(socket.get());
  }
}

void RawServer::serve_one(int socket) {
  std::string request;
  std::array<char, 4096> buffer{};
  while (request.find("\r\n\r\n") == std::string::npos) {
    if (!wait_for(socket, POLLIN, kPatienceMs, "request")) return;
    const auto count = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (count <= 0) return;
    request.append(buffer.data(), static_cast<std::size_t>(count));
  }
  const auto reply = answer_(request);
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  if (!reply.bytes.empty())
    static_cast<void>(::send(socket, reply.bytes.data(), reply.bytes.size(), MSG_NOSIGNAL));
  if (!reply.reset) return drain(socket);
  // Gives the client the time to read what came before.
  const linger at_once{1, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

}  // namespace ipvsproxier::test
