#pragma once

// Finds the base chains of others in nf_tables that drop packets of Services, by judging packets of
// some virtual services (firewall_judge.h). One thread.
//
// Where packets of a Service meet such chains (net/netfilter/ipvs/ip_vs_core.c, 6.1): what comes
// for a virtual service passes prerouting and input, where IPVS takes it at priority 98; what IPVS
// sends on passes output and postrouting, as a packet of this node; what pods answer passes
// forward.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipset/nftables/filter_table.h"
#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

// A virtual service, with one of its real servers.
struct FirewallSample {
  netlink::IpAddress address;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::uint16_t port = 0;
  std::optional<netlink::IpAddress> server;
  std::uint16_t server_port = 0;
};

struct FirewallWarning {
  bool drops = false;  // else it may, for what the judge cannot know
  std::string chain;   // printable; the examples in `text` change with the Services
  std::string text;    // names the chain, printable, and the rule to add

  friend auto operator<=>(const FirewallWarning&, const FirewallWarning&) = default;
};

// Most samples of a family that are judged: the others are like them.
inline constexpr std::size_t kMostFirewallSamples = 32;

// One warning for each chain, sorted. Without samples of a family any packet may be one of a
// Service. Reads the tables that have base chains, and none of ours. A table that cannot be read
// is passed over: the next call may be luckier.
netlink::Result<std::vector<FirewallWarning>> find_firewall_warnings(
    FilterTable& nftables, const std::vector<FirewallSample>& samples);

}  // namespace ipvsproxier::ipset
