#include "test/support/echo.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

namespace ipvsproxier::test {
namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Family;
using netlink::IpAddress;
using netlink::make_error;
using netlink::Operation;
using netlink::Protocol;
using netlink::Result;
using netlink::Status;
using netlink::UniqueFd;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress socket_address(const IpAddress& address, std::uint16_t port) {
  SocketAddress result;
  if (address.family() == Family::ipv4) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, address.bytes().data(), 4);
    std::memcpy(&result.storage, &v4, sizeof v4);
    result.size = sizeof v4;
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, address.bytes().data(), 16);
    std::memcpy(&result.storage, &v6, sizeof v6);
    result.size = sizeof v6;
  }
  return result;
}

std::string describe(const SocketAddress& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool is_v4 = peer.storage.ss_family == AF_INET;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  std::memcpy(&v4, &peer.storage, sizeof v4);
  std::memcpy(&v6, &peer.storage, sizeof v6);
  const void* address =
      is_v4 ? static_cast<const void*>(&v4.sin_addr) : static_cast<const void*>(&v6.sin6_addr);
  ::inet_ntop(peer.storage.ss_family, address, text.data(), text.size());
  return std::string(text.data()) + " " + std::to_string(ntohs(is_v4 ? v4.sin_port : v6.sin6_port));
}

Result<UniqueFd> make_socket(Protocol protocol, const IpAddress& address) {
  const int domain = address.family() == Family::ipv4 ? AF_INET : AF_INET6;
  const int type = protocol == Protocol::udp ? SOCK_DGRAM : SOCK_STREAM;
  UniqueFd fd(::socket(domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, static_cast<int>(protocol)));
  if (!fd) {
    return make_error(Operation::generic, errno,
                      "socket for " + std::string(netlink::to_string(protocol)));
  }
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return fd;
}

Result<UniqueFd> bound_socket(Protocol protocol, const IpAddress& address, std::uint16_t port) {
  auto fd = make_socket(protocol, address);
  if (!fd) return fd;
  SocketAddress local = socket_address(address, port);
  if (::bind(fd->get(), local.raw(), local.size) < 0) {
    return make_error(Operation::generic, errno, "bind " + netlink::to_string(address, port));
  }
  return fd;
}

void answer(Protocol protocol, int fd, const std::string& name) {
  SocketAddress peer;
  if (protocol == Protocol::udp) {
    std::array<char, 2048> request{};
    if (::recvfrom(fd, request.data(), request.size(), 0, peer.raw(), &peer.size) < 0) return;
    const std::string text = name + " " + describe(peer) + "\n";
    ::sendto(fd, text.data(), text.size(), MSG_NOSIGNAL, peer.raw(), peer.size);
    return;
  }
  const UniqueFd connection(::accept4(fd, peer.raw(), &peer.size, SOCK_CLOEXEC));
  if (!connection) return;
  const std::string text = name + " " + describe(peer) + "\n";
  ::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

Status wait_for(int fd, short events, int timeout_ms, const std::string& where) {
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  const int ready = ::poll(&entry, 1, timeout_ms);
  if (ready < 0) return make_error(Operation::generic, errno, where);
  if (ready == 0) return Error{ErrorKind::timeout, ETIMEDOUT, where};
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return make_error(Operation::generic, error, where);
  return {};
}

Result<EchoAnswer> parse_answer(const std::string& text, const std::string& where) {
  std::istringstream words(text);
  EchoAnswer result;
  std::string address;
  words >> result.server >> address >> result.client_port;
  const auto client = IpAddress::parse(address);
  if (!words || !client) return Error{ErrorKind::malformed, 0, where + ": answer \"" + text + "\""};
  result.client = *client;
  return result;
}

}  // namespace

Result<std::unique_ptr<EchoServer>> EchoServer::start(std::string name, const IpAddress& address,
                                                      std::uint16_t port,
                                                      const std::vector<Protocol>& protocols) {
  std::unique_ptr<EchoServer> server(new EchoServer(std::move(name)));
  for (const Protocol protocol : protocols) {
    auto fd = bound_socket(protocol, address, port);
    if (!fd) return fd.error();
    if (protocol != Protocol::udp && ::listen(fd->get(), 64) < 0) {
      return make_error(Operation::generic, errno, "listen " + netlink::to_string(address, port));
    }
    server->listeners_.push_back(Listener{.protocol = protocol, .socket = std::move(*fd)});
  }
  server->stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!server->stop_) return make_error(Operation::generic, errno, "eventfd");
  server->thread_ = std::thread([raw = server.get()] { raw->serve(); });
  return server;
}

EchoServer::~EchoServer() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  if (::write(stop_.get(), &one, sizeof one) == sizeof one) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void EchoServer::serve() {
  std::vector<pollfd> entries;
  for (const Listener& listener : listeners_) {
    entries.push_back(pollfd{.fd = listener.socket.get(), .events = POLLIN, .revents = 0});
  }
  entries.push_back(pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0});
  while (::poll(entries.data(), entries.size(), -1) >= 0 || errno == EINTR) {
    if ((entries.back().revents & POLLIN) != 0) return;
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if ((entries[i].revents & POLLIN) != 0) {
        answer(listeners_[i].protocol, entries[i].fd, name_);
      }
    }
  }
}

Result<EchoAnswer> ask(Protocol protocol, const IpAddress& address, std::uint16_t port,
                       const AskOptions& options) {
  const std::string where =
      std::string(netlink::to_string(protocol)) + " " + netlink::to_string(address, port);
  const IpAddress source = options.source.value_or(IpAddress::any(address.family()));
  auto fd = bound_socket(protocol, source, options.source_port);
  if (!fd) return fd.error();
  SocketAddress remote = socket_address(address, port);
  if (::connect(fd->get(), remote.raw(), remote.size) < 0 && errno != EINPROGRESS) {
    return make_error(Operation::generic, errno, where);
  }
  if (const Status writable = wait_for(fd->get(), POLLOUT, options.timeout_ms, where); !writable) {
    return writable.error();
  }
  if (protocol == Protocol::udp && ::send(fd->get(), "?", 1, MSG_NOSIGNAL) < 0) {
    return make_error(Operation::generic, errno, where);
  }
  std::string text;
  while (text.empty() || text.back() != '\n') {
    if (const Status readable = wait_for(fd->get(), POLLIN, options.timeout_ms, where); !readable) {
      return readable.error();
    }
    std::array<char, 256> chunk{};
    const ssize_t size = ::recv(fd->get(), chunk.data(), chunk.size(), 0);
    if (size < 0) return make_error(Operation::generic, errno, where);
    if (size == 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(size));
  }
  return parse_answer(text, where);
}

}  // namespace ipvsproxier::test
