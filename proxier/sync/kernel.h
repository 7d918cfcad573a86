#pragma once

// Kernel: references to all kernel tables that the sync thread changes; tests pass fakes. Owns
// nothing.

#include <chrono>
#include <optional>
#include <string>

#include "ipset/rules/rule_table.h"
#include "ipset/sets/set_table.h"
#include "netlink/conntrack/conntrack_table.h"
#include "netlink/ipvs/ipvs_table.h"
#include "netlink/links/link_table.h"

namespace ipvsproxier::sync {

using TimePoint = std::chrono::steady_clock::time_point;

struct Kernel {
  netlink::IpvsTable& ipvs;
  netlink::LinkTable& links;
  ipset::SetTable& sets;
  ipset::RuleTable& rules;
  netlink::ConntrackTable& conntrack;
};

// An operation on the kernel that failed.
struct Failure {
  std::string what;  // "add address 10.96.0.1/32"
  netlink::Error error;
  std::optional<netlink::Family> family = std::nullopt;  // family at fault; nullopt: both

  friend bool operator==(const Failure&, const Failure&) = default;
};

}  // namespace ipvsproxier::sync
