#include "ipset/judge/nft_field.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ipvsproxier::ipset {

using netlink::Family;
using netlink::IpAddress;
using netlink::NftCtKey;
using netlink::NftHeader;
using netlink::NftMetaKey;

namespace {

// The size of a link's name (IFNAMSIZ) and of an IPv6 address.
constexpr std::size_t kLongestField = 16;
constexpr std::uint8_t kTcpSyn = 0x02;
constexpr std::uint8_t kTcpAck = 0x10;
constexpr std::uint8_t kTcpFlags = 0x3f;  // FIN to URG; those of ECN are the sender's choice

// The part of a header that an expression loads. Bytes that are not put there are unknown.
class HeaderPart {
 public:
  HeaderPart(std::size_t offset, std::size_t size)
      : offset_(offset), field_(NftField::unknown(size)) {}

  void put(std::size_t at, std::uint8_t byte, std::uint8_t known = 0xff) {
    if (at < offset_ || at - offset_ >= field_.bytes.size()) return;
    field_.bytes[at - offset_] = byte;
    field_.known[at - offset_] = known;
  }
  void put(std::size_t at, const IpAddress& address) {
    if (address.is_any()) return;
    for (const auto byte : address.bytes()) put(at++, byte);
  }
  void put_port(std::size_t at, std::uint16_t port) {
    if (port == 0) return;
    put(at, static_cast<std::uint8_t>(port >> 8));
    put(at + 1, static_cast<std::uint8_t>(port & 0xff));
  }
  const NftField& field() const { return field_; }

 private:
  std::size_t offset_;
  NftField field_;
};

NftField port_field(std::uint16_t port) {
  HeaderPart field(0, 2);
  field.put_port(0, port);
  return field.field();
}

NftField small(std::uint8_t value) {
  return {FieldBytes{value}, FieldBytes{0xff}};
}

// The header of a packet without fragments and options.
void put_network_header(const Packet& packet, HeaderPart& part) {
  const bool is_v4 = packet.family() == Family::ipv4;
  if (is_v4) {
    part.put(0, 0x45);
    part.put(6, 0, 0x3f);
    part.put(7, 0);
  } else {
    part.put(0, 0x60, 0xf0);
  }
  part.put(is_v4 ? 9 : 6, static_cast<std::uint8_t>(packet.protocol));
  part.put(is_v4 ? 12 : 8, packet.source);
  part.put(is_v4 ? 16 : 24, packet.destination);
}

void put_transport_header(const Packet& packet, HeaderPart& part) {
  part.put_port(0, packet.source_port);
  part.put_port(2, packet.destination_port);
  if (packet.protocol != netlink::Protocol::tcp) return;
  // The first answer has SYN set, later packets do not.
  if (packet.is_answer)
    part.put(13, kTcpAck, kTcpAck);
  else if (packet.established)
    part.put(13, kTcpAck, kTcpAck | kTcpSyn);
  else
    part.put(13, kTcpSyn, kTcpFlags);
}

NftField link_name_field(const std::string& name) {
  NftField field{FieldBytes(kLongestField), FieldBytes(kLongestField, 0xff)};
  std::copy_n(name.begin(), std::min(name.size(), kLongestField), field.bytes.begin());
  return field;
}

NftField link_index_field(const NodeFacts& facts, const std::string& name) {
  if (name.empty()) return NftField::number(0);
  const auto index = facts.link_index(name);
  return index ? NftField::number(*index) : NftField::unknown(4);
}

NftField state_of(const Packet& packet) {
  switch (packet.tracking) {
    case Tracking::unknown:
      return NftField::unknown(4);
    case Tracking::never:
      return NftField::number(netlink::nft_ct_state::kUntracked);
    case Tracking::not_yet:
      return NftField::number(netlink::nft_ct_state::kInvalid);
    case Tracking::tracked:
      break;
  }
  return NftField::number(packet.established ? netlink::nft_ct_state::kEstablished
                                             : netlink::nft_ct_state::kNew);
}

NftField status_of(const Packet& packet) {
  namespace status = netlink::nft_ct_status;
  if (!packet.status_known) return NftField::unknown(4);
  std::uint32_t bits = packet.confirmed ? status::kConfirmed : 0;
  std::uint32_t known = status::kExpected | status::kSeenReply | status::kConfirmed |
                        status::kSourceTranslated | status::kDestinationTranslated |
                        (packet.established ? 0 : status::kAssured);
  if (packet.established) bits |= status::kSeenReply;
  if (packet.source_translated) bits |= status::kSourceTranslated;
  if (packet.destination_translated) bits |= status::kDestinationTranslated;
  return NftField::number(bits, known);
}

// RTN_* of <linux/rtnetlink.h>.
std::uint32_t route_type(unsigned type) {
  using Type = AddressTypeCondition;
  if (type == Type::kLocal) return 2;
  if (type == Type::kBroadcast) return 3;
  return type == Type::kMulticast ? 5 : 1;
}

}  // namespace

NftField NftField::of(netlink::ByteView bytes) {
  return {FieldBytes(bytes), FieldBytes(bytes.size(), 0xff)};
}

NftField NftField::number(std::uint32_t number) {
  return NftField::number(number, 0xffffffff);
}

NftField NftField::number(std::uint32_t number, std::uint32_t known) {
  auto field = NftField::unknown(sizeof number);
  std::memcpy(field.bytes.data(), &number, sizeof number);
  std::memcpy(field.known.data(), &known, sizeof known);
  return field;
}

NftField NftField::unknown(std::size_t size) {
  return {FieldBytes(size), FieldBytes(size)};
}

bool NftField::is_known() const {
  return std::ranges::all_of(known, [](auto byte) { return byte == 0xff; });
}

namespace {

int order_of(const NftField& field, netlink::ByteView bytes, std::size_t at, std::size_t size,
             bool largest) {
  const auto most = std::min(field.bytes.size(), bytes.size());
  const auto end = at + std::min(size, most - std::min(at, most));
  for (auto i = at; i < end; ++i) {
    auto byte = static_cast<std::uint8_t>(field.bytes[i] & field.known[i]);
    if (largest)
      byte = static_cast<std::uint8_t>(byte | static_cast<std::uint8_t>(~field.known[i]));
    if (byte != bytes[i]) return byte < bytes[i] ? -1 : 1;
  }
  return 0;
}

}  // namespace

int NftField::least_against(netlink::ByteView other, std::size_t at, std::size_t size) const {
  return order_of(*this, other, at, size, false);
}

int NftField::most_against(netlink::ByteView other, std::size_t at, std::size_t size) const {
  return order_of(*this, other, at, size, true);
}

Answer NftField::between(netlink::ByteView first, netlink::ByteView last, std::size_t at,
                         std::size_t size) const {
  if (most_against(first, at, size) < 0 || least_against(last, at, size) > 0) return Answer::no;
  const bool inside = least_against(first, at, size) >= 0 && most_against(last, at, size) <= 0;
  return inside ? Answer::yes : Answer::unknown;
}

std::optional<NftField> NftFields::of(const netlink::NftPayload& payload) const {
  HeaderPart part(payload.offset, payload.size);
  if (payload.header == NftHeader::network) put_network_header(packet, part);
  if (payload.header == NftHeader::transport) put_transport_header(packet, part);
  return part.field();
}

std::optional<NftField> NftFields::of(const netlink::NftMeta& meta) const {
  const bool is_v4 = packet.family() == Family::ipv4;
  constexpr std::uint8_t kIpv4 = 2;  // NFPROTO_IPV4
  constexpr std::uint8_t kIpv6 = 10;
  switch (static_cast<NftMetaKey>(meta.key)) {
    case NftMetaKey::protocol:
      return NftField{is_v4 ? FieldBytes{0x08, 0x00} : FieldBytes{0x86, 0xdd}, {0xff, 0xff}};
    case NftMetaKey::mark:
      return NftField::number(packet.mark, packet.mark_known);
    case NftMetaKey::in_index:
      if (packet.in_link_is != LinkFact::named) break;
      return link_index_field(facts, packet.in_link);
    case NftMetaKey::out_index:
      if (packet.out_link_is != LinkFact::named) break;
      return link_index_field(facts, packet.out_link);
    case NftMetaKey::in_name:
      if (packet.in_link_is != LinkFact::named) break;
      return link_name_field(packet.in_link);
    case NftMetaKey::out_name:
      if (packet.out_link_is != LinkFact::named) break;
      return link_name_field(packet.out_link);
    case NftMetaKey::family:
      return small(is_v4 ? kIpv4 : kIpv6);
    case NftMetaKey::l4_protocol:
      return small(static_cast<std::uint8_t>(packet.protocol));
  }
  return NftField::unknown(kLongestField);
}

std::optional<NftField> NftFields::of(const netlink::NftCt& ct) const {
  const auto key = static_cast<NftCtKey>(ct.key);
  if (key == NftCtKey::state) return state_of(packet);
  if (packet.tracking == Tracking::unknown) return NftField::unknown(kLongestField);
  if (packet.tracking != Tracking::tracked) return std::nullopt;
  const auto& first = packet.first;
  const bool original = ct.direction.value_or(0) == 0 && first.has_value();
  const auto address = [](const IpAddress& one) {
    HeaderPart field(0, one.bytes().size());
    field.put(0, one);
    return field.field();
  };
  switch (key) {
    case NftCtKey::direction:
      if (packet.is_answer) break;
      return small(0);
    case NftCtKey::status:
      return status_of(packet);
    case NftCtKey::mark:
      return NftField::number(packet.connection_mark, packet.connection_mark_known);
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
  return NftField::unknown(kLongestField);
}

std::optional<NftField> NftFields::of(const netlink::NftFib& fib) const {
  using Limit = AddressTypeCondition::Limit;
  constexpr auto kKnown = netlink::NftFib::kSource | netlink::NftFib::kDestination |
                          netlink::kNftFibInLink | netlink::kNftFibOutLink;
  const bool is_source = (fib.flags & netlink::NftFib::kSource) != 0;
  const bool by_in = (fib.flags & netlink::kNftFibInLink) != 0;
  const bool by_out = (fib.flags & netlink::kNftFibOutLink) != 0;
  if (fib.result != netlink::NftFib::kAddressType || (fib.flags & ~kKnown) != 0 ||
      (by_in && by_out))
    return NftField::unknown(kLongestField);
  const auto limit = by_in ? Limit::in_link : by_out ? Limit::out_link : Limit::none;
  const auto type =
      RuleJudge(facts, packet).address_type(is_source ? Direction::src : Direction::dst, limit);
  return type ? NftField::number(route_type(*type)) : NftField::unknown(kLongestField);
}

}  // namespace ipvsproxier::ipset
