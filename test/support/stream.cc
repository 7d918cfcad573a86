#include "test/support/stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "test/support/sockets.h"

namespace ipvsproxier::test {

using netlink::Error;
using netlink::ErrorKind;
using netlink::IpAddress;
using netlink::make_error;
using netlink::Operation;
using netlink::Protocol;
using netlink::Result;
using netlink::Status;
using netlink::UniqueFd;

Result<std::unique_ptr<StreamServer>> StreamServer::start(std::string name, Protocol protocol,
                                                          const IpAddress& address,
                                                          std::uint16_t port) {
  std::unique_ptr<StreamServer> server(new StreamServer(std::move(name)));
  auto listener = server_socket(protocol, address, port);
  if (!listener) return listener.error();
  server->listener_ = std::move(*listener);
  const auto started = server->thread_.start([raw = server.get()] { raw->serve(); });
  if (!started) return started.error();
  return server;
}

void StreamServer::serve() {
  for (;;) {
    std::vector<pollfd> entries = {{.fd = thread_.stop_fd(), .events = POLLIN, .revents = 0},
                                   {.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const auto& [fd, connection] : connections_) {
      const int wanted =
          (connection.ended ? 0 : POLLIN) | (connection.unsent.empty() ? 0 : POLLOUT);
      entries.push_back(pollfd{.fd = fd, .events = static_cast<short>(wanted), .revents = 0});
    }
    if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) return;
    if (entries[0].revents != 0) return;
    for (std::size_t i = 2; i < entries.size(); ++i) {
      if (entries[i].revents == 0) continue;
      const auto found = connections_.find(entries[i].fd);
      if (!move_bytes(found->second, entries[i].revents)) connections_.erase(found);
    }
    if (entries[1].revents != 0) accept_one();
  }
}

void StreamServer::accept_one() {
  SocketAddress peer;
  UniqueFd socket(::accept4(listener_.get(), peer.raw(), &peer.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  const int fd = socket.get();
  Connection& connection = connections_[fd];
  connection.socket = std::move(socket);
  connection.unsent = name_ + " " + describe(peer) + "\n";
}

bool StreamServer::move_bytes(Connection& connection, short events) {
  if ((events & (POLLERR | POLLNVAL)) != 0) return false;
  if ((events & POLLIN) != 0) {
    std::array<char, 16384> chunk{};
    const ssize_t size = ::recv(connection.socket.get(), chunk.data(), chunk.size(), 0);
    if (size < 0 && errno != EAGAIN) return false;
    if (size == 0) connection.ended = true;
    if (size > 0) connection.unsent.append(chunk.data(), static_cast<std::size_t>(size));
  }
  if (!connection.unsent.empty()) {
    const ssize_t size = ::send(connection.socket.get(), connection.unsent.data(),
                                connection.unsent.size(), MSG_NOSIGNAL);
    if (size < 0 && errno != EAGAIN) return false;
    if (size > 0) connection.unsent.erase(0, static_cast<std::size_t>(size));
  }
  return !(connection.ended && connection.unsent.empty());
}

Result<Stream> Stream::open(Protocol protocol, const IpAddress& address, std::uint16_t port,
                            const AskOptions& options) {
  const std::string where = "stream " + std::string(netlink::to_string(protocol)) + " " +
                            netlink::to_string(address, port);
  const IpAddress source = options.source.value_or(IpAddress::any(address.family()));
  auto fd = client_socket(protocol, socket_address(source, options.source_port),
                          socket_address(address, port), options.timeout_ms, where);
  if (!fd) return fd.error();
  Stream stream(std::move(*fd), where);
  if (const auto greeted = stream.receive_greeting(options.timeout_ms); !greeted) {
    return greeted.error();
  }
  return stream;
}

Status Stream::receive_greeting(int timeout_ms) {
  std::string text;
  while (text.empty() || text.back() != '\n') {
    if (auto readable = wait_for(fd_.get(), POLLIN, timeout_ms, where_); !readable) {
      return readable;
    }
    char next = 0;
    const ssize_t size = ::recv(fd_.get(), &next, 1, 0);
    if (size < 0) return make_error(Operation::generic, errno, where_);
    if (size == 0) break;
    text.push_back(next);
  }
  auto answer = parse_answer(text, where_);
  if (!answer) return answer.error();
  greeting_ = std::move(*answer);
  return {};
}

Status Stream::exchange(int timeout_ms, std::size_t bytes) {
  std::string block = std::to_string(++blocks_) + " ";
  while (block.size() < bytes)
    block.push_back(static_cast<char>('a' + block.size() * blocks_ % 26));
  block.resize(bytes);
  for (std::size_t sent = 0; sent < block.size();) {
    if (auto writable = wait_for(fd_.get(), POLLOUT, timeout_ms, where_); !writable) {
      return writable;
    }
    const ssize_t size = ::send(fd_.get(), block.data() + sent, block.size() - sent, MSG_NOSIGNAL);
    if (size < 0) return make_error(Operation::generic, errno, where_);
    sent += static_cast<std::size_t>(size);
  }
  return receive_exactly(block, timeout_ms);
}

void Stream::reset() && {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  static_cast<void>(::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
  fd_.reset();
}

Status Stream::receive_exactly(const std::string& expected, int timeout_ms) {
  std::string received;
  while (received.size() < expected.size()) {
    if (auto readable = wait_for(fd_.get(), POLLIN, timeout_ms, where_); !readable) {
      return readable;
    }
    std::array<char, 16384> chunk{};
    const ssize_t size = ::recv(fd_.get(), chunk.data(),
                                std::min(chunk.size(), expected.size() - received.size()), 0);
    if (size < 0) return make_error(Operation::generic, errno, where_);
    if (size == 0) return Error{ErrorKind::io, 0, where_ + ": the server closed it"};
    received.append(chunk.data(), static_cast<std::size_t>(size));
  }
  if (received == expected) return {};
  return Error{ErrorKind::malformed, 0,
               where_ + ": block " + std::to_string(blocks_) + " came back changed"};
}

}  // namespace ipvsproxier::test
