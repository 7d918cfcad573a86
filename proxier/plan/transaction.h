#pragma once

// Transaction: the typed operations that bring the kernel from its actual to the desired state, in
// phases. A value that can be printed and replayed: every operation is idempotent. Any thread.

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ipset/rules/rule_types.h"
#include "ipset/sets/set_types.h"
#include "netlink/ipvs/ipvs_types.h"
#include "proxier/plan/bindings.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::plan {

// The elements to add to or remove from one set.
struct SetChange {
  SetKey set;
  std::vector<ipset::ElementOp> ops;

  friend auto operator<=>(const SetChange&, const SetChange&) = default;
};

// One kind of work on one kernel table. Phases run in order. Within a phase only the order of its
// list counts.
struct Phase {
  std::string_view name;
  std::variant<std::vector<ipset::SetSpec>,     // sets to create
               std::vector<ipset::TableRules>,  // tables to bring to this content
               std::vector<SetChange>, std::vector<netlink::IpvsOp>, std::vector<BindingOp>>
      work;

  friend auto operator<=>(const Phase&, const Phase&) = default;
};

struct Transaction {
  std::vector<Phase> phases;  // no phase is empty
  // Real servers that leave a virtual service because its in-cluster clients reach them by way of
  // another one (in_cluster.h).
  std::set<std::pair<netlink::VirtualServiceKey, netlink::RealServerKey>> sent_on;
  // Where in-cluster clients of a virtual service are sent when all is done, of those whose way or
  // whose real servers change; and where so far, of those whose way changes or ends.
  std::map<netlink::VirtualServiceKey, netlink::VirtualServiceKey> ways;
  std::map<netlink::VirtualServiceKey, netlink::VirtualServiceKey> old_ways;
  // Where node ports are, of the planned virtual services that were compared.
  std::set<netlink::IpAddress> node_addresses;
  // Virtual services that get no real servers now, because too many of their namespace still wait
  // for their removal (sync/trash.h).
  std::set<netlink::VirtualServiceKey> without_room;
  // Virtual services whose real servers have lower weights than planned while others leave, or
  // until the scheduler or the thresholds are as planned (wrr_steps.h): to be compared again then.
  std::set<netlink::VirtualServiceKey> held_weights;

  bool empty() const { return phases.empty(); }
  friend auto operator<=>(const Transaction&, const Transaction&) = default;
};

// One line for each operation, under a line for its phase.
std::string to_text(const Transaction& transaction);

}  // namespace ipvsproxier::plan
