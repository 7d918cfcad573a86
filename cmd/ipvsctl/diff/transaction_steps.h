#pragma once

// The steps of a transaction: its operations as lines for people, with the difference from the
// kernel's present values. Pure; any thread.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/ipvs/ipvs_types.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/transaction.h"

namespace ipvsproxier::ctl {

enum class Area : std::uint8_t {
  host,             // modules, sysctls and IPVS timeouts
  links,            // links, addresses on our links, and local routes
  sets,             // sets and their elements
  rules,            // packet filter rules
  virtual_servers,  // virtual services and real servers
};

std::string_view to_string(Area area);  // "virtual servers"

enum class Change : char { add = '+', remove = '-', change = '~' };

struct Step {
  Area area = Area::host;
  Change change = Change::change;
  std::string what;                                   // "10.96.0.9:80/TCP rr"
  std::optional<netlink::VirtualServiceKey> service;  // the virtual service that the step is about

  friend auto operator<=>(const Step&, const Step&) = default;
};

// The steps that lead from `actual`, the state that the transaction was made for, to the state
// after it, in the transaction's order. A rule or virtual service that the transaction writes twice
// is one step. `links`: all links of this network namespace; links that the step adds or removes
// are added and removed there.
std::vector<Step> steps_of(const plan::Transaction& transaction, const plan::ActualState& actual,
                           std::set<std::string>& links);

}  // namespace ipvsproxier::ctl
