#include "cmd/ipvsctl_rules.h"

#include <set>

#include "cmd/kernel_tables.h"
#include "ipset/set_catalog.h"

namespace ipvsproxier::cmd {

namespace {

using netlink::Result;
using netlink::Status;

// Of ours and of those that the rules ask.
std::set<std::string> set_names_in(const inspect::RuleReading& reading) {
  std::set<std::string> names;
  for (const auto family : netlink::kFamilies)
    for (const auto id : ipset::kSetIds) names.insert(ipset::set_name(id, family));
  for (const auto& [key, table] : reading.tables)
    for (const auto& [chain, rules] : table.chains)
      for (const auto& rule : rules)
        for (const auto& match : rule.matches)
          if (const auto* set = std::get_if<ipset::SetMatch>(&match)) names.insert(set->set);
  return names;
}

Status count_elements(ipset::SetTable& table, inspect::RuleReading& reading) {
  for (const auto& name : set_names_in(reading)) {
    const auto set = table.list(name);
    if (!set) return set.error();
    if (*set) reading.sets.emplace(name, (*set)->elements.size());
  }
  return {};
}

Result<inspect::RuleReading> read_rules(const inspect::RuleChoice& choice) {
  const auto tables = open_loaded_tables();
  inspect::RuleReading reading;
  // All tables of a family: what is expected in one depends on the others.
  for (const auto family : netlink::kFamilies) {
    if (choice.family.value_or(family) != family) continue;
    for (const auto name : {ipset::Table::filter, ipset::Table::nat, ipset::Table::mangle}) {
      auto table = tables.rules->read(family, name);
      if (!table) return table.error();
      if (*table) reading.tables.emplace(plan::TableKey{family, name}, std::move(**table));
    }
  }
  if (tables.sets)
    if (auto status = count_elements(*tables.sets, reading); !status) return status.error();
  return reading;
}

bool has_chain(const inspect::RuleReading& reading, const inspect::RuleChoice& choice) {
  return !inspect::review_rules(reading, choice).empty();
}

}  // namespace

Status run_rules(const inspect::RuleStyle& style, const inspect::TextSink& sink) {
  const auto reading = read_rules(style.choice);
  if (!reading) return reading.error();
  const auto& choice = style.choice;
  if (!choice.chain.empty() && !has_chain(*reading, choice))
    return netlink::Error{netlink::ErrorKind::missing, 0,
                          "there is no chain of the name " + choice.chain};
  return sink(inspect::rules_text(*reading, style));
}

}  // namespace ipvsproxier::cmd
