#pragma once

// The virtual service that takes a packet, and the real servers that may get it, as decided by
// ip_vs_service_find() and ip_vs_schedule() (net/netfilter/ipvs, 6.1). Pure, any thread.

#include <string>
#include <vector>

#include "cmd/ipvsctl/explain/packet.h"

namespace ipvsproxier::ctl {

struct VirtualChoice {
  const plan::ActualService* service = nullptr;  // in the reading; nullptr: IPVS ignores the packet
  std::string text;                              // "10.96.0.1:443/TCP, scheduler rr"
  std::vector<netlink::RealServer> candidates;
  std::vector<netlink::RealServer> passed_over;  // weight 0: no new connections
  std::string why_none;                          // the reason, without candidates
  // Without candidates: the packet passes IPVS. Only possible for an FTP service.
  bool passes = false;
};

VirtualChoice choose_service(const NodeReading& node, const Packet& packet);

}  // namespace ipvsproxier::ctl
