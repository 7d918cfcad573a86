#include "proxier/plan/transaction.h"

#include <fmt/format.h>

namespace ipvsproxier::plan {

namespace {

struct Print {
  std::string& text;

  void operator()(const std::vector<ipset::SetSpec>& specs) const {
    for (const auto& spec : specs) {
      text += fmt::format("  make set {} {}", spec.name, ipset::to_string(spec.kind));
      if (spec.max_elements != ipset::kSetCapacity)
        text += fmt::format(" maxelem {}", spec.max_elements);
      text += '\n';
    }
  }
  void operator()(const std::vector<ipset::TableRules>& tables) const {
    for (const auto& table : tables)
      for (const auto& chain : table.chains)
        text += fmt::format("  {} table {}: {} with {} rules\n", netlink::to_string(table.family),
                            ipset::to_string(table.table), chain.name, chain.rules.size());
  }
  void operator()(const std::vector<SetChange>& changes) const {
    for (const auto& change : changes)
      for (const auto& op : change.ops)
        text += fmt::format("  {} {} {}\n", op.add ? "add" : "remove",
                            ipset::set_name(change.set.id, change.set.family),
                            ipset::to_string(op.element));
  }
  void operator()(const std::vector<netlink::IpvsOp>& ops) const {
    for (const auto& op : ops) text += fmt::format("  {}\n", netlink::to_string(op));
  }
  void operator()(const std::vector<BindingOp>& ops) const {
    for (const auto& op : ops) text += fmt::format("  {}\n", to_string(op));
  }
};

}  // namespace

std::string to_text(const Transaction& transaction) {
  std::string text;
  for (const auto& phase : transaction.phases) {
    text += fmt::format("{}\n", phase.name);
    std::visit(Print{text}, phase.work);
  }
  return text;
}

}  // namespace ipvsproxier::plan
