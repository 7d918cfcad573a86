#pragma once

// A packet of a Service, as far as it is known. Values; any thread.

#include <cstdint>
#include <optional>

#include "netlink/ip_address.h"

namespace ipvsproxier::ipset {

// nullopt: any.
struct FirewallPacket {
  netlink::Family family = netlink::Family::ipv4;
  std::optional<netlink::IpAddress> source;
  std::optional<netlink::IpAddress> destination;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::optional<std::uint16_t> source_port;
  std::optional<std::uint16_t> destination_port;
  bool is_new = true;              // else of an established connection
  bool from_elsewhere = true;      // it did not come over the link lo; none goes out there
  bool from_unnamed_link = false;  // it came over a link that no rule names
  bool to_here = false;            // its destination is an address of this node
  bool of_ipvs = false;            // IPVS sends it
  // That connection tracking saw first.
  std::optional<netlink::IpAddress> first_destination = {};
  std::optional<std::uint16_t> first_destination_port = {};
};

}  // namespace ipvsproxier::ipset
