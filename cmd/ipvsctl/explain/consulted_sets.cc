#include "cmd/ipvsctl/explain/consulted_sets.h"

#include <variant>

namespace ipvsproxier::ctl {

namespace {

void add_sets_of(const std::vector<ipset::Match>& matches, std::set<std::string>& names) {
  for (const auto& match : matches)
    if (const auto* set = std::get_if<ipset::SetMatch>(&match)) names.insert(set->set);
}

}  // namespace

std::set<std::string> consulted_sets(const RuleTables& tables) {
  std::set<std::string> names;
  for (const auto& [key, table] : tables) {
    if (key.table == ipset::Table::kube_ipvs) continue;
    for (const auto& [chain, rules] : table.chains)
      for (const auto& rule : rules) {
        add_sets_of(rule.matches, names);
      }
  }
  return names;
}

std::set<std::string> consulted_sets(const std::map<std::string, NftRules>& tables) {
  std::set<std::string> names;
  for (const auto& [name, table] : tables)
    for (const auto& [chain, rules] : table.chains)
      for (const auto& rule : rules)
        for (const auto& step : rule)
          if (const auto* extension = std::get_if<ipset::ExtensionStep>(&step)) {
            add_sets_of(extension->matches, names);
          }
  return names;
}

}  // namespace ipvsproxier::ctl
