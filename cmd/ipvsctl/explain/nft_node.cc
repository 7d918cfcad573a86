#include "cmd/ipvsctl/explain/nft_node.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cmd/ipvsctl/listing/foreign_sets.h"
#include "ipset/nft/read_table.h"
#include "ipset/nftables/flow_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_set_table.h"
#include "ipset/nftables/nft_source_ranges.h"
#include "ipset/nftables/nft_table_claim.h"
#include "ipset/nftables/rule_decoding.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ctl {

using ipset::SetId;
using netlink::Family;
using netlink::Status;

namespace {

// Whether each virtual service that the map restricts has ranges in the listing.
bool has_ranges_of_all(const std::vector<netlink::NftElement>& map,
                       const std::set<ipset::Element>& ranges) {
  return ranges.size() == map.size();
}

// Whether the set is of the type that we make; with source ranges, those of each Service as well;
// with virtual services, the chains to which it leads.
bool is_as_made(const ipset::FilterContents& contents, SetId id, Family family) {
  const auto is_changed = [](const auto& one) {
    const auto chain = ipset::restricted_chain_of(one.first);
    return chain && !ipset::is_as_made(*chain, one.second);
  };
  if (id == SetId::nft_services && std::ranges::any_of(contents.chains, is_changed)) return false;
  const auto name = std::string(ipset::name_in_table(ipset::set_name(id, family)));
  return std::ranges::all_of(contents.sets, [&](const auto& one) {
    const bool is_part = one.first == name || (id == SetId::nft_source_ranges &&
                                               ipset::restricted_of(one.first).has_value());
    return !is_part || is_our_set(one.second.spec, family);
  });
}

Status read_set(ipset::FilterTable& nftables, ipset::NftSetTable& sets, SetId id, Family family,
                NodeReading& node) {
  const auto name = ipset::set_name(id, family);
  const auto listed = sets.list(name);
  if (!listed) return listed.error();
  if (!*listed) return {};
  const auto& elements = (*listed)->elements;
  std::set<ipset::Element> members(elements.begin(), elements.end());
  if (id == SetId::nft_source_ranges) {
    const auto map = nftables.list_elements(ipset::nft_table_of(family),
                                            std::string(ipset::name_in_table(name)));
    if (!map) return map.error();
    if (!*map || !has_ranges_of_all(**map, members)) return {};
  }
  node.sets.insert_or_assign(name, std::move(members));
  return {};
}

// Whether the kernel calls the chain where our catalogue says, if at all.
bool is_in_place(const std::string& chain, const std::optional<netlink::NftBase>& base) {
  const auto hook = ipset::hook_of(chain);
  if (!hook || !base) return !hook && !base;
  const bool is_nat = hook->type == ipset::ChainHook::Type::nat;
  return base->type == (is_nat ? "nat" : "filter") &&
         base->hook == static_cast<netlink::NftHook>(hook->hook) &&
         base->priority == hook->priority;
}

// What somebody has put elsewhere is a chain as those of other tables.
void keep_places(const ipset::FilterContents& contents, const std::string& name,
                 ipset::WholeTable& whole, NodeReading& node) {
  const auto all = whole;
  for (const auto& [chain, content] : contents.chains) {
    if (is_in_place(chain, content.base)) continue;
    if (ipset::hook_of(chain)) whole.chains.erase(chain);
    if (!content.base) continue;
    node.nft_tables.insert_or_assign(name, all);
    node.nft_chains.push_back({name, chain, *content.base});
  }
}

// Whether a rule of our own table is ours to judge by our words.
bool is_known(const ipset::WholeTable* ours, const std::string& chain, std::size_t place) {
  return ours != nullptr &&
         !std::holds_alternative<ipset::ForeignTarget>(ours->chains.at(chain).at(place).target);
}

// The rules step by step, and the sets into which they look; `contents` gets the elements. `ours`:
// our own table, of which the sets of our rules are read elsewhere.
NftRules read_steps(const NftReader& reader, const netlink::NftTableKey& table,
                    ipset::FilterContents& contents, const ipset::WholeTable* ours) {
  NftRules rules;
  std::set<std::string> looked_up;
  for (const auto& [name, chain] : contents.chains) {
    auto& all = rules.chains[name];
    for (const auto& rule : chain.rules) {
      all.push_back(ipset::steps_of(rule.expressions, reader.family, reader.ip_sets));
      if (is_known(ours, name, all.size() - 1)) continue;
      for (const auto& step : all.back())
        if (const auto* lookup = std::get_if<netlink::NftLookup>(&step))
          looked_up.insert(lookup->set);
    }
  }
  for (const auto& name : looked_up) {
    const auto set = contents.sets.find(name);
    if (set == contents.sets.end()) continue;
    auto elements = reader.nftables.list_elements(table, name);
    if (!elements || !*elements) continue;
    auto& kept = rules.sets.emplace(name, set->second).first->second;
    kept.elements = **std::move(elements);
    // Words tell the elements of these alone; others may have a million.
    if ((set->second.spec.flags & netlink::NftSetSpec::kAnonymous) != 0)
      set->second.elements = kept.elements;
  }
  return rules;
}

// Chains whose packets have not come to the hooks that are walked.
void tell_early(const netlink::NftTableKey& table, const ipset::FilterContents& contents,
                NodeReading& node) {
  constexpr std::uint32_t kInetIngress = 5;  // NF_INET_INGRESS
  const bool is_inet = table.family == netlink::NftFamily::inet;
  for (const auto& [name, chain] : contents.chains) {
    if (!chain.base || (is_inet && static_cast<std::uint32_t>(chain.base->hook) != kInetIngress))
      continue;
    const bool on_bridge = table.family == netlink::NftFamily::bridge;
    node.nft_unread.push_back(fmt::format("chain {} of table {} sees packets {} and is not walked",
                                          name, to_string(table),
                                          on_bridge ? "in a bridge" : "on a link"));
  }
}

void tell_flowtables(const std::string& table, const NftRules& rules, NodeReading& node) {
  for (const auto& [chain, all] : rules.chains)
    for (const auto& steps : all)
      for (const auto& step : steps)
        if (const auto* offload = std::get_if<netlink::NftFlowOffload>(&step))
          node.nft_flowtables.insert(table + " " + offload->flowtable);
}

// Whether the table is dormant: the kernel calls none of its chains.
bool keep_dormant(const std::string& table, const ipset::FilterContents& contents,
                  NodeReading& node) {
  const bool is_called = std::ranges::any_of(
      contents.chains, [](const auto& one) { return one.second.base.has_value(); });
  if (contents.flags.dormant && is_called) node.nft_dormant.push_back(table);
  return contents.flags.dormant;
}

}  // namespace

Status read_our_nft_table(const NftReader& reader, NodeReading& node) {
  const auto family = reader.family;
  const auto table = ipset::nft_table_of(family);
  auto frame = reader.nftables.list_frame(table);
  if (!frame) return frame.error();
  const auto claim = ipset::claim_of(*frame, family);
  if (claim == ipset::TableClaim::absent || claim == ipset::TableClaim::foreign ||
      keep_dormant(to_string(table), **frame, node))
    return {};
  auto whole = ipset::whole_table_of(**frame, family);
  auto rules = read_steps(reader, table, **frame, &whole);
  whole = ipset::whole_table_of(**frame, family);
  tell_flowtables(to_string(table), rules, node);
  node.nft_rules.insert_or_assign(to_string(table), std::move(rules));
  keep_places(**frame, to_string(table), whole, node);
  node.tables.insert_or_assign(plan::TableKey{family, ipset::Table::kube_ipvs}, std::move(whole));
  ipset::NftSetTable sets(reader.nftables);
  for (const auto id : ipset::kNftSetIds) {
    if (!is_as_made(**frame, id, family)) continue;
    if (auto status = read_set(reader.nftables, sets, id, family, node); !status) return status;
  }
  return {};
}

Status read_other_nft_tables(const NftReader& reader, NodeReading& node) {
  const auto family = reader.family;
  const auto tables = reader.nftables.list_tables();
  if (!tables) return tables.error();
  for (const auto& table : *tables) {
    const bool is_early =
        table.family == netlink::NftFamily::netdev || table.family == netlink::NftFamily::bridge;
    if (!is_early && !ipset::has_family(table.family, family)) continue;
    const auto name = to_string(table);
    auto frame = reader.nftables.list_frame(table);
    if (!frame) {
      node.nft_unread.push_back(
          fmt::format("table {} could not be read: {}", name, netlink::to_string(frame.error())));
      continue;
    }
    const bool of_our_name = table == ipset::nft_table_of(family);
    if (*frame && table == ipset::flow_table_of(family) && ipset::is_flow_table(**frame, family)) {
      node.has_flow_table = ipset::has_flow_table(reader.nftables, family).value_or(false);
      continue;
    }
    if (!*frame || (of_our_name && ipset::claim_of(*frame, family) != ipset::TableClaim::foreign) ||
        keep_dormant(name, **frame, node))
      continue;
    auto rules = read_steps(reader, table, **frame, nullptr);
    tell_flowtables(name, rules, node);
    if (is_early || table.family == netlink::NftFamily::inet) tell_early(table, **frame, node);
    if (is_early) continue;
    for (const auto& [chain, content] : (*frame)->chains)
      if (content.base) node.nft_chains.push_back({name, chain, *content.base});
    node.nft_rules.insert_or_assign(name, std::move(rules));
    node.nft_tables.insert_or_assign(name, ipset::whole_table_of(**frame, family, table));
  }
  std::ranges::stable_sort(node.nft_chains, {},
                           [](const NftChainPlace& one) { return one.base.priority; });
  return {};
}

}  // namespace ipvsproxier::ctl
