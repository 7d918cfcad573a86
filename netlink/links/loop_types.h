#pragma once

// A loop: two links of kind veth that are each other's end, so that a packet that leaves by one
// comes in by the other. Values; any thread.

#include <map>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

// What one family needs.
struct LoopWay {
  IpAddress localhost;  // answers to it are taken from the first link
  IpAddress near;       // routed to the first link
  IpAddress far;        // routed to the second link
  IpPrefix all;         // has both: unreachable where no link has a route to them

  friend auto operator<=>(const LoopWay&, const LoopWay&) = default;
};

struct LoopSpec {
  std::string first;
  std::string second;
  std::vector<LoopWay> ways;

  friend auto operator<=>(const LoopSpec&, const LoopSpec&) = default;
};

struct LoopReport {
  std::vector<std::string> written;  // "link kube-local0 and kube-local1", "route 169.254.0.1"
  std::map<Family, Error> failed;    // the routes of these families are not there

  friend bool operator==(const LoopReport&, const LoopReport&) = default;
};

}  // namespace ipvsproxier::netlink
