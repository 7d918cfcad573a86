#include "cmd/ipvsctl/rules/rule_review.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "cmd/ipvsctl/rules/catalogue.h"
#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/rule_decoding.h"

namespace ipvsproxier::ctl {

using ipset::Rule;
using ipset::Table;
using netlink::Family;

namespace {

struct Hook {
  Table table;
  std::string_view chain;
};

// In the order in which a packet meets them.
constexpr std::array<Hook, 16> kHooks = {{
    {Table::kube_ipvs, "prerouting"},
    {Table::kube_ipvs, "input"},
    {Table::kube_ipvs, "output"},
    {Table::kube_ipvs, "postrouting"},
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

// The chain to which a rule jumps; "" for others.
std::string target_chain(const Rule& rule) {
  const auto* jump = std::get_if<ipset::JumpTarget>(&rule.target);
  return jump == nullptr ? "" : jump->chain;
}

class FamilyReview {
 public:
  FamilyReview(const RuleReading& reading, Family family, const RuleChoice& choice)
      : reading_(reading), choice_(choice) {
    for (const auto& [key, table] : reading.tables)
      if (key.family == family && key.table != Table::raw &&
          choice.table.value_or(key.table) == key.table)
        tables_.emplace(key.table, Reviewed{key, table, catalogue_of(reading, key), {}});
  }

  std::vector<ReviewedChain> all() {
    for (const bool nft : {true, false}) {
      for (const auto& [table, chain] : kHooks)
        if (const auto found = tables_.find(table);
            found != tables_.end() && found->second.is_nft() == nft)
          add_chain(found->second, std::string(chain));
      for (auto& [key, table] : tables_)
        if (table.is_nft() == nft) add_rest(table);
    }
    return std::move(result_);
  }

 private:
  struct Reviewed {
    plan::TableKey key;
    const ipset::WholeTable& read;
    Catalogue catalogue;
    std::set<std::string> added;

    bool is_nft() const { return key.table == Table::kube_ipvs; }
    bool is_ours(const std::string& chain) const { return catalogue.chains.contains(chain); }
  };

  // The chain if it is there, and our chains to which its rules jump.
  void add_chain(Reviewed& table, const std::string& name) {
    const auto found = table.read.chains.find(name);
    if (found == table.read.chains.end() || !table.added.insert(name).second) return;
    const bool whole = table.is_ours(name) || table.is_nft() || choice_.chain == name;
    ReviewedChain chain{.table = table.key, .name = name};
    const auto policy = table.read.policies.find(name);
    if (policy != table.read.policies.end()) chain.policy = policy->second;
    if (table.is_nft()) describe(chain, table.is_ours(name));
    const auto counts = table.read.counts.find(name);
    for (std::size_t i = 0; i < found->second.size(); ++i) {
      const auto& rule = found->second[i];
      const bool counted = counts != table.read.counts.end() && i < counts->second.size();
      if (whole || table.is_ours(target_chain(rule)))
        chain.rules.push_back(
            {rule, counted ? counts->second[i] : std::nullopt, state_of(table, name, rule)});
    }
    const bool wanted =
        choice_.chain.empty() ? whole || !chain.rules.empty() : choice_.chain == name;
    if (wanted) result_.push_back(std::move(chain));
    for (const auto& rule : found->second)
      if (const auto target = target_chain(rule); table.is_ours(target)) add_chain(table, target);
  }

  // Our chains that are left; in nf_tables, or if it is named, another program's chain as well.
  void add_rest(Reviewed& table) {
    for (const auto& [name, rules] : table.catalogue.chains) add_chain(table, name);
    for (const auto& [name, rules] : table.read.chains)
      if (table.is_nft() || choice_.chain == name) add_chain(table, name);
  }

  RuleState state_of(const Reviewed& table, const std::string& chain, const Rule& rule) const {
    const bool ours = table.is_ours(chain);
    if (!ours && table.is_nft()) return RuleState::foreign;
    if (!ours && !table.is_ours(target_chain(rule))) return RuleState::not_judged;
    if (!table.is_nft() && !reading_.nft.empty()) return RuleState::leftover;
    if (!reading_.settings.contains(table.key.family)) return RuleState::not_judged;
    const auto& all = ours ? table.catalogue.chains : table.catalogue.jumps;
    const auto wanted = all.find(chain);
    return wanted != all.end() && wanted->second.contains(rule) ? RuleState::ours
                                                                : RuleState::foreign;
  }

  // How the kernel calls a chain of nf_tables.
  void describe(ReviewedChain& chain, bool ours) const {
    const auto& contents = reading_.nft.at(chain.table.family);
    chain.foreign = !ours;
    chain.base = contents.chains.at(chain.name).base;
    chain.dormant = chain.base && contents.flags.dormant;
    if (chain.base)
      chain.policy = chain.base->accepts ? ipset::Verdict::accept : ipset::Verdict::drop;
    if (const auto wanted = ipset::base_of(chain.name); ours && wanted != chain.base)
      chain.wanted = wanted;
  }

  const RuleReading& reading_;
  const RuleChoice& choice_;
  std::map<Table, Reviewed> tables_;
  std::vector<ReviewedChain> result_;
};

}  // namespace

void take_nft_table(RuleReading& reading, Family family, ipset::FilterContents contents) {
  reading.tables[{family, Table::kube_ipvs}] = ipset::whole_table_of(contents, family);
  for (const auto& [name, set] : contents.sets)
    reading.sets[netlink::to_string(ipset::nft_table_of(family)) + " " + name] =
        element_count(set, family);
  reading.nft[family] = std::move(contents);
}

std::vector<ReviewedChain> review_rules(const RuleReading& reading, const RuleChoice& choice) {
  std::vector<ReviewedChain> result;
  for (const auto family : netlink::kFamilies)
    if (choice.family.value_or(family) == family)
      std::ranges::move(FamilyReview(reading, family, choice).all(), std::back_inserter(result));
  return result;
}

std::vector<ForeignSet> foreign_sets(const RuleReading& reading) {
  std::vector<ForeignSet> foreign;
  for (const auto& [family, contents] : reading.nft)
    std::ranges::move(foreign_sets_of(contents, family), std::back_inserter(foreign));
  return foreign;
}

}  // namespace ipvsproxier::ctl
