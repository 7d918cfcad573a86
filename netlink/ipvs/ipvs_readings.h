#pragma once

// What an IPVS listing holds besides the configuration: counters, rates and facts about the whole
// table. Values; host byte order. Sources: <linux/ip_vs.h>, net/netfilter/ipvs/ip_vs_ctl.c (Linux
// 6.1).

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "netlink/ipvs/ipvs_types.h"

namespace ipvsproxier::netlink {

// Totals since the entry was made or its counters were zeroed. Rates are the kernel's estimates
// over some seconds, per second.
struct IpvsTraffic {
  std::uint64_t connections = 0;
  std::uint64_t packets_in = 0;
  std::uint64_t packets_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t connection_rate = 0;
  std::uint64_t packet_rate_in = 0;
  std::uint64_t packet_rate_out = 0;
  std::uint64_t byte_rate_in = 0;
  std::uint64_t byte_rate_out = 0;
  bool narrow = false;  // connections and packets are numbers of 32 bits (before Linux 4.1)

  friend auto operator<=>(const IpvsTraffic&, const IpvsTraffic&) = default;
};

struct ServiceReading {
  VirtualService service;
  // Set for an IPv4 persistence mask that is no prefix (255.0.255.0), which VirtualService cannot
  // express.
  std::optional<std::uint32_t> odd_netmask;
  IpvsTraffic traffic;
};

struct ServerReading {
  ListedServer listed;
  IpvsTraffic traffic;
};

struct IpvsInfo {
  std::uint32_t version = 0;  // 0x010201 is 1.2.1
  std::uint32_t connection_table_size = 0;
};

// A kernel thread of IPVS that sends connection state to other hosts (master) or receives it
// (backup).
struct SyncDaemon {
  bool master = false;  // else backup
  std::string interface;
  std::uint32_t sync_id = 0;
  std::uint16_t max_length = 0;  // bytes of a message
  std::optional<IpAddress> group;
  std::uint16_t port = 0;
  std::uint8_t ttl = 0;

  friend bool operator==(const SyncDaemon&, const SyncDaemon&) = default;
};

}  // namespace ipvsproxier::netlink
