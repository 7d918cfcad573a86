#pragma once

// Kernel: everything that the sync thread changes, as references to the kernel tables. What tests
// replace. Owns nothing.

#include <chrono>
#include <optional>
#include <string>

#include "ipset/rule_table.h"
#include "ipset/set_table.h"
#include "netlink/conntrack_table.h"
#include "netlink/ipvs_table.h"
#include "netlink/link_table.h"

namespace ipvsproxier::sync {

using TimePoint = std::chrono::steady_clock::time_point;

struct Kernel {
  netlink::IpvsTable& ipvs;
  netlink::LinkTable& links;
  ipset::SetTable& sets;
  ipset::RuleTable& rules;
  netlink::ConntrackTable& conntrack;
};

// Something that was asked of the kernel and not done.
struct Failure {
  std::string what;  // "add address 10.96.0.1/32"
  netlink::Error error;
  std::optional<netlink::Family> family = std::nullopt;  // whose fault it is; nullopt: of both

  friend bool operator==(const Failure&, const Failure&) = default;
};

}  // namespace ipvsproxier::sync
