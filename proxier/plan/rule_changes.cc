#include "proxier/plan/rule_changes.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "ipset/rules/localhost_rules.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/rules/removal_catalog.h"

namespace ipvsproxier::plan {

using ipset::TableRules;
using netlink::Family;

namespace {

// Adds the out-filter's rules that the kernel has and the new state lacks.
void keep_out_filter(const TableRules& current, TableRules& wanted) {
  const auto by_name = [](const TableRules& table) {
    return std::ranges::find(table.chains, ipset::kUnorderedChain, &ipset::Chain::name);
  };
  const auto from = by_name(current);
  const auto to = by_name(wanted);
  if (from == current.chains.end() || to == wanted.chains.end()) return;
  auto& rules = wanted.chains[static_cast<std::size_t>(to - wanted.chains.begin())].rules;
  std::set<ipset::Rule> there(rules.begin(), rules.end());
  for (const auto& rule : from->rules) {
    const bool known = !std::holds_alternative<ipset::ForeignTarget>(rule.target);
    if (known && there.insert(rule).second) rules.push_back(rule);
  }
}

bool has_earlier(const TableRules& table) {
  if (table.table == ipset::Table::kube_ipvs) return false;
  return std::ranges::any_of(table.chains, [&](const ipset::Chain& chain) {
    // The only chain of many rules, all of which are about Services.
    if (chain.name == ipset::kUnorderedChain) return false;
    return ipset::is_of_earlier_build(chain.name) ||
           std::ranges::any_of(chain.rules, [&](const ipset::Rule& rule) {
             return ipset::is_of_earlier_build(rule, table.family);
           });
  });
}

// Adds what earlier builds made, where it is.
void keep_earlier(const TableRules& current, TableRules& wanted) {
  if (!has_earlier(current)) return;
  std::map<std::string_view, ipset::Chain*> by_name;
  for (auto& chain : wanted.chains) by_name.emplace(chain.name, &chain);
  std::vector<ipset::Chain> more;
  for (const auto& chain : current.chains) {
    const auto found = by_name.find(chain.name);
    if (found == by_name.end()) {
      more.push_back(chain);
      continue;
    }
    std::vector<ipset::Rule> earlier;
    auto rest = chain.rules;
    std::erase_if(rest, [&](const ipset::Rule& rule) {
      const bool is_one = ipset::is_of_earlier_build(rule, current.family);
      if (is_one) earlier.push_back(rule);
      return is_one;
    });
    auto& rules = found->second->rules;
    if (rest == rules)
      rules = chain.rules;
    else
      rules.insert(rules.begin(), earlier.begin(), earlier.end());
  }
  std::ranges::move(more, std::back_inserter(wanted.chains));
}

const TableRules* table_like(const std::vector<TableRules>& tables, const TableRules& like) {
  const auto found = std::ranges::find_if(tables, [&](const TableRules& table) {
    return table.family == like.family && table.table == like.table;
  });
  return found == tables.end() ? nullptr : &*found;
}

}  // namespace

const ipset::ElementSet& actual_elements(const ActualState& actual, SetKey key) {
  static const ipset::ElementSet kNone;
  const auto it = actual.sets.find(key);
  return it == actual.sets.end() || !it->second ? kNone : *it->second;
}

RuleChanges::RuleChanges(const DesiredState& desired, const ActualState& actual, const Scope& scope)
    : desired_(desired),
      actual_(actual),
      scope_(scope),
      kept_(desired.leftovers.elements),
      transition_(tables(Time::transition)) {
  const auto is_to_convert = [](const auto& one) { return has_earlier(one.second); };
  if (!desired_.complete || !actual_.services || std::ranges::none_of(actual_.rules, is_to_convert))
    return;
  converted_ = tables(Time::converted);
  std::erase_if(converted_, [&](const TableRules& table) {
    return ipset::holds(*table_like(transition_, table), table);
  });
}

// Whether an existing rule uses the set.
bool RuleChanges::is_consulted(SetKey key) const {
  const auto name = ipset::set_name(key.id, key.family);
  const auto consults = [&](const ipset::Rule& rule) {
    const auto names = ipset::looked_up_by(rule);
    return std::ranges::find(names, name) != names.end();
  };
  for (const auto& [table, rules] : actual_.rules)
    for (const auto& chain : rules.chains)
      if (std::any_of(chain.rules.begin(), chain.rules.end(), consults)) return true;
  return false;
}

// Rules for the time while elements come and go: a rule exists for every set that has or will
// have elements, and for every set that could not be read and has a rule.
ipset::RuleParameters RuleChanges::transitional(Family family,
                                                ipset::RuleParameters parameters) const {
  for (auto id : ipset::sets_of(desired_.packet_filter)) {
    const SetKey key{family, id};
    if (!actual_elements(actual_, key).empty() ||
        (!actual_.sets.contains(key) && is_consulted(key)))
      parameters.non_empty.insert(id);
  }
  for (const auto& [table, rules] : actual_.rules)
    if (table.family == family && ipset::is_about_loop(rules)) parameters.localhost = true;
  return parameters;
}

// Keeps the sets whose elements stay in the rules.
ipset::RuleParameters RuleChanges::settled(Family family, ipset::RuleParameters parameters) const {
  for (const auto& [key, elements] : kept_)
    if (key.family == family && !elements.empty()) parameters.non_empty.insert(key.id);
  const auto& server = ipset::localhost_loop(family).server;
  const auto& services = desired_.leftovers.services;
  const auto held = services.lower_bound({server});
  if (held != services.end() && held->address == server) parameters.localhost = true;
  return parameters;
}

bool RuleChanges::guards_leftover(const ipset::Rule& rule) const {
  return std::any_of(rule.matches.begin(), rule.matches.end(), [this](const auto& match) {
    const auto* of = std::get_if<ipset::IpvsMatch>(&match);
    return of != nullptr &&
           desired_.leftovers.services.contains({of->address, of->protocol, of->port});
  });
}

void RuleChanges::keep_guards_of_leftovers(const TableRules& current, TableRules& wanted) const {
  if (desired_.leftovers.services.empty()) return;
  for (auto& chain : wanted.chains) {
    if (chain.name != ipset::kUnorderedChain) continue;
    for (const auto& has : current.chains)
      if (has.name == chain.name)
        std::copy_if(has.rules.begin(), has.rules.end(), std::back_inserter(chain.rules),
                     [this](const ipset::Rule& rule) { return guards_leftover(rule); });
  }
}

std::vector<TableRules> RuleChanges::tables(Time time) const {
  const bool in_transition = time != Time::afterwards;
  std::vector<TableRules> result;
  for (const auto& [family, parameters] : desired_.rules) {
    if (!scope_.rules.contains(family)) continue;
    auto wanted = ipset::rules_for(
        desired_.packet_filter, family,
        in_transition ? transitional(family, parameters) : settled(family, parameters));
    for (auto& table : wanted) {
      const auto current = actual_.rules.find({family, table.table});
      if (current == actual_.rules.end()) continue;
      if (time == Time::transition) keep_earlier(current->second, table);
      if (in_transition)
        keep_out_filter(current->second, table);
      else
        keep_guards_of_leftovers(current->second, table);
      result.push_back(std::move(table));
    }
  }
  return result;
}

std::vector<TableRules> RuleChanges::prepared() const {
  auto result = transition_;
  std::erase_if(result, [&](const TableRules& table) {
    return ipset::holds(actual_.rules.at({table.family, table.table}), table);
  });
  return result;
}

std::vector<TableRules> RuleChanges::settled(const std::map<SetKey, ipset::ElementSet>& staying) {
  for (const auto& [key, elements] : staying) kept_[key].insert(elements.begin(), elements.end());
  std::vector<TableRules> result;
  for (auto& table : tables(Time::afterwards)) {
    const auto* before = table_like(converted_, table);
    if (before == nullptr) before = table_like(transition_, table);
    if (!ipset::holds(*before, table)) result.push_back(std::move(table));
  }
  return result;
}

}  // namespace ipvsproxier::plan
