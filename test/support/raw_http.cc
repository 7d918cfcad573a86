#include "test/support/raw_http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace ipvsproxier::test {

netlink::UniqueFd RawHttp::make_socket(std::string_view address) {
  const bool v6 = address.find(':') != std::string_view::npos;
  netlink::UniqueFd fd(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}

RawHttp::RawHttp(std::uint16_t port, std::string_view address)
    : RawHttp(make_socket(address), port, address) {}

RawHttp::RawHttp(netlink::UniqueFd socket, std::uint16_t port, std::string_view address) {
  const auto ip = netlink::IpAddress::parse(address).value();
  int result = -1;
  if (ip.family() == netlink::Family::ipv6) {
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(port);
    std::memcpy(&to.sin6_addr, ip.bytes().data(), ip.bytes().size());
    result = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  } else {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    std::memcpy(&to.sin_addr, ip.bytes().data(), ip.bytes().size());
    result = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  if (result == 0) fd_ = std::move(socket);
}

bool RawHttp::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawHttp::receive() {
  std::array<char, 65536> buffer{};
  const auto size = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
  if (size <= 0) return false;
  received_.append(buffer.data(), static_cast<std::size_t>(size));
  return true;
}

RawAnswer RawHttp::read(bool with_body) {
  std::size_t head_end = 0;
  while ((head_end = received_.find("\r\n\r\n")) == std::string::npos)
    if (!receive()) return {};
  RawAnswer answer;
  const auto head = received_.substr(0, head_end + 2);
  received_.erase(0, head_end + 4);
  answer.status = std::atoi(head.c_str() + head.find(' '));
  for (auto begin = head.find("\r\n") + 2; begin < head.size();) {
    const auto end = head.find("\r\n", begin);
    const auto colon = head.find(": ", begin);
    answer.headers[head.substr(begin, colon - begin)] = head.substr(colon + 2, end - colon - 2);
    begin = end + 2;
  }
  if (!with_body) return answer;
  const auto length = std::strtoul(answer.headers["Content-Length"].c_str(), nullptr, 10);
  while (received_.size() < length)
    if (!receive()) return {};
  answer.body = received_.substr(0, length);
  received_.erase(0, length);
  return answer;
}

bool RawHttp::ended(std::chrono::milliseconds wait) {
  pollfd poll_fd{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  while (::poll(&poll_fd, 1, static_cast<int>(wait.count())) > 0)
    if (!receive()) return true;
  return false;
}

RawAnswer RawHttp::get(std::string_view target, std::string_view method) {
  if (!connected()) return {};
  if (!send(std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: test\r\n\r\n"))
    return {};
  return read(method != "HEAD");
}

RawAnswer http_get(std::uint16_t port, std::string_view target, std::string_view method,
                   std::string_view address) {
  return RawHttp(port, address).get(target, method);
}

}  // namespace ipvsproxier::test
