#pragma once

// A packet at one point of its way through a node, as far as it is known. Values; any thread.

#include <cstdint>
#include <optional>
#include <string>

#include "ipset/rules/rule_types.h"
#include "netlink/ip_address.h"
#include "netlink/ipvs/ipvs_types.h"

namespace ipvsproxier::ipset {

// The packet's state in connection tracking.
enum class Tracking : std::uint8_t { not_yet, tracked, never, unknown };

// What is known of a link: its name ("" for none), that it is not lo, that it is not lo and no rule
// names it, or nothing.
enum class LinkFact : std::uint8_t { named, not_loopback, unnamed, unknown };

// Where a packet comes from and goes to. An address of zeros and port 0 are unknown.
struct PacketEnds {
  netlink::IpAddress source;
  std::uint16_t source_port = 0;
  netlink::IpAddress destination;
  std::uint16_t destination_port = 0;

  friend bool operator==(const PacketEnds&, const PacketEnds&) = default;
};

// A packet of a connection, the first one unless it is established. An unknown destination still
// has the packet's family.
struct Packet {
  netlink::IpAddress source;
  std::uint16_t source_port = 0;
  netlink::IpAddress destination;
  std::uint16_t destination_port = 0;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::uint32_t mark = 0;
  std::uint32_t mark_known = 0xffffffff;  // 1 for a bit that is known
  Tracking tracking = Tracking::tracked;
  bool established = false;  // the connection has had answers
  bool is_answer = false;    // it comes from the side to which the connection was made
  bool confirmed = false;    // connection tracking has the connection in its table
  std::uint32_t connection_mark = 0;
  std::uint32_t connection_mark_known = 0xffffffff;
  bool source_translated = false;
  bool destination_translated = false;
  bool status_known = true;          // else `confirmed` and both translations may be otherwise
  bool destination_settled = false;  // a rule said so, and no later chain changes it
  std::string in_link;               // "" if the hook sees none
  std::string out_link;              // "" if the hook sees none
  LinkFact in_link_is = LinkFact::named;
  LinkFact out_link_is = LinkFact::named;
  bool in_bridge_port = false;           // the packet came in through a port of a bridge
  std::optional<PacketEnds> first = {};  // as connection tracking saw it first
  // The virtual service of its connection, once IPVS has scheduled it.
  std::optional<netlink::VirtualServiceKey> connection = {};

  netlink::Family family() const { return destination.family(); }

  friend bool operator==(const Packet&, const Packet&) = default;
};

inline const netlink::IpAddress& address_at(const Packet& packet, Direction direction) {
  return direction == Direction::src ? packet.source : packet.destination;
}
inline std::uint16_t port_at(const Packet& packet, Direction direction) {
  return direction == Direction::src ? packet.source_port : packet.destination_port;
}

}  // namespace ipvsproxier::ipset
