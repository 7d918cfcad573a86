#pragma once

// Kernel: references to all kernel tables that the sync thread changes; tests pass fakes. Owns
// nothing.

#include <chrono>
#include <optional>
#include <string>

#include "ipset/rules/packet_filter.h"
#include "ipset/rules/rule_table.h"
#include "ipset/sets/set_table.h"
#include "netlink/conntrack/conntrack_table.h"
#include "netlink/ipvs/ipvs_table.h"
#include "netlink/links/link_table.h"

namespace ipvsproxier::sync {

using TimePoint = std::chrono::steady_clock::time_point;

// The packet filter that is not ours, in which an earlier process or kube-proxy may have left sets
// and rules. Its sets tell which virtual services are ours, and all of it goes once our state is in
// place (take_over.h).
struct OtherFilter {
  ipset::PacketFilter filter;
  ipset::RuleTable* rules;
  ipset::SetTable* sets = nullptr;  // nullptr: the kernel has none
};

struct Kernel {
  netlink::IpvsTable& ipvs;
  netlink::LinkTable& links;
  ipset::SetTable& sets;
  ipset::RuleTable& rules;
  netlink::ConntrackTable& conntrack;
  std::optional<OtherFilter> other;  // nullopt: nothing can be there
};

// An operation on the kernel that failed.
struct Failure {
  std::string what;  // "add address 10.96.0.1/32"
  netlink::Error error;
  std::optional<netlink::Family> family = std::nullopt;  // family at fault; nullopt: both

  friend bool operator==(const Failure&, const Failure&) = default;
};

}  // namespace ipvsproxier::sync
