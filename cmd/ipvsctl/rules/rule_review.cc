#include "cmd/ipvsctl/rules/rule_review.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "cmd/ipvsctl/rules/chain_review.h"
#include "cmd/ipvsctl/rules/nft_review.h"
#include "cmd/ipvsctl/rules/wanted_rules.h"

namespace ipvsproxier::ctl {

using ipset::Rule;
using ipset::Table;
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

bool has_ours(const WholeTable& table, const WantedRules& expected) {
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
    const auto nearest = nearest_rules(reading, ipset::PacketFilter::iptables, family);
    for (const auto table : {Table::filter, Table::nat, Table::mangle}) {
      const auto* read = table_of(reading, {family, table});
      if (read == nullptr || (choice.table && choice.table != table)) continue;
      auto expected = wanted_in(nearest, table);
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
    WantedRules expected;
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
    add(table,
        {.table = table.key,
         .name = name,
         .rules = ChainReview(table.read, table.expected, name).all_in(RuleState::not_judged)});
  }

  const RuleChoice& choice_;
  std::map<Table, Reviewed> tables_;
  std::vector<ReviewedChain> result_;
};

// The tables of iptables while our rules are in nf_tables: what is there of our chains is too much.
std::vector<ReviewedChain> left_over(std::vector<ReviewedChain> chains) {
  std::erase_if(chains, [](const ReviewedChain& chain) { return chain.missing; });
  for (auto& chain : chains) {
    std::erase_if(chain.rules, [](const ReviewedRule& rule) { return !is_there(rule.state); });
    for (auto& rule : chain.rules)
      if (rule.state != RuleState::not_judged) rule.state = RuleState::leftover;
  }
  std::erase_if(chains,
                [](const ReviewedChain& chain) { return chain.policy && chain.rules.empty(); });
  return chains;
}

}  // namespace

bool is_there(RuleState state) {
  return state != RuleState::missing && state != RuleState::missing_unsure;
}

std::vector<ReviewedChain> review_rules(const RuleReading& reading, const RuleChoice& choice) {
  std::vector<ReviewedChain> result;
  for (const auto family : netlink::kFamilies) {
    if (choice.family && choice.family != family) continue;
    if (choice.table.value_or(Table::kube_ipvs) == Table::kube_ipvs)
      std::ranges::move(review_nft(reading, family, choice), std::back_inserter(result));
    auto chains = FamilyReview(reading, family, choice).all();
    if (!reading.nft.empty()) chains = left_over(std::move(chains));
    std::ranges::move(chains, std::back_inserter(result));
  }
  return result;
}

}  // namespace ipvsproxier::ctl
