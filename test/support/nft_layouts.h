#pragma once

// What it costs the kernel to validate a table of nf_tables, and the table as daemons left it that
// had one chain for all virtual services of a verdict with source ranges: it looked into the map of
// all of them again.

#include <cstddef>
#include <string>
#include <utility>
#include <variant>

#include "ipset/nftables/filter_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/rule_expressions.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::test {

// Counts rules and elements as nft_table_validate() in net/netfilter/nf_tables_api.c meets them in
// kernels that do not remember which chains they have walked: those before 6.12.66.
class ValidationWalk {
 public:
  static std::size_t steps_of(const ipset::FilterContents& table) {
    ValidationWalk walk(table);
    for (const auto& [name, chain] : table.chains)
      if (chain.base) walk.follow(chain);
    return walk.steps_;
  }

 private:
  explicit ValidationWalk(const ipset::FilterContents& table) : table_(table) {}

  void follow(const ipset::FilterChain& chain) {
    for (const auto& rule : chain.rules) {
      ++steps_;
      for (const auto& expression : rule.expressions) follow(expression);
    }
  }
  void follow(const netlink::NftExpression& expression) {
    if (const auto* immediate = std::get_if<netlink::NftImmediate>(&expression))
      follow(immediate->data);
    const auto* lookup = std::get_if<netlink::NftLookup>(&expression);
    const auto set = lookup == nullptr ? table_.sets.end() : table_.sets.find(lookup->set);
    if (set == table_.sets.end() || set->second.spec.data_type != netlink::kNftVerdictType) return;
    for (const auto& element : set->second.elements) {
      ++steps_;
      if (element.data) follow(*element.data);
    }
  }
  void follow(const netlink::NftData& data) {
    const auto* verdict = std::get_if<netlink::NftVerdict>(&data);
    if (verdict == nullptr || verdict->chain.empty()) return;
    follow(table_.chains.at(verdict->chain));
  }

  const ipset::FilterContents& table_;
  std::size_t steps_ = 0;
};

inline std::string shared_chain_of(ipset::ServiceVerdict verdict) {
  return std::string(ipset::chain_of(verdict)) + "_ranges";
}

// Makes of our table the one of those daemons.
inline netlink::NftUnit as_with_shared_chains(const ipset::FilterContents& contents,
                                              netlink::Family family) {
  using namespace netlink;
  const auto table = ipset::nft_table_of(family);
  const ipset::VerdictMapTarget map{.map =
                                        ipset::set_name(ipset::SetId::nft_source_ranges, family)};
  NftUnit unit;
  for (const auto verdict : ipset::kServiceVerdicts) {
    if (verdict == ipset::ServiceVerdict::keep) continue;
    const auto name = shared_chain_of(verdict);
    const ipset::JumpTarget jump{.chain = std::string(ipset::chain_of(verdict))};
    unit.ops.emplace_back(NftAddChain{table, {.name = name, .base = {}}});
    for (const auto& rule : {ipset::Rule{.target = jump}, ipset::Rule{.target = map}})
      unit.ops.emplace_back(
          NftAddRule{table, {.chain = name, .expressions = ipset::expressions_of(rule, family)}});
  }
  NftDeleteElements leaving{table, "services", {}};
  NftAddElements coming{table, "services", {}};
  NftUnit chains;
  for (auto element : contents.sets.at("services").elements) {
    const auto own = ipset::restricted_chain_of(std::get<NftVerdict>(*element.data).chain);
    if (!own) continue;
    element.data = NftVerdict{NftVerdictCode::go_to, shared_chain_of(own->verdict)};
    coming.elements.push_back(element);
    element.data.reset();
    leaving.elements.push_back(std::move(element));
    chains.ops.emplace_back(NftDeleteChain{table, to_string(*own)});
  }
  unit.ops.emplace_back(std::move(leaving));
  unit.ops.emplace_back(std::move(coming));
  unit.ops.insert(unit.ops.end(), chains.ops.begin(), chains.ops.end());
  return unit;
}

}  // namespace ipvsproxier::test
