#pragma once

// Transaction: the typed operations that bring the kernel from its actual to the desired state, in
// phases. A value that can be printed and replayed: every operation is idempotent. Any thread.

#include <string>
#include <string_view>
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

  bool empty() const { return phases.empty(); }
  friend auto operator<=>(const Transaction&, const Transaction&) = default;
};

// One line for each operation, under a line for its phase.
std::string to_text(const Transaction& transaction);

}  // namespace ipvsproxier::plan
