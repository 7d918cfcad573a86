#include "proxier/serve/listen_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace ipvsproxier::serve {

namespace {

using netlink::Family;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

SocketAddress socket_address(const netlink::IpAddress& address, std::uint16_t port) {
  SocketAddress result;
  const auto bytes = address.bytes();
  if (address.family() == Family::ipv4) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, bytes.data(), bytes.size());
    std::memcpy(&result.storage, &v4, sizeof v4);
    result.size = sizeof v4;
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, bytes.data(), bytes.size());
    std::memcpy(&result.storage, &v6, sizeof v6);
    result.size = sizeof v6;
  }
  return result;
}

std::uint16_t port_of(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &storage, sizeof v4);
    return ntohs(v4.sin_port);
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &storage, sizeof v6);
  return ntohs(v6.sin6_port);
}

netlink::Error failed(const ListenAddress& address) {
  return netlink::make_error(netlink::Operation::generic, errno, "listen on " + to_string(address));
}

// `both`: an IPv6 socket that also takes IPv4.
netlink::Result<ListenSocket> open(const ListenAddress& address, bool both) {
  const bool v6 = address.address.family() == Family::ipv6;
  netlink::UniqueFd fd(
      ::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd) return failed(address);
  const int on = 1;
  const int v6_only = both ? 0 : 1;
  if (v6 && ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only) != 0)
    return failed(address);
  // A restart must not wait for connections of the earlier process.
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) return failed(address);
  if (address.may_be_absent && ::setsockopt(fd.get(), IPPROTO_IP, IP_FREEBIND, &on, sizeof on) != 0)
    return failed(address);
  SocketAddress name = socket_address(address.address, address.port);
  auto* const raw = reinterpret_cast<sockaddr*>(&name.storage);
  if (::bind(fd.get(), raw, name.size) != 0) return failed(address);
  if (::listen(fd.get(), SOMAXCONN) != 0) return failed(address);
  if (::getsockname(fd.get(), raw, &name.size) != 0) return failed(address);
  return ListenSocket{.fd = std::move(fd), .port = port_of(name.storage)};
}

// Whether a process listens there; false if only its socket is left.
bool answers(const sockaddr_un& name) {
  const netlink::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // EAGAIN: a process listens, and its queue is full.
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 ||
         errno == EAGAIN;
}

}  // namespace

netlink::Result<ListenSocket> open_local_socket(const std::string& path) {
  using netlink::ErrorKind;
  const auto where = "listen on " + path;
  const auto failed = [&] {
    return netlink::make_error(netlink::Operation::generic, errno, where);
  };
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof name.sun_path)
    return netlink::Error{ErrorKind::malformed, ENAMETOOLONG,
                          where + ": a path of 1 to 107 bytes is wanted"};
  path.copy(&name.sun_path[0], path.size());
  std::error_code ignored;  // only bind() decides
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  if (answers(name))
    return netlink::Error{ErrorKind::already, EADDRINUSE, where + ": another process does"};
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode)) ::unlink(path.c_str());
  netlink::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return failed();
  // The mode of a socket before bind() becomes the mode of its file, less the umask.
  if (::fchmod(fd.get(), 0600) != 0) return failed();
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return failed();
  if (::chmod(path.c_str(), 0600) != 0) return failed();
  if (::listen(fd.get(), SOMAXCONN) != 0) return failed();
  return ListenSocket{.fd = std::move(fd), .port = 0};
}

std::string to_string(const ListenAddress& address) {
  return netlink::to_string(address.address, address.port);
}

netlink::Result<ListenSocket> open_listen_socket(const ListenAddress& address) {
  if (address.network == ListenNetwork::one_family || !address.address.is_any())
    return open(address, false);
  auto dual_stack = address;
  dual_stack.address = netlink::IpAddress::any(Family::ipv6);
  auto socket = open(dual_stack, true);
  if (socket || address.address.family() == Family::ipv6) return socket;
  // Fall back to IPv4 only for these errors of a host without IPv6; others would fail for IPv4 too.
  const int error = socket.error().sys_errno;
  if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL || error == EPROTONOSUPPORT)
    return open(address, false);
  socket.error().where = "listen on " + to_string(address);
  return socket;
}

}  // namespace ipvsproxier::serve
