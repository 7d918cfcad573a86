#pragma once

// The edits that rule_iptc.cc makes to a snapshot of one table in memory. Templates over the
// snapshot, so that only rule_iptc.cc includes libiptc. Same thread as the snapshot.

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ipset/rules/rule_codec.h"
#include "ipset/rules/rule_types.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

// The position of a rule.
struct Position {
  std::string chain;
  unsigned index = 0;
};

// Chains of ours in the snapshot that are not wanted.
template <typename Snapshot>
std::vector<std::string> surplus_chains(const Snapshot& snapshot, const TableRules& wanted) {
  std::vector<std::string> surplus;
  if (wanted.table != Table::nat) return surplus;
  std::set<std::string_view> names;
  for (const auto& chain : wanted.chains) names.insert(chain.name);
  for (auto& chain : snapshot.chains())
    if (is_of_earlier_build(chain) && !names.contains(chain)) surplus.push_back(std::move(chain));
  return surplus;
}

template <typename Snapshot>
TableRules list_from(const Snapshot& snapshot, const TableRules& wanted, SetResolver& sets) {
  TableRules result{.family = wanted.family, .table = wanted.table};
  for (const auto& chain : wanted.chains)
    if (snapshot.has_chain(chain.name))
      result.chains.push_back(Chain{.name = chain.name, .rules = snapshot.rules(chain.name, sets)});
  for (auto& name : surplus_chains(snapshot, wanted)) {
    auto rules = snapshot.rules(name, sets);
    if (!rules.empty())
      result.chains.push_back(Chain{.name = std::move(name), .rules = std::move(rules)});
  }
  for (const auto& jump : wanted.jumps) {
    const auto rules = snapshot.rules(jump.from, sets);
    if (std::find(rules.begin(), rules.end(), jump.rule) != rules.end())
      result.jumps.push_back(jump);
  }
  return result;
}

// Empties them all before removing one: they jump to one another. One to which rules of others lead
// stays, empty.
template <typename Snapshot>
netlink::Status remove_surplus(Snapshot& snapshot, const TableRules& desired) {
  const auto surplus = surplus_chains(snapshot, desired);
  for (const auto& chain : surplus)
    if (auto status = snapshot.flush(chain); !status) return status;
  for (const auto& chain : surplus)
    if (const auto gone = snapshot.remove(chain); !gone) return gone.error();
  return {};
}

// Changes the snapshot until it holds what is desired; true if anything had to be changed.
template <typename Snapshot>
netlink::Result<bool> edit(Snapshot& snapshot, const TableRules& desired, SetResolver& sets) {
  const auto actual = list_from(snapshot, desired, sets);
  if (holds(actual, desired)) return false;
  // All chains first: rules may jump to chains that come later.
  for (const auto& chain : desired.chains)
    if (!snapshot.has_chain(chain.name))
      if (auto status = snapshot.create(chain.name); !status) return status.error();
  std::map<std::string_view, const Chain*> now;
  for (const auto& chain : actual.chains) now.emplace(chain.name, &chain);
  for (const auto& chain : desired.chains) {
    const auto found = now.find(chain.name);
    if (found != now.end() && same_rules(*found->second, chain)) continue;
    if (auto status = snapshot.rewrite(chain, sets); !status) return status.error();
  }
  if (auto status = remove_surplus(snapshot, desired); !status) return status.error();
  for (const auto& jump : desired.jumps) {
    if (std::find(actual.jumps.begin(), actual.jumps.end(), jump) != actual.jumps.end()) continue;
    if (auto status = snapshot.insert({jump.from, 0}, jump.rule, sets); !status)
      return status.error();
  }
  return true;
}

// Removes from the snapshot what `removal` names; true if anything was removed.
template <typename Snapshot>
netlink::Result<bool> take_out(Snapshot& snapshot, const RuleRemoval& removal,
                               RemovedRules& removed) {
  const auto jumps = snapshot.base_jumps([&](std::string_view target, const std::string& comment) {
    return names_jump(removal, target, comment);
  });
  // From the back, so that the remaining indexes stay valid.
  for (auto jump = jumps.rbegin(); jump != jumps.rend(); ++jump)
    if (auto status = snapshot.erase(*jump); !status) return status.error();
  removed = {.jumps = jumps.size()};
  bool changed = !jumps.empty();
  auto chains = snapshot.chains();
  std::erase_if(chains, [&](const std::string& chain) {
    return snapshot.is_builtin(chain) || !names_chain(removal, chain);
  });
  // Flush all chains before removing one: they jump to one another.
  for (const auto& chain : chains) {
    if (!snapshot.has_rules(chain) || chain == kMarkChain) continue;
    if (auto status = snapshot.flush(chain); !status) return status.error();
    changed = true;
  }
  for (const auto& chain : chains) {
    if (chain == kMarkChain) {
      const auto used = snapshot.is_used(chain);
      if (!used) return used.error();
      if (!*used)
        if (auto status = snapshot.flush(chain); !status) return status.error();
    }
    const auto gone = snapshot.remove(chain);
    if (!gone) return gone.error();
    changed = changed || *gone;
    if (*gone)
      ++removed.chains;
    else
      removed.in_use.push_back(chain);
  }
  return changed;
}

// Whether a rule of the chain jumps to a chain that `surplus` names.
template <typename Snapshot>
bool leads_to_surplus(const Snapshot& snapshot, const std::string& chain,
                      const RuleRemoval& surplus) {
  bool leads = false;
  snapshot.for_each_rule(chain, [&](unsigned, std::string_view target, auto) {
    leads = leads || names_chain(surplus, target);
  });
  return leads;
}

// RuleTable::set_aside() on a snapshot; true if it was changed.
template <typename Snapshot>
netlink::Result<bool> move_chain(Snapshot& snapshot, const ChainMove& move,
                                 const RuleRemoval& surplus, SetResolver& sets) {
  const std::string& name = move.jump.to;
  if (!snapshot.has_chain(name) || snapshot.has_chain(move.aside) ||
      !leads_to_surplus(snapshot, name, surplus))
    return false;
  const auto jumps = snapshot.base_jumps(
      [&](std::string_view target, const std::string&) { return target == name; });
  if (auto status = snapshot.rename(name, move.aside); !status) return status.error();
  if (auto status = snapshot.create(name); !status) return status.error();
  const Rule rule{.comment = move.jump.comment, .target = JumpTarget{.chain = name}};
  for (std::size_t i = 0; i < jumps.size(); ++i) {
    const auto& [chain, index] = jumps[i];
    if (i + 1 < jumps.size() && jumps[i + 1].chain == chain) continue;
    if (auto status = snapshot.insert({chain, index + 1}, rule, sets); !status)
      return status.error();
  }
  return true;
}

}  // namespace ipvsproxier::ipset
