#include "test/fakes/fake_rule_table.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace ipvsproxier::test {

using ipset::BaseJump;
using ipset::Chain;
using ipset::Rule;
using ipset::Table;
using ipset::TableRules;
using netlink::Error;
using netlink::ErrorKind;
using netlink::Family;
using netlink::Result;
using netlink::Status;

namespace {

std::string name_of(const TableRules& rules) {
  return std::string(netlink::to_string(rules.family)) + " " +
         std::string(ipset::to_string(rules.table));
}

std::string extensions_of(const TableRules& rules) {
  for (const auto& chain : rules.chains)
    for (const auto& rule : chain.rules)
      for (const auto& match : rule.matches)
        if (std::holds_alternative<ipset::IpvsMatch>(match)) return " with match ipvs";
  return "";
}

}  // namespace

FakeRuleTable::FakeRuleTable() {
  for (const auto family : netlink::kFamilies) {
    for (const auto* chain : {"INPUT", "FORWARD", "OUTPUT"})
      tables_[{family, Table::filter}][chain];
    for (const auto* chain : {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"})
      tables_[{family, Table::nat}][chain];
  }
}

Result<TableRules> FakeRuleTable::list(const TableRules& wanted) {
  if (auto fault = faults.next("list " + name_of(wanted))) return *fault;
  return read(wanted);
}

TableRules FakeRuleTable::read(const TableRules& wanted) const {
  const auto& chains = tables_.at({wanted.family, wanted.table});
  TableRules result{.family = wanted.family, .table = wanted.table};
  for (const auto& chain : wanted.chains) {
    const auto found = chains.find(chain.name);
    if (found == chains.end()) continue;
    Chain listed{.name = chain.name};
    for (const auto& counted : found->second) listed.rules.push_back(counted.rule);
    result.chains.push_back(std::move(listed));
  }
  for (const auto& jump : wanted.jumps) {
    const auto& rules = chains.at(jump.from);
    if (std::any_of(rules.begin(), rules.end(),
                    [&](const Counted& counted) { return counted.rule == jump.rule; }))
      result.jumps.push_back(jump);
  }
  return result;
}

Status FakeRuleTable::check_rule(const Chains& chains, const Rule& rule) const {
  if (rule.comment.size() > 255)
    return Error{.kind = ErrorKind::malformed, .where = "comment: at most 255 bytes"};
  if (std::holds_alternative<ipset::ForeignTarget>(rule.target))
    return Error{.kind = ErrorKind::malformed, .where = "not a rule of ours"};
  for (const auto& match : rule.matches)
    if (const auto* set = std::get_if<ipset::SetMatch>(&match); set && sets.count(set->set) == 0)
      return Error{.kind = ErrorKind::missing, .where = "the set " + set->set + " does not exist"};
  if (const auto* jump = std::get_if<ipset::JumpTarget>(&rule.target);
      jump && chains.count(jump->chain) == 0)
    return Error{.kind = ErrorKind::missing, .where = "no chain or target " + jump->chain};
  return {};
}

Result<bool> FakeRuleTable::apply(const TableRules& desired) {
  auto answer = faults.around("write " + name_of(desired) + extensions_of(desired),
                              [&] { return write(desired); });
  if (after) after(desired.family);
  return answer;
}

Result<bool> FakeRuleTable::write(const TableRules& desired) {
  const auto actual = read(desired);
  if (holds(actual, desired)) return false;

  Chains chains = tables_.at({desired.family, desired.table});
  for (const auto& chain : desired.chains) chains[chain.name];
  for (const auto& chain : desired.chains) {
    const auto found = std::find_if(actual.chains.begin(), actual.chains.end(),
                                    [&](const Chain& other) { return other.name == chain.name; });
    if (found != actual.chains.end() && same_rules(*found, chain)) continue;
    auto& rules = chains[chain.name];
    rules.clear();
    for (const auto& rule : chain.rules) {
      if (auto status = check_rule(chains, rule); !status) return status.error();
      rules.push_back({.rule = rule});
    }
  }
  for (const auto& jump : desired.jumps) {
    if (std::find(actual.jumps.begin(), actual.jumps.end(), jump) != actual.jumps.end()) continue;
    if (auto status = check_rule(chains, jump.rule); !status) return status.error();
    auto& rules = chains.at(jump.from);
    rules.insert(rules.begin(), Counted{.rule = jump.rule});
  }
  tables_[{desired.family, desired.table}] = std::move(chains);
  ++commits_;
  return true;
}

void FakeRuleTable::edit(Family family, Table table, const std::string& words) {
  auto& chains = tables_.at({family, table});
  std::istringstream in(words);
  std::string verb;
  std::string chain;
  in >> verb >> chain;
  if (verb == "-N") {
    chains[chain];
    return;
  }
  auto& rules = chains.at(chain);
  if (verb == "-F") {
    rules.clear();
  } else if (verb == "-D") {
    std::ptrdiff_t number = 0;
    in >> number;
    rules.erase(rules.begin() + number - 1);
  } else if (verb == "-A" || verb == "-I") {
    std::string dash_j;
    std::string target;
    in >> dash_j >> target;
    Rule rule{.target = ipset::JumpTarget{.chain = target}};
    if (target == "DROP") rule.target = ipset::Verdict::drop;
    if (target == "ACCEPT") rule.target = ipset::Verdict::accept;
    rules.insert(verb == "-A" ? rules.end() : rules.begin(), Counted{.rule = rule});
  } else {
    throw std::invalid_argument("unknown edit: " + words);
  }
}

std::map<std::string, std::vector<std::string>> FakeRuleTable::lines(Family family,
                                                                     Table table) const {
  std::map<std::string, std::vector<std::string>> result;
  for (const auto& [chain, rules] : tables_.at({family, table}))
    for (const auto& counted : rules) result[chain].push_back(to_string(counted.rule, family));
  return result;
}

void FakeRuleTable::pass_packet(Family family) {
  for (const auto table : {Table::filter, Table::nat})
    for (auto& counted : tables_.at({family, table}).at("OUTPUT")) ++counted.packets;
}

std::uint64_t FakeRuleTable::packets(Family family, Table table, const std::string& chain,
                                     std::size_t index) const {
  return tables_.at({family, table}).at(chain).at(index).packets;
}

}  // namespace ipvsproxier::test
