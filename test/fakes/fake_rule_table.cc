#include "test/fakes/fake_rule_table.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <utility>

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

// Of rules or a removal.
template <typename Part>
std::string name_of(const Part& part) {
  return std::string(netlink::to_string(part.family)) + " " +
         std::string(ipset::to_string(part.table));
}

bool is_builtin(const std::string& chain) {
  for (const auto* name : {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"})
    if (chain == name) return true;
  return false;
}

// The chain to which a rule leads; "" if to none.
std::string_view chain_of(const Rule& rule) {
  const auto* jump = std::get_if<ipset::JumpTarget>(&rule.target);
  return jump == nullptr ? "" : std::string_view(jump->chain);
}

Rule parse_rule(std::istringstream& words) {
  Rule rule;
  for (std::string word; words >> word;) {
    std::string value;
    words >> std::quoted(value);
    if (word == "--comment") rule.comment = value;
    if (word == "--ctstate") rule.matches.emplace_back(ipset::ConntrackStateMatch{.is_new = true});
    if (word != "-j") continue;
    rule.target = ipset::JumpTarget{.chain = value};
    if (value == "DROP") rule.target = ipset::Verdict::drop;
    if (value == "ACCEPT") rule.target = ipset::Verdict::accept;
  }
  return rule;
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
  make_base_chains();
}

void FakeRuleTable::make_base_chains() {
  for (const auto family : netlink::kFamilies) {
    for (const auto* chain : {"INPUT", "FORWARD", "OUTPUT"})
      tables_[{family, Table::filter}][chain];
    for (const auto* chain : {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"})
      tables_[{family, Table::nat}][chain];
    for (const auto* chain : {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"})
      tables_[{family, Table::mangle}][chain];
    tables_[{family, Table::kube_ipvs}];
  }
}

Result<TableRules> FakeRuleTable::list(const TableRules& wanted) {
  if (auto fault = faults.next("list " + name_of(wanted))) return *fault;
  unseen_.erase({wanted.family, wanted.table});
  return read(wanted);
}

std::vector<std::string> FakeRuleTable::surplus_in(const Chains& chains, const TableRules& wanted) {
  std::vector<std::string> surplus;
  for (const auto& [name, rules] : chains)
    if (ipset::is_of_earlier_build(name) &&
        std::ranges::find(wanted.chains, name, &Chain::name) == wanted.chains.end())
      surplus.push_back(name);
  return surplus;
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
  for (const auto& name : surplus_in(chains, wanted)) {
    Chain listed{.name = name};
    for (const auto& counted : chains.at(name)) listed.rules.push_back(counted.rule);
    if (!listed.rules.empty()) result.chains.push_back(std::move(listed));
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
    if (const auto* set = std::get_if<ipset::SetMatch>(&match); set && !has_set(set->set))
      return Error{.kind = ErrorKind::missing, .where = "the set " + set->set + " does not exist"};
  if (const auto* jump = std::get_if<ipset::JumpTarget>(&rule.target);
      jump && chains.count(jump->chain) == 0)
    return Error{.kind = ErrorKind::missing, .where = "no chain or target " + jump->chain};
  return {};
}

bool FakeRuleTable::is_led_to(const Chains& chains, const std::string& chain) {
  return std::any_of(chains.begin(), chains.end(), [&](const auto& other) {
    return std::any_of(other.second.begin(), other.second.end(),
                       [&](const Counted& counted) { return chain_of(counted.rule) == chain; });
  });
}

Result<bool> FakeRuleTable::apply(const TableRules& desired) {
  auto answer = faults.around("write " + name_of(desired) + extensions_of(desired),
                              [this, desired] { return write(desired); });
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
  for (const auto& name : surplus_in(chains, desired)) chains.at(name).clear();
  for (const auto& name : surplus_in(chains, desired))
    if (!is_led_to(chains, name)) chains.erase(name);
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

Result<ipset::RemovedRules> FakeRuleTable::remove(const ipset::RuleRemoval& removal) {
  return faults.around("remove from " + name_of(removal),
                       [this, removal] { return Result<ipset::RemovedRules>(take_out(removal)); });
}

ipset::RemovedRules FakeRuleTable::take_out(const ipset::RuleRemoval& removal) {
  auto& chains = tables_.at({removal.family, removal.table});
  ipset::RemovedRules removed;
  for (auto& [name, rules] : chains) {
    if (is_builtin(name))
      removed.jumps += std::erase_if(rules, [&](const Counted& counted) {
        return names_jump(removal, chain_of(counted.rule), counted.rule.comment);
      });
    else if (names_chain(removal, name) && name != ipset::kMarkChain)
      rules.clear();
  }
  removed.chains = std::erase_if(chains, [&](const auto& chain) {
    if (is_builtin(chain.first) || !names_chain(removal, chain.first)) return false;
    if (!is_led_to(chains, chain.first)) return true;
    removed.in_use.push_back(chain.first);
    return false;
  });
  return removed;
}

Result<bool> FakeRuleTable::set_aside(const ipset::ChainMove& move,
                                      const ipset::RuleRemoval& surplus) {
  return faults.around("set aside in " + name_of(surplus),
                       [this, move, surplus] { return Result<bool>(move_chain(move, surplus)); });
}

bool FakeRuleTable::move_chain(const ipset::ChainMove& move, const ipset::RuleRemoval& surplus) {
  auto& chains = tables_.at({surplus.family, surplus.table});
  const auto& name = move.jump.to;
  const auto found = chains.find(name);
  const auto is_surplus = [&](const Counted& counted) {
    return names_chain(surplus, chain_of(counted.rule));
  };
  if (found == chains.end() || chains.contains(move.aside) ||
      std::none_of(found->second.begin(), found->second.end(), is_surplus))
    return false;
  chains[move.aside] = std::exchange(found->second, {});
  const Counted behind{
      .rule = {.comment = move.jump.comment, .target = ipset::JumpTarget{.chain = name}}};
  for (auto& [chain, rules] : chains) {
    std::size_t last = 0;  // one behind it
    for (std::size_t i = 0; i < rules.size(); ++i) {
      if (chain_of(rules[i].rule) != name) continue;
      rules[i].rule.target = ipset::JumpTarget{.chain = move.aside};
      last = i + 1;
    }
    if (last > 0 && is_builtin(chain))
      rules.insert(rules.begin() + static_cast<std::ptrdiff_t>(last), behind);
  }
  return true;
}

void FakeRuleTable::vanish() {
  tables_.clear();
  make_base_chains();
  note_foreign_hands();
}

void FakeRuleTable::note_foreign_hands() {
  for (const auto& [key, chains] : tables_)
    if (key.second != Table::mangle) unseen_.insert(key);
  after_others();
}

bool FakeRuleTable::is_unseen(Family family) const {
  return std::any_of(unseen_.begin(), unseen_.end(),
                     [&](const Key& key) { return key.first == family; });
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
    rules.insert(verb == "-A" ? rules.end() : rules.begin(), Counted{.rule = parse_rule(in)});
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
