#include "test/support/ping.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>

#include "test/support/sockets.h"

namespace ipvsproxier::test {
namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Family;
using netlink::IpAddress;
using netlink::make_error;
using netlink::Operation;
using netlink::Status;
using netlink::UniqueFd;

// type, code, checksum, identifier, sequence: the same for both families (RFC 792, RFC 4443).
using EchoMessage = std::array<std::uint8_t, 8>;

EchoMessage request_of(Family family, std::uint16_t identifier) {
  EchoMessage message{};
  message[0] = family == Family::ipv4 ? ICMP_ECHO : ICMP6_ECHO_REQUEST;
  message[4] = static_cast<std::uint8_t>(identifier >> 8);
  message[5] = static_cast<std::uint8_t>(identifier & 0xff);
  // The kernel fills in the checksum of ICMPv6, whose pseudo header it alone knows.
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < message.size(); i += 2) {
    sum += static_cast<std::uint32_t>(message[i] << 8 | message[i + 1]);
  }
  const auto checksum = static_cast<std::uint16_t>(~((sum & 0xffff) + (sum >> 16)));
  if (family == Family::ipv4) {
    message[2] = static_cast<std::uint8_t>(checksum >> 8);
    message[3] = static_cast<std::uint8_t>(checksum & 0xff);
  }
  return message;
}

// Whether a packet, as a raw socket delivers it, is the reply to `request`. A raw IPv4 socket gives
// the IP header as well.
bool is_reply(Family family, std::span<const std::uint8_t> packet, const EchoMessage& request) {
  if (family == Family::ipv4) {
    if (packet.empty()) return false;
    const auto header = static_cast<std::size_t>(packet[0] & 0xf) * 4;
    if (packet.size() < header) return false;
    packet = packet.subspan(header);
  }
  const std::uint8_t type = family == Family::ipv4 ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY;
  return packet.size() >= request.size() && packet[0] == type &&
         std::memcmp(packet.data() + 4, request.data() + 4, 4) == 0;
}

}  // namespace

Status ping(const IpAddress& address, int timeout_ms) {
  static std::atomic<std::uint16_t> next_identifier{static_cast<std::uint16_t>(::getpid())};
  const std::string where = "ping " + address.to_string();
  const bool is_v4 = address.family() == Family::ipv4;
  const UniqueFd fd(
      ::socket(is_v4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
               is_v4 ? static_cast<int>(IPPROTO_ICMP) : static_cast<int>(IPPROTO_ICMPV6)));
  if (!fd) return make_error(Operation::generic, errno, where);
  // Connected, so that only packets of this address come, and ICMP errors as the socket's own.
  SocketAddress remote = socket_address(address, 0);
  const EchoMessage request = request_of(address.family(), next_identifier++);
  if (::connect(fd.get(), remote.raw(), remote.size) < 0 ||
      ::send(fd.get(), request.data(), request.size(), 0) < 0) {
    return make_error(Operation::generic, errno, where);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Error{ErrorKind::timeout, ETIMEDOUT, where};
    if (auto readable = wait_for(fd.get(), POLLIN, static_cast<int>(left.count()), where);
        !readable) {
      return readable;
    }
    std::array<std::uint8_t, 512> packet{};
    const ssize_t size = ::recv(fd.get(), packet.data(), packet.size(), 0);
    if (size < 0) return make_error(Operation::generic, errno, where);
    if (is_reply(address.family(), std::span(packet).first(static_cast<std::size_t>(size)),
                 request)) {
      return {};
    }
  }
}

}  // namespace ipvsproxier::test
