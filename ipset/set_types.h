#pragma once

// IP sets as values: what a set is, and what may be in it.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "netlink/ip_address.h"

namespace ipvsproxier::ipset {

using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;
using netlink::Protocol;

enum class SetKind : std::uint8_t {
  hash_ip,
  hash_ip_port,
  hash_ip_port_ip,
  hash_ip_port_net,
  bitmap_port,  // range 0-65535; has no family of its own
};

std::string_view to_string(SetKind kind);  // "hash:ip,port"

// How a set is made. A kernel set of this name but another kind or family is not ours.
struct SetSpec {
  std::string name;  // at most 31 bytes
  SetKind kind = SetKind::hash_ip;
  Family family = Family::ipv4;  // of the sets' owner where the kind has none (bitmap_port)
  std::uint32_t hash_size = 1024;
  std::uint32_t max_elements = 65536;

  friend auto operator<=>(const SetSpec&, const SetSpec&) = default;
};

struct IpElement {
  IpAddress ip;
  friend auto operator<=>(const IpElement&, const IpElement&) = default;
};
struct IpPortElement {
  IpAddress ip;
  Protocol protocol = Protocol::tcp;
  std::uint16_t port = 0;
  friend auto operator<=>(const IpPortElement&, const IpPortElement&) = default;
};
struct IpPortIpElement {
  IpAddress ip;
  Protocol protocol = Protocol::tcp;
  std::uint16_t port = 0;
  IpAddress ip2;
  friend auto operator<=>(const IpPortIpElement&, const IpPortIpElement&) = default;
};
struct IpPortNetElement {
  IpAddress ip;
  Protocol protocol = Protocol::tcp;
  std::uint16_t port = 0;
  IpPrefix net;  // host bits clear; a full-length prefix is the same element with or without length
  friend auto operator<=>(const IpPortNetElement&, const IpPortNetElement&) = default;
};
struct PortElement {
  std::uint16_t port = 0;
  friend auto operator<=>(const PortElement&, const PortElement&) = default;
};

using Element =
    std::variant<IpElement, IpPortElement, IpPortIpElement, IpPortNetElement, PortElement>;

std::string to_string(const Element& element);  // "10.0.0.1,tcp:80,10.1.0.0/16"

struct ElementOp {
  bool add = true;
  Element element;

  friend auto operator<=>(const ElementOp&, const ElementOp&) = default;
};

}  // namespace ipvsproxier::ipset
