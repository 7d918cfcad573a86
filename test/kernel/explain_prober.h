#pragma once

// Asks a packet what `ipvsctl explain` says of it, and lets it say what really became of it.

#include <map>
#include <optional>
#include <set>
#include <string>

#include "cmd/ipvsctl/explain/packet_walk.h"
#include "test/kernel/cluster.h"
#include "test/kernel/sniffer.h"

namespace ipvsproxier::test {

// A sender: a host, and for one with several addresses which it takes.
struct Sender {
  const Host* host = nullptr;
  bool on_node = false;
  bool outside = false;                      // knows no way to pods
  std::optional<netlink::IpAddress> source;  // nullopt: it chooses
};

struct Probe {
  Sender sender;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  netlink::IpAddress destination;
  std::uint16_t port = 0;
  std::string facet;
  std::string in_link;  // told explain; "" for none
};

// What became of a packet, or what is said of it: "10.244.0.11:8080 sees 10.244.0.1" for a pod,
// "host sees ..." for a server of n1, "leaves by 3 as ...", "refused: ICMP port unreachable",
// "lost".
using Outcome = std::string;

// "host", "leaves", "refused", "lost", or "served" for a pod that a virtual service chose.
std::string kind_of(const Outcome& outcome);

bool is_bridge_address(const netlink::IpAddress& address);
bool is_pod_address(const netlink::IpAddress& address);

// Sends from one thread; sees the pods of the cluster, its outside hosts and n1. A server of n1 is
// one whose name is "host".
class Prober {
 public:
  explicit Prober(const Cluster& cluster);

  const Host& n2() const { return n2_; }  // the other node itself

  // Checks that what becomes of a packet is what explain, in n1, says; what that is.
  Outcome check(const Probe& probe);

 private:
  std::string link_name(std::int32_t index) const;
  bool came(const Probe& probe, const ctl::PacketWalk& walk, std::uint16_t port,
            const std::vector<SeenPacket>& at_node) const;
  Outcome happened(const Probe& probe, const ctl::PacketWalk& walk, int wait);

  const Cluster& cluster_;
  Host n2_;
  Sniffer node_sniffer_;
  std::map<const Netns*, Sniffer> sniffers_;
  static constexpr std::uint16_t kFirstPort = 20'000;  // of probes, each has its own
  std::uint16_t source_port_ = kFirstPort;
  std::string heard_;  // what the sender of the last probe was told
};

}  // namespace ipvsproxier::test
