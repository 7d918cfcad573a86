#include "test/support/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ipvsproxier::test {

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

namespace {

Status pending_error(int fd, const std::string& where) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return make_error(Operation::generic, error, where);
  return {};
}

Result<UniqueFd> bound_to(Protocol protocol, SocketAddress local) {
  const int type = protocol == Protocol::udp ? SOCK_DGRAM : SOCK_STREAM;
  UniqueFd fd(::socket(local.storage.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK,
                       static_cast<int>(protocol)));
  if (!fd) {
    return make_error(Operation::generic, errno,
                      "socket for " + std::string(netlink::to_string(protocol)));
  }
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (local.storage.ss_family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  if (::bind(fd.get(), local.raw(), local.size) < 0) {
    return make_error(Operation::generic, errno, "bind " + describe(local));
  }
  return fd;
}

}  // namespace

Result<UniqueFd> bound_socket(Protocol protocol, const IpAddress& address, std::uint16_t port) {
  return bound_to(protocol, socket_address(address, port));
}

Result<UniqueFd> server_socket(Protocol protocol, const IpAddress& address, std::uint16_t port) {
  auto fd = bound_socket(protocol, address, port);
  if (fd && protocol != Protocol::udp && ::listen(fd->get(), 64) < 0) {
    return make_error(Operation::generic, errno, "listen " + netlink::to_string(address, port));
  }
  return fd;
}

Result<UniqueFd> client_socket(Protocol protocol, SocketAddress source, SocketAddress remote,
                               int timeout_ms, const std::string& where) {
  auto fd = bound_to(protocol, source);
  if (!fd) return fd.error();
  if (::connect(fd->get(), remote.raw(), remote.size) < 0 && errno != EINPROGRESS) {
    return make_error(Operation::generic, errno, where);
  }
  // Where one processor does everything, an ICMP error comes back inside connect(), while the
  // socket is locked: the kernel (tcp_v4_err, tcp_v6_err) only takes a note of it and would find
  // out at the first retransmission, a second later. SO_ERROR gives the note away.
  if (const Status noted = pending_error(fd->get(), where); !noted) return noted.error();
  if (const Status writable = wait_for(fd->get(), POLLOUT, timeout_ms, where); !writable) {
    return writable.error();
  }
  return fd;
}

Status wait_for(int fd, short events, int timeout_ms, const std::string& where) {
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  const int ready = ::poll(&entry, 1, timeout_ms);
  if (ready < 0) return make_error(Operation::generic, errno, where);
  if (ready == 0) return Error{ErrorKind::timeout, ETIMEDOUT, where};
  return pending_error(fd, where);
}

}  // namespace ipvsproxier::test
