#pragma once

// IP sets and their elements as values. Any thread.

#include <array>
#include <compare>
#include <cstddef>
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
  // In a table of nf_tables, which grow as needed:
  nft_addresses,      // a set of addresses
  nft_hairpins,       // a set of addresses: packets from one of them to itself
  nft_ports,          // a set of TCP ports
  nft_services,       // a map of address, protocol and port to the chain of a ServiceElement
  nft_source_ranges,  // a map of RangesElement: to a chain that drops other sources
  nft_destinations,   // a map of address, protocol and port to another address and port
};

// Whether sets of this kind are part of a table of nf_tables.
bool is_nft(SetKind kind);

std::string_view to_string(SetKind kind);  // "hash:ip,port"
// The kernel module of the kind: "ip_set_hash_ipport", "nf_tables".
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
// Which source address an endpoint of a virtual service sees.
enum class ServiceVerdict : std::uint8_t {
  keep,     // the client's
  mark,     // the node's
  cluster,  // the client's if the local detector tells that it is a pod of this node
  local,    // of policy Local: the client's, but for the node itself
  absent,   // the same, and no endpoint is here: packets of others than the node are dropped
  foreign,  // something else, which another program wrote; never written
};

// All that are written.
inline constexpr std::array kServiceVerdicts = {ServiceVerdict::keep, ServiceVerdict::mark,
                                                ServiceVerdict::cluster, ServiceVerdict::local,
                                                ServiceVerdict::absent};

std::string_view to_string(ServiceVerdict verdict);  // "keep"

// A map has at most one element of a virtual service: adding another one replaces it.
struct ServiceElement {
  IpAddress ip;
  Protocol protocol = Protocol::tcp;
  std::uint16_t port = 0;
  ServiceVerdict verdict = ServiceVerdict::keep;
  bool restricted = false;  // its source ranges decide first; never with a foreign verdict
  friend auto operator<=>(const ServiceElement&, const ServiceElement&) = default;
};

// Packets to a virtual service go to another one, `to` and `to_port`. Likewise at most one.
struct DestinationElement {
  IpAddress ip;
  Protocol protocol = Protocol::tcp;
  std::uint16_t port = 0;
  IpAddress to;
  std::uint16_t to_port = 0;
  friend auto operator<=>(const DestinationElement&, const DestinationElement&) = default;
};

// The sources from which packets reach a virtual service; those from all others are dropped.
// Likewise at most one.
struct RangesElement {
  IpAddress ip;
  Protocol protocol = Protocol::tcp;
  std::uint16_t port = 0;
  std::vector<IpPrefix> ranges;  // sorted, not empty, none within another
  friend auto operator<=>(const RangesElement&, const RangesElement&) = default;
};

using Element = std::variant<IpElement, IpPortElement, IpPortIpElement, IpPortNetElement,
                             PortElement, ServiceElement, DestinationElement, RangesElement>;

// "10.0.0.1,tcp:80,10.1.0.0/16"; the number of ranges beyond kMostShownRanges instead of these.
std::string to_string(const Element& element);
inline constexpr std::size_t kMostShownRanges = 8;

// The element as it is shown: of source ranges each apart.
std::vector<Element> one_by_one(const Element& element);

// How much the kernel has to do for it: each source range counts.
std::size_t weight_of(const Element& element);

// All elements that a virtual service may have.
std::vector<ServiceElement> all_of(const IpAddress& ip, Protocol protocol, std::uint16_t port);

// The first of all elements, in their order, that have the key of this one; in a set that is the
// element itself.
Element first_of_key(const Element& element);
// Whether adding an element to a map replaces the other one: both have one key.
bool replaces(const Element& element, const Element& other);

struct ElementOp {
  bool add = true;
  Element element;

  friend auto operator<=>(const ElementOp&, const ElementOp&) = default;
};

}  // namespace ipvsproxier::ipset
