#include "ipset/nft/nft_leftovers.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "ipset/nftables/nft_set_elements.h"
#include "ipset/rules/removal_catalog.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;
using netlink::NftHook;
using netlink::NftOp;
using netlink::NftTableKey;
using netlink::Result;

struct Accepting {
  NftHook hook;
  std::string_view chain;  // of kube-proxy
};
// KUBE-NODE-PORT belongs to ipvs mode, KUBE-NODEPORTS to iptables mode.
constexpr std::array<Accepting, 3> kAccepting = {{{NftHook::forward, "KUBE-FORWARD"},
                                                  {NftHook::input, "KUBE-NODE-PORT"},
                                                  {NftHook::input, "KUBE-NODEPORTS"}}};

NftTableKey table_named(Family family, std::string name) {
  return {nft_table_of(family).family, std::move(name)};
}

bool may_accept(std::string_view chain) {
  return std::ranges::find(kAccepting, chain, &Accepting::chain) != kAccepting.end();
}

// Whether the chain accepts what a base chain of its table drops by policy.
bool accepts_what_drops(const std::string& chain, const FilterContents& contents) {
  return std::ranges::any_of(kAccepting, [&](const Accepting& one) {
    return one.chain == chain && std::ranges::any_of(contents.chains, [&](const auto& other) {
             const auto& base = other.second.base;
             return base && base->hook == one.hook && !base->accepts;
           });
  });
}

// The chain to which a rule leads; "": to none.
std::string led_to(const FilterRule& rule) {
  for (const auto& expression : rule.expressions)
    if (const auto* immediate = std::get_if<netlink::NftImmediate>(&expression))
      if (const auto* verdict = std::get_if<netlink::NftVerdict>(&immediate->data))
        if (!verdict->chain.empty()) return verdict->chain;
  return "";
}

// What is to be done in one transaction.
struct Removal {
  std::vector<NftOp> empty;   // chains, and their jumps in built-in chains go
  std::vector<NftOp> remove;  // these chains
  std::vector<std::string> chains;
};

// Appends what removes from one table the chains that are named, and counts it.
void plan_removal(const NftTableKey& table, const FilterContents& contents,
                  const std::set<std::string>& named, Removal& plan, RemovedNft& removed) {
  std::set<std::string> used;  // by chains of others
  for (const auto& [name, chain] : contents.chains) {
    if (named.contains(name)) continue;
    for (const auto& rule : chain.rules) {
      const auto target = led_to(rule);
      if (!named.contains(target)) continue;
      if (!chain.base) {
        used.insert(target);
        continue;
      }
      plan.empty.emplace_back(netlink::NftDeleteRule{table, name, rule.handle});
      ++removed.jumps;
    }
  }
  for (const auto& name : named) {
    const auto chain = fmt::format("{} {}", to_string(table), name);
    if (!used.contains(name) || name != kMarkChain)
      plan.empty.emplace_back(netlink::NftFlushChain{table, name});
    if (used.contains(name)) {
      removed.in_use.push_back(chain);
      continue;
    }
    plan.remove.emplace_back(netlink::NftDeleteChain{table, name});
    plan.chains.push_back(chain);
  }
}

// The chains of a table that `removal` names, except those that are held back.
std::set<std::string> named_chains(const NftTableKey& table, const FilterContents& contents,
                                   const RuleRemoval& removal, bool hold_back,
                                   RemovedNft& removed) {
  std::set<std::string> named;
  for (const auto& [name, chain] : contents.chains) {
    if (!names_chain(removal, name)) continue;
    if (hold_back && accepts_what_drops(name, contents))
      removed.held_back.push_back(fmt::format("{} {}", to_string(table), name));
    else
      named.insert(name);
  }
  return named;
}

// All removals in one transaction: packets never meet a part of it. `busy`: something else than a
// rule leads to one of the chains, such as an element of a map; then all of them stay, empty.
netlink::Status remove_rules(FilterTable& nftables, Family family, bool hold_back, bool kube_router,
                             RemovedNft& removed) {
  Removal plan;
  RemovedNft counted = removed;
  for (const auto& removal : all_removals(family, kube_router)) {
    const auto table = table_named(family, std::string(to_string(removal.table)));
    // Iptables mode may have some hundred thousand rules, nearly all of them in its own chains.
    const auto leads_there = [&](const std::string& chain, const FilterRule& rule) {
      return (!names_chain(removal, chain) || may_accept(chain)) &&
             names_chain(removal, led_to(rule));
    };
    const auto contents = nftables.list_chains(table, leads_there);
    if (!contents) return contents.error();
    if (!*contents) continue;
    const auto named = named_chains(table, **contents, removal, hold_back, counted);
    plan_removal(table, **contents, named, plan, counted);
  }
  counted.chains += plan.chains.size();
  netlink::NftUnit all{plan.empty};
  std::ranges::move(plan.remove, std::back_inserter(all.ops));
  auto gone = nftables.apply({&all, 1}).front();
  if (!gone && gone.error().kind == netlink::ErrorKind::busy) {
    const netlink::NftUnit emptied{std::move(plan.empty)};
    gone = nftables.apply({&emptied, 1}).front();
    counted.chains -= plan.chains.size();
    std::ranges::move(plan.chains, std::back_inserter(counted.in_use));
  }
  if (gone) removed = std::move(counted);
  return gone;
}

Result<RemovedNft> remove_leftovers(FilterTable& nftables, Family family, bool hold_back,
                                    bool kube_router) {
  const auto table = table_named(family, kNftTable);
  const auto tables = nftables.list_tables();
  if (!tables) return tables.error();
  RemovedNft removed;
  if (std::ranges::find(*tables, table) != tables->end()) {
    const netlink::NftUnit unit{{netlink::NftDeleteTable{table}}};
    const auto gone = nftables.apply({&unit, 1}).front();
    // `missing`: another program removed it just now.
    if (!gone && gone.error().kind != netlink::ErrorKind::missing) return gone.error();
    removed.table = static_cast<bool>(gone);
  }
  if (const auto rules = remove_rules(nftables, family, hold_back, kube_router, removed); !rules)
    return rules.error();
  return removed;
}

}  // namespace

Result<RemovedNft> remove_nft_leftovers(FilterTable& nftables, Family family, bool kube_router) {
  return remove_leftovers(nftables, family, false, kube_router);
}

Result<RemovedNft> take_over_nft_leftovers(FilterTable& nftables, Family family, bool kube_router) {
  return remove_leftovers(nftables, family, true, kube_router);
}

Result<bool> nft_translates(FilterTable& nftables, Family family) {
  const auto translating = translation_chains(family);
  const auto mode = nftables.list_chains(table_named(family, kNftTable), {});
  if (!mode) return mode.error();
  if (*mode && !(*mode)->chains.empty()) return true;
  const auto nat =
      nftables.list_chains(table_named(family, std::string(to_string(translating.table))), {});
  if (!nat) return nat.error();
  return *nat && std::ranges::any_of((*nat)->chains, [&](const auto& chain) {
    return names_chain(translating, chain.first);
  });
}

}  // namespace ipvsproxier::ipset
