#pragma once

// What passes through a network namespace, as a packet socket on all its links sees it: how tests
// learn where a packet went and what it looked like there.

#include <cstdint>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "netlink/unique_fd.h"
#include "test/kernel/netns.h"

namespace ipvsproxier::test {

struct SeenPacket {
  std::int32_t link = 0;  // index
  bool outgoing = false;
  std::uint8_t protocol = 0;  // of the IP header
  netlink::IpAddress source;
  netlink::IpAddress destination;
  std::uint16_t source_port = 0;  // of TCP, UDP and SCTP
  std::uint16_t destination_port = 0;
  bool opens = false;             // TCP: SYN without ACK; SCTP: INIT
  bool resets = false;            // TCP: RST
  bool port_unreachable = false;  // ICMP or ICMPv6 says so
  bool host_unreachable = false;  // ... or that there is no way to it
  bool prohibited = false;        // ... or that it may not get there
  std::uint16_t about_port = 0;   // ... of a packet from this port
};

class Sniffer {
 public:
  // Sees what passes from now on. Throws std::runtime_error if it cannot.
  explicit Sniffer(const Netns& netns);

  // Everything since the last call, without waiting.
  std::vector<SeenPacket> take();

 private:
  netlink::UniqueFd socket_;
};

}  // namespace ipvsproxier::test
