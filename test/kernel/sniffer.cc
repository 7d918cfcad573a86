#include "test/kernel/sniffer.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <optional>
#include <span>
#include <stdexcept>

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::IpAddress;
using Octets = std::span<const std::uint8_t>;

std::uint16_t number_at(Octets bytes, std::size_t place) {
  return static_cast<std::uint16_t>(bytes[place] << 8 | bytes[place + 1]);
}

// The source port of the packet that an ICMP message is about; 0 if it does not say.
std::uint16_t quoted_port(Octets message) {
  constexpr std::size_t kHeader = 8;
  if (message.size() <= kHeader) return 0;
  const auto quoted = message.subspan(kHeader);
  const std::size_t header =
      quoted[0] >> 4 == 4 ? static_cast<std::size_t>(quoted[0] & 0xf) * 4 : std::size_t{40};
  return quoted.size() < header + 2 ? std::uint16_t{0} : number_at(quoted, header);
}

// Ports of TCP, UDP and SCTP, flags and first chunk, type and code of ICMP; `rest` follows the IP
// header.
void read_transport(Octets rest, SeenPacket& packet) {
  constexpr std::uint8_t kSyn = 0x02;
  constexpr std::uint8_t kRst = 0x04;
  constexpr std::uint8_t kAck = 0x10;
  constexpr std::uint8_t kInit = 1;  // RFC 9260, 3.2
  if (rest.size() < 4) return;
  if (packet.protocol == IPPROTO_ICMP && rest[0] == 3) {
    packet.port_unreachable = rest[1] == 3;
    packet.host_unreachable = rest[1] <= 1;
    packet.prohibited = rest[1] == 9 || rest[1] == 10 || rest[1] == 13;
  }
  if (packet.protocol == IPPROTO_ICMPV6 && rest[0] == 1) {
    packet.port_unreachable = rest[1] == 4;
    packet.host_unreachable = rest[1] == 0 || rest[1] == 3;
    packet.prohibited = rest[1] == 1;
  }
  if (packet.port_unreachable || packet.host_unreachable || packet.prohibited)
    packet.about_port = quoted_port(rest);
  const bool sctp = packet.protocol == IPPROTO_SCTP;
  if (packet.protocol != IPPROTO_TCP && packet.protocol != IPPROTO_UDP && !sctp) return;
  packet.source_port = number_at(rest, 0);
  packet.destination_port = number_at(rest, 2);
  if (rest.size() < 14 || packet.protocol == IPPROTO_UDP) return;
  if (sctp) {
    packet.opens = rest[12] == kInit;
    return;
  }
  packet.opens = (rest[13] & (kSyn | kAck)) == kSyn;
  packet.resets = (rest[13] & kRst) != 0;
}

// nullopt for what is neither IPv4 nor IPv6 without extension headers.
std::optional<SeenPacket> read_packet(Octets bytes) {
  const int version = bytes.empty() ? 0 : bytes[0] >> 4;
  const std::size_t header =
      version == 4 ? static_cast<std::size_t>(bytes[0] & 0xf) * 4 : std::size_t{40};
  if ((version != 4 && version != 6) || bytes.size() < header) return std::nullopt;
  const auto family = version == 4 ? Family::ipv4 : Family::ipv6;
  const std::size_t size = netlink::address_bits(family) / 8U;
  const std::size_t first = version == 4 ? 12 : 8;
  SeenPacket packet;
  packet.protocol = bytes[version == 4 ? 9 : 6];
  packet.source = *IpAddress::from_bytes(family, bytes.subspan(first, size));
  packet.destination = *IpAddress::from_bytes(family, bytes.subspan(first + size, size));
  read_transport(bytes.subspan(header), packet);
  return packet;
}

}  // namespace

Sniffer::Sniffer(const Netns& netns) {
  netns.inside([this] {
    socket_ = netlink::UniqueFd(
        ::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL)));
  });
  if (!socket_) throw std::runtime_error("packet socket");
  const int size = 4 << 20;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
}

std::vector<SeenPacket> Sniffer::take() {
  std::vector<SeenPacket> result;
  std::array<std::uint8_t, 2048> bytes{};
  sockaddr_ll from{};
  socklen_t length = sizeof from;
  while (true) {
    const auto size = ::recvfrom(socket_.get(), bytes.data(), bytes.size(), 0,
                                 reinterpret_cast<sockaddr*>(&from), &length);
    if (size < 0) return result;
    auto packet = read_packet(Octets(bytes).first(static_cast<std::size_t>(size)));
    if (!packet) continue;
    packet->link = from.sll_ifindex;
    packet->outgoing = from.sll_pkttype == PACKET_OUTGOING;
    result.push_back(*packet);
  }
}

}  // namespace ipvsproxier::test
