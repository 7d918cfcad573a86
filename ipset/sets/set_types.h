#pragma once

// IP sets and their elements as values. Any thread.

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
// The kernel module of the kind: "ip_set_hash_ipport".
std::string_view module_of(SetKind kind);

// How a set is created. A kernel set of this name with another kind or family is not ours.
struct SetSpec {
  std::string name;  // at most 31 bytes
  SetKind kind = SetKind::hash_ip;
  // For bitmap_port, which has no family: that of the rules that use it.
  Family family = Family::ipv4;
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
  IpPrefix net;  // host bits clear; a full length is the same element as none
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
