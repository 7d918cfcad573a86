#include "cmd/ipvsctl/explain/consulted_sets.h"

#include <variant>

namespace ipvsproxier::ctl {

namespace {

void add_sets_of(const ipset::Rule& rule, std::set<std::string>& names) {
  for (const auto& match : rule.matches)
    if (const auto* set = std::get_if<ipset::SetMatch>(&match)) names.insert(set->set);
}

}  // namespace

std::set<std::string> consulted_sets(const RuleTables& tables) {
  std::set<std::string> names;
  for (const auto& [key, table] : tables) {
    if (key.table == ipset::Table::kube_ipvs) continue;
    for (const auto& [chain, rules] : table.chains)
      for (const auto& rule : rules) add_sets_of(rule, names);
  }
  return names;
}

}  // namespace ipvsproxier::ctl
