#pragma once

// Which virtual service takes a packet, and which of its real servers may get it, as
// ip_vs_service_find() and ip_vs_schedule() decide (net/netfilter/ipvs, 6.1). Pure, any thread.

#include <string>
#include <vector>

#include "proxier/inspect/packet.h"

namespace ipvsproxier::inspect {

struct VirtualChoice {
  const plan::ActualService* service = nullptr;  // of the reading; nullptr: IPVS leaves it alone
  std::string text;                              // "10.96.0.1:443/TCP, scheduler rr"
  std::vector<netlink::RealServer> candidates;
  std::vector<netlink::RealServer> passed_over;  // weight 0: nothing new goes there
  std::string why_none;                          // without candidates
  // Without candidates the packet goes on, which only that of an FTP service may.
  bool passes = false;
};

VirtualChoice choose_service(const NodeReading& node, const Packet& packet);

}  // namespace ipvsproxier::inspect
