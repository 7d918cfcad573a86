#include "cmd/ipvsctl/rules/rule_review.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "ipset/rules/rule_catalog.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ctl {

using ipset::JumpTarget;
using ipset::Rule;
using ipset::RuleParameters;
using ipset::Table;
using ipset::TableRules;
using ipset::WholeTable;
using netlink::Family;

namespace {

struct Hook {
  Table table;
  const char* chain;
};

// In the order in which a packet meets them.
constexpr std::array<Hook, 12> kHooks = {{
    {Table::mangle, "PREROUTING"},
    {Table::nat, "PREROUTING"},
    {Table::mangle, "INPUT"},
    {Table::filter, "INPUT"},
    {Table::nat, "INPUT"},
    {Table::mangle, "FORWARD"},
    {Table::filter, "FORWARD"},
    {Table::mangle, "OUTPUT"},
    {Table::nat, "OUTPUT"},
    {Table::filter, "OUTPUT"},
    {Table::mangle, "POSTROUTING"},
    {Table::nat, "POSTROUTING"},
}};

using Chains = std::map<std::string, std::vector<Rule>>;

const WholeTable* table_of(const RuleReading& reading, plan::TableKey key) {
  const auto found = reading.tables.find(key);
  return found == reading.tables.end() ? nullptr : &found->second;
}

const std::vector<Rule>& rules_of(const Chains& chains, const std::string& name) {
  static const std::vector<Rule> none;
  const auto found = chains.find(name);
  return found == chains.end() ? none : found->second;
}

std::string target_chain(const Rule& rule) {
  const auto* jump = std::get_if<JumpTarget>(&rule.target);
  return jump == nullptr ? "" : jump->chain;
}

// --- the catalogue's rules

// Parameter values found in existing rules, at whatever position these stand.
struct Traces {
  std::set<std::uint32_t> marks;
  std::set<ipset::LocalDetector> detectors;
};

bool is_foreign(const Rule& rule) {
  return std::holds_alternative<ipset::ForeignTarget>(rule.target);
}

void trace_rule(const Rule& rule, Traces& traces) {
  if (is_foreign(rule)) return;
  if (const auto* mark = std::get_if<ipset::MarkTarget>(&rule.target))
    traces.marks.insert(mark->value);
  for (const auto& match : rule.matches)
    if (const auto* mark = std::get_if<ipset::MarkMatch>(&match)) traces.marks.insert(mark->value);
  if (rule.source && rule.source->negated) traces.detectors.insert(rule.source->prefix);
  if (const auto& link = rule.in_interface; link && link->negated) {
    if (link->is_prefix)
      traces.detectors.insert(ipset::InterfacePrefix{link->name});
    else
      traces.detectors.insert(ipset::BridgeInterface{link->name});
  }
}

// The packet filter does not tell which virtual services exclude this node: those with such a rule
// are taken to.
void take_out_filter(const WholeTable& filter, RuleParameters& parameters) {
  for (const auto& rule : rules_of(filter.chains, std::string(ipset::kUnorderedChain))) {
    if (is_foreign(rule)) continue;
    for (const auto& match : rule.matches)
      if (const auto* service = std::get_if<ipset::IpvsMatch>(&match))
        parameters.out_filter.insert({service->address, service->protocol, service->port});
  }
}

RuleParameters known_parameters(const RuleReading& reading, Family family) {
  RuleParameters parameters;
  for (const auto id : ipset::kSetIds) {
    const auto found = reading.sets.find(ipset::set_name(id, family));
    if (found != reading.sets.end() && found->second != 0) parameters.non_empty.insert(id);
  }
  if (const auto* filter = table_of(reading, {family, Table::filter}))
    take_out_filter(*filter, parameters);
  return parameters;
}

std::vector<RuleParameters> possible_parameters(const RuleReading& reading, Family family) {
  const auto known = known_parameters(reading, family);
  Traces traces;
  for (const auto& ours : ipset::rules_for(family, known))
    if (const auto* table = table_of(reading, {family, ours.table}))
      for (const auto& chain : ours.chains)
        for (const auto& rule : rules_of(table->chains, chain.name)) trace_rule(rule, traces);
  std::erase_if(traces.marks, [](auto mark) { return !std::has_single_bit(mark); });
  if (traces.marks.empty()) traces.marks.insert(known.masquerade_mark);
  traces.detectors.insert(std::monostate());

  std::vector<RuleParameters> result;
  for (const auto mark : traces.marks)
    for (const auto& detector : traces.detectors)
      for (const bool all : {false, true})
        for (const bool ping : {true, false})
          for (const bool sources : {true, false}) {
            result.push_back(known);
            result.back().masquerade_mark = mark;
            result.back().detector = detector;
            result.back().masquerade_all = all;
            result.back().vip_ping = ping;
            result.back().vips_are_sources = sources;
          }
  return result;
}

// The number of rules that only one of the lists has, in any order.
std::size_t distance(std::vector<Rule> left, std::vector<Rule> right) {
  std::sort(left.begin(), left.end());
  std::sort(right.begin(), right.end());
  std::vector<Rule> different;
  std::set_symmetric_difference(left.begin(), left.end(), right.begin(), right.end(),
                                std::back_inserter(different));
  return different.size();
}

std::size_t distance(const RuleReading& reading, const std::vector<TableRules>& expected) {
  std::size_t sum = 0;
  for (const auto& ours : expected)
    if (const auto* table = table_of(reading, {ours.family, ours.table}))
      for (const auto& chain : ours.chains)
        sum += distance(rules_of(table->chains, chain.name), chain.rules);
  return sum;
}

// The catalogues with the fewest differences; several if they are equally near.
std::vector<std::vector<TableRules>> nearest_rules(const RuleReading& reading, Family family) {
  std::vector<std::vector<TableRules>> nearest;
  auto least = std::numeric_limits<std::size_t>::max();
  for (const auto& parameters : possible_parameters(reading, family)) {
    auto rules = ipset::rules_for(family, parameters);
    const auto found = distance(reading, rules);
    if (found > least) continue;
    if (found < least) nearest.clear();
    least = found;
    if (std::find(nearest.begin(), nearest.end(), rules) == nearest.end())
      nearest.push_back(std::move(rules));
  }
  return nearest;
}

// The desired content of one table.
struct Expected {
  Chains chains;
  Chains jumps;  // by built-in chain, in the order in which a packet meets them
  // The rules of each chain that all option guesses have in common.
  std::map<std::string, std::set<Rule>> sure;
};

Expected expected_in(const std::vector<std::vector<TableRules>>& nearest, Table table) {
  Expected expected;
  for (const auto& ours : nearest.front()) {
    if (ours.table != table) continue;
    for (const auto& chain : ours.chains) {
      expected.chains[chain.name] = chain.rules;
      expected.sure[chain.name].insert(chain.rules.begin(), chain.rules.end());
    }
    for (const auto& jump : ours.jumps) {
      auto& jumps = expected.jumps[jump.from];
      jumps.insert(jumps.begin(), jump.rule);  // each is inserted at position 1
    }
  }
  for (const auto& other : nearest)
    for (const auto& ours : other)
      if (ours.table == table)
        for (const auto& chain : ours.chains) {
          const std::set<Rule> rules(chain.rules.begin(), chain.rules.end());
          std::erase_if(expected.sure[chain.name],
                        [&](const Rule& rule) { return !rules.contains(rule); });
        }
  return expected;
}

// --- one chain compared with its desired content

// Pairs of positions of the rules that `actual` and `wanted` have in the same order: the longest
// common subsequence.
std::vector<std::pair<std::size_t, std::size_t>> common_rules(const std::vector<Rule>& actual,
                                                              const std::vector<Rule>& wanted) {
  std::vector<std::vector<std::size_t>> length(actual.size() + 1,
                                               std::vector<std::size_t>(wanted.size() + 1));
  for (std::size_t i = actual.size(); i-- > 0;)
    for (std::size_t j = wanted.size(); j-- > 0;)
      length[i][j] = actual[i] == wanted[j] ? length[i + 1][j + 1] + 1
                                            : std::max(length[i + 1][j], length[i][j + 1]);
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0, j = 0; i < actual.size() && j < wanted.size();) {
    if (actual[i] == wanted[j])
      pairs.emplace_back(i++, j++);
    else if (length[i + 1][j] >= length[i][j + 1])
      ++i;
    else
      ++j;
  }
  return pairs;
}

bool has(const std::vector<Rule>& rules, const Rule& rule) {
  return std::find(rules.begin(), rules.end(), rule) != rules.end();
}

ipset::RuleCount count_of(const WholeTable& table, const std::string& chain, std::size_t index) {
  const auto found = table.counts.find(chain);
  if (found == table.counts.end() || index >= found->second.size()) return {};
  return found->second[index];
}

// The existing rules, with the missing ones at their positions.
class ChainReview {
 public:
  ChainReview(const WholeTable& table, const Expected& expected, std::string name)
      : table_(table),
        name_(std::move(name)),
        actual_(rules_of(table.chains, name_)),
        wanted_(rules_of(expected.chains, name_)) {
    const auto sure = expected.sure.find(name_);
    if (sure != expected.sure.end()) sure_ = &sure->second;
  }

  std::vector<ReviewedRule> ordered() {
    std::size_t next = 0;
    std::size_t next_wanted = 0;
    auto pairs = common_rules(actual_, wanted_);
    pairs.emplace_back(actual_.size(), wanted_.size());
    for (const auto& [at, wanted] : pairs) {
      for (; next < at; ++next)
        there(next, has(wanted_, actual_[next]) ? RuleState::misplaced : RuleState::foreign);
      for (; next_wanted < wanted; ++next_wanted) absent(wanted_[next_wanted]);
      if (at < actual_.size()) there(next++, RuleState::ours);
      ++next_wanted;
    }
    return std::move(result_);
  }

  std::vector<ReviewedRule> unordered() {
    const std::set<Rule> wanted(wanted_.begin(), wanted_.end());
    for (std::size_t i = 0; i < actual_.size(); ++i)
      there(i, wanted.contains(actual_[i]) ? RuleState::ours : RuleState::foreign);
    for (const auto& rule : wanted_) absent(rule);
    return std::move(result_);
  }

  std::vector<ReviewedRule> unjudged() {
    for (std::size_t i = 0; i < actual_.size(); ++i) there(i, RuleState::not_judged);
    return std::move(result_);
  }

  // For a built-in chain: the existing and missing jumps to our chains; with `all` also the other
  // rules.
  std::vector<ReviewedRule> jumps(const Expected& expected, bool all) {
    const auto& jumps = rules_of(expected.jumps, name_);
    for (const auto& jump : jumps) absent(jump);
    for (std::size_t i = 0; i < actual_.size(); ++i) {
      if (has(jumps, actual_[i]))
        there(i, RuleState::ours);
      else if (expected.chains.contains(target_chain(actual_[i])))
        there(i, RuleState::foreign);
      else if (all)
        there(i, RuleState::not_judged);
    }
    return std::move(result_);
  }

 private:
  void there(std::size_t index, RuleState state) {
    result_.push_back({actual_[index], count_of(table_, name_, index), state});
  }
  void absent(const Rule& rule) {
    if (has(actual_, rule)) return;
    const bool sure = sure_ == nullptr || sure_->contains(rule);
    result_.push_back({rule, {}, sure ? RuleState::missing : RuleState::missing_unsure});
  }

  const WholeTable& table_;
  std::string name_;
  const std::vector<Rule>& actual_;
  const std::vector<Rule>& wanted_;
  const std::set<Rule>* sure_ = nullptr;
  std::vector<ReviewedRule> result_;
};

// --- all tables

bool has_ours(const WholeTable& table, const Expected& expected) {
  for (const auto& [name, rules] : table.chains) {
    if (expected.chains.contains(name)) return true;
    for (const auto& rule : rules)
      if (expected.chains.contains(target_chain(rule))) return true;
  }
  return false;
}

bool is_reached(const WholeTable& table, const std::string& chain) {
  return std::any_of(table.chains.begin(), table.chains.end(), [&](const auto& from) {
    return std::any_of(from.second.begin(), from.second.end(),
                       [&](const Rule& rule) { return target_chain(rule) == chain; });
  });
}

class FamilyReview {
 public:
  FamilyReview(const RuleReading& reading, Family family, const RuleChoice& choice)
      : choice_(choice) {
    const auto nearest = nearest_rules(reading, family);
    for (const auto table : {Table::filter, Table::nat, Table::mangle}) {
      const auto* read = table_of(reading, {family, table});
      if (read == nullptr || (choice.table && choice.table != table)) continue;
      auto expected = expected_in(nearest, table);
      if (!has_ours(*read, expected)) expected = {};
      tables_.emplace(table, Reviewed{{family, table}, *read, std::move(expected), {}});
    }
  }

  std::vector<ReviewedChain> all() {
    for (const auto& [table, chain] : kHooks) {
      const auto found = tables_.find(table);
      if (found != tables_.end()) add_hook(found->second, chain);
    }
    for (auto& [key, table] : tables_) {
      // First the chains from which others are reached.
      for (const auto& [name, rules] : table.expected.chains)
        if (!is_reached(table.read, name)) add_ours(table, name);
      for (const auto& [name, rules] : table.expected.chains) add_ours(table, name);
      if (!choice_.chain.empty()) add_other(table);
    }
    return std::move(result_);
  }

 private:
  struct Reviewed {
    plan::TableKey key;
    const WholeTable& read;
    Expected expected;
    std::set<std::string> added;
  };

  bool wanted(const std::string& chain) const {
    return choice_.chain.empty() || choice_.chain == chain;
  }

  void add(Reviewed& table, ReviewedChain chain) {
    table.added.insert(chain.name);
    if (wanted(chain.name)) result_.push_back(std::move(chain));
  }

  void add_hook(Reviewed& table, const std::string& name) {
    ReviewedChain chain{.table = table.key, .name = name};
    const auto policy = table.read.policies.find(name);
    if (policy == table.read.policies.end()) return;
    chain.policy = policy->second;
    const bool named = choice_.chain == name;
    chain.rules = ChainReview(table.read, table.expected, name).jumps(table.expected, named);
    if (chain.rules.empty() && !named) return;
    add(table, std::move(chain));
    add_targets(table, name);
  }

  void add_targets(Reviewed& table, const std::string& name) {
    for (const auto& rule : rules_of(table.read.chains, name))
      if (const auto target = target_chain(rule); table.expected.chains.contains(target))
        add_ours(table, target);
  }

  void add_ours(Reviewed& table, const std::string& name) {
    if (table.added.contains(name)) return;
    ReviewedChain chain{.table = table.key,
                        .name = name,
                        .missing = !table.read.chains.contains(name),
                        .reached = is_reached(table.read, name)};
    ChainReview review(table.read, table.expected, name);
    chain.rules = name == ipset::kUnorderedChain ? review.unordered() : review.ordered();
    add(table, std::move(chain));
    add_targets(table, name);
  }

  // The named chain, if another program made it.
  void add_other(Reviewed& table) {
    const auto& name = choice_.chain;
    if (table.added.contains(name) || !table.read.chains.contains(name)) return;
    add(table, {.table = table.key,
                .name = name,
                .rules = ChainReview(table.read, table.expected, name).unjudged()});
  }

  const RuleChoice& choice_;
  std::map<Table, Reviewed> tables_;
  std::vector<ReviewedChain> result_;
};

}  // namespace

std::vector<ReviewedChain> review_rules(const RuleReading& reading, const RuleChoice& choice) {
  std::vector<ReviewedChain> result;
  for (const auto family : netlink::kFamilies) {
    if (choice.family && choice.family != family) continue;
    auto chains = FamilyReview(reading, family, choice).all();
    std::move(chains.begin(), chains.end(), std::back_inserter(result));
  }
  return result;
}

}  // namespace ipvsproxier::ctl
