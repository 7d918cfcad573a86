#include "cmd/ipvsctl/explain/nft_field.h"

#include <algorithm>
#include <cstring>

namespace ipvsproxier::ctl {

using netlink::Bytes;
using netlink::Family;
using netlink::IpAddress;
using netlink::NftCtKey;
using netlink::NftHeader;
using netlink::NftMetaKey;

namespace {

constexpr std::size_t kInterfaceNameBytes = 16;  // IFNAMSIZ
constexpr std::uint8_t kSyn = 0x02;
constexpr std::uint8_t kAck = 0x10;
constexpr std::uint8_t kAllFlags = 0x3f;  // FIN to URG; those of ECN are the sender's choice

// Bits of <linux/netfilter/nf_conntrack_common.h>.
constexpr std::uint32_t kInvalidState = 1 << 0;
constexpr std::uint32_t kEstablishedState = 1 << 1;
constexpr std::uint32_t kNewState = 1 << 3;
constexpr std::uint32_t kUntrackedState = 1 << 6;
constexpr std::uint32_t kExpected = 1 << 0;
constexpr std::uint32_t kSeenReply = 1 << 1;
constexpr std::uint32_t kAssured = 1 << 2;
constexpr std::uint32_t kConfirmed = 1 << 3;
constexpr std::uint32_t kSourceTranslated = 1 << 4;
constexpr std::uint32_t kDestinationTranslated = 1 << 5;

void put(NftField& header, std::size_t at, std::span<const std::uint8_t> bytes,
         std::uint8_t known = 0xff) {
  for (std::size_t i = 0; i < bytes.size() && at + i < header.bytes.size(); ++i) {
    header.bytes[at + i] = bytes[i];
    header.known[at + i] = known;
  }
}

Bytes port_bytes(std::uint16_t port) {
  return {static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port & 0xff)};
}

NftField port_field(std::uint16_t port) {
  return port == 0 ? NftField::unknown(2) : NftField::of(port_bytes(port));
}

NftField small(std::uint8_t value) {
  return NftField::of({value});
}

// Of a packet without fragments and options.
NftField network_header(const Packet& packet) {
  const auto protocol = static_cast<std::uint8_t>(packet.protocol);
  const bool is_v4 = packet.destination.family() == Family::ipv4;
  auto header = NftField::unknown(is_v4 ? 20 : 40);
  if (is_v4) {
    put(header, 0, Bytes{0x45});
    put(header, 6, Bytes{0}, 0x3f);
    put(header, 7, Bytes{0});
  } else {
    put(header, 0, Bytes{0x60}, 0xf0);
  }
  put(header, is_v4 ? 9 : 6, Bytes{protocol});
  put(header, is_v4 ? 12 : 8, packet.source.bytes());
  put(header, is_v4 ? 16 : 24, packet.destination.bytes());
  return header;
}

NftField transport_header(const Packet& packet) {
  auto header = NftField::unknown(20);
  if (packet.source_port != 0) put(header, 0, port_bytes(packet.source_port));
  put(header, 2, port_bytes(packet.destination_port));
  if (packet.protocol != netlink::Protocol::tcp) return header;
  if (packet.established)
    put(header, 13, Bytes{kAck}, kAck | kSyn);
  else
    put(header, 13, Bytes{kSyn}, kAllFlags);
  return header;
}

NftField part_of(const NftField& header, std::size_t offset, std::size_t size) {
  auto part = NftField::unknown(size);
  for (std::size_t i = 0; i < size && offset + i < header.bytes.size(); ++i) {
    part.bytes[i] = header.bytes[offset + i];
    part.known[i] = header.known[offset + i];
  }
  return part;
}

NftField link_name_field(const std::string& name) {
  Bytes bytes(name.begin(), name.end());
  bytes.resize(kInterfaceNameBytes);
  return NftField::of(std::move(bytes));
}

NftField link_index_field(const NodeReading& node, const std::string& name) {
  if (name.empty()) return NftField::number(0);
  const auto link = std::ranges::find(node.links, name, &netlink::LinkRecord::name);
  if (link == node.links.end()) return NftField::unknown(4);
  return NftField::number(static_cast<std::uint32_t>(link->index));
}

std::uint32_t state_of(const Packet& packet) {
  if (packet.tracking == Tracking::never) return kUntrackedState;
  if (packet.tracking == Tracking::not_yet) return kInvalidState;
  return packet.established ? kEstablishedState : kNewState;
}

NftField status_of(const Packet& packet) {
  std::uint32_t status = packet.confirmed ? kConfirmed : 0;
  std::uint32_t known = kExpected | kSeenReply | kConfirmed | kSourceTranslated |
                        kDestinationTranslated | (packet.established ? 0 : kAssured);
  if (packet.established) status |= kSeenReply;
  if (packet.source_translated) status |= kSourceTranslated;
  if (packet.destination_translated) status |= kDestinationTranslated;
  auto field = NftField::number(status);
  field.known = NftField::number(known).bytes;
  return field;
}

// RTN_* of <linux/rtnetlink.h>.
std::uint32_t route_type(unsigned type) {
  using Type = ipset::AddressTypeCondition;
  if (type == Type::kLocal) return 2;
  if (type == Type::kBroadcast) return 3;
  return type == Type::kMulticast ? 5 : 1;
}

}  // namespace

NftField NftField::of(Bytes bytes) {
  const auto size = bytes.size();
  return {std::move(bytes), Bytes(size, 0xff)};
}

NftField NftField::number(std::uint32_t number) {
  Bytes bytes(sizeof number);
  std::memcpy(bytes.data(), &number, sizeof number);
  return of(std::move(bytes));
}

NftField NftField::unknown(std::size_t size) {
  return {Bytes(size), Bytes(size)};
}

bool NftField::is_known() const {
  return std::ranges::all_of(known, [](auto byte) { return byte == 0xff; });
}

std::optional<NftField> NftFields::of(const netlink::NftPayload& payload) const {
  constexpr std::size_t kMost = 64;  // what all registers hold
  const auto size = std::min<std::size_t>(payload.size, kMost);
  if (payload.header == NftHeader::network)
    return part_of(network_header(packet), payload.offset, size);
  if (payload.header == NftHeader::transport)
    return part_of(transport_header(packet), payload.offset, size);
  return NftField::unknown(size);
}

std::optional<NftField> NftFields::of(const netlink::NftMeta& meta) const {
  const bool is_v4 = packet.destination.family() == Family::ipv4;
  constexpr std::uint8_t kIpv4 = 2;  // NFPROTO_IPV4
  constexpr std::uint8_t kIpv6 = 10;
  switch (static_cast<NftMetaKey>(meta.key)) {
    case NftMetaKey::protocol:
      return NftField::of(is_v4 ? Bytes{0x08, 0x00} : Bytes{0x86, 0xdd});
    case NftMetaKey::mark:
      return NftField::number(packet.mark);
    case NftMetaKey::in_index:
      return link_index_field(node, packet.in_link);
    case NftMetaKey::out_index:
      return link_index_field(node, packet.out_link);
    case NftMetaKey::in_name:
      return link_name_field(packet.in_link);
    case NftMetaKey::out_name:
      return link_name_field(packet.out_link);
    case NftMetaKey::family:
      return small(is_v4 ? kIpv4 : kIpv6);
    case NftMetaKey::l4_protocol:
      return small(static_cast<std::uint8_t>(packet.protocol));
  }
  return NftField::unknown(kInterfaceNameBytes);
}

std::optional<NftField> NftFields::of(const netlink::NftCt& ct) const {
  const auto key = static_cast<NftCtKey>(ct.key);
  if (key == NftCtKey::state) return NftField::number(state_of(packet));
  if (packet.tracking != Tracking::tracked) return std::nullopt;
  const auto& first = packet.first;
  const bool original = ct.direction.value_or(0) == 0 && first.has_value();
  const auto address = [&](const IpAddress& one) {
    const auto bytes = one.bytes();
    return NftField::of(Bytes(bytes.begin(), bytes.end()));
  };
  switch (key) {
    case NftCtKey::direction:
      return small(0);
    case NftCtKey::status:
      return status_of(packet);
    case NftCtKey::mark:
      return NftField::number(packet.connection_mark);
    case NftCtKey::protocol:
      return small(static_cast<std::uint8_t>(packet.protocol));
    case NftCtKey::source:
    case NftCtKey::source_ip:
    case NftCtKey::source_ip6:
      if (original) return address(first->source);
      break;
    case NftCtKey::destination:
    case NftCtKey::destination_ip:
    case NftCtKey::destination_ip6:
      if (original) return address(first->destination);
      break;
    case NftCtKey::source_port:
      if (original) return port_field(first->source_port);
      break;
    case NftCtKey::destination_port:
      if (original) return port_field(first->destination_port);
      break;
    case NftCtKey::state:
    case NftCtKey::l3_protocol:
      break;
  }
  return NftField::unknown(kInterfaceNameBytes);
}

std::optional<NftField> NftFields::of(const netlink::NftFib& fib) const {
  using Limit = ipset::AddressTypeCondition::Limit;
  constexpr auto kKnown = netlink::NftFib::kSource | netlink::NftFib::kDestination |
                          netlink::kNftFibInLink | netlink::kNftFibOutLink;
  const bool is_source = (fib.flags & netlink::NftFib::kSource) != 0;
  const auto& address = is_source ? packet.source : packet.destination;
  const bool by_in = (fib.flags & netlink::kNftFibInLink) != 0;
  const bool by_out = (fib.flags & netlink::kNftFibOutLink) != 0;
  if (fib.result != netlink::NftFib::kAddressType || (fib.flags & ~kKnown) != 0 ||
      (by_in && by_out))
    return NftField::unknown(kInterfaceNameBytes);
  const auto limit = by_in ? Limit::in_link : by_out ? Limit::out_link : Limit::none;
  return NftField::number(route_type(judge.address_type(address, limit)));
}

}  // namespace ipvsproxier::ctl
