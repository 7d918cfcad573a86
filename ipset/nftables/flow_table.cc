#include "ipset/nftables/flow_table.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "ipset/nftables/rule_expressions.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;
using netlink::NftBase;

constexpr const char* kChain = "input";

// After the chains of firewalls, which may drop the packet, and before IPVS takes it at priority 98
// (net/netfilter/ipvs/ip_vs_core.c, 6.1).
const NftBase& our_base() {
  static const NftBase base{.type = "filter", .hook = netlink::NftHook::input, .priority = 97};
  return base;
}

std::vector<netlink::NftExpression> our_rule(Family family) {
  return expressions_of(
      {.matches = {ConntrackStateMatch{.is_new = true}}, .target = UnacceleratedTarget{}}, family);
}

// Without the object, which a frame does not list.
bool is_whole(const FilterContents& contents, Family family) {
  const auto chain = contents.chains.find(kChain);
  return !contents.flags.dormant && chain != contents.chains.end() &&
         chain->second.base == our_base() && chain->second.rules.size() == 1 &&
         chain->second.rules.front().expressions == our_rule(family);
}

}  // namespace

const netlink::NftExpectation& unaccelerated_object() {
  // Nothing is ever expected: protocol, port and time-out only have to be there.
  static const netlink::NftExpectation object{
      .name = std::string(kUnaccelerated), .protocol = 6, .port = 9, .timeout = 1, .size = 0};
  return object;
}

netlink::NftTableKey flow_table_of(Family family) {
  const bool is_v4 = family == Family::ipv4;
  return {is_v4 ? netlink::NftFamily::ip : netlink::NftFamily::ip6, std::string(kFlowTable)};
}

bool is_flow_table(const FilterContents& contents, Family family) {
  const bool has_others =
      std::ranges::any_of(contents.chains, [](const auto& chain) { return chain.first != kChain; });
  if (contents.flags.owned || !contents.sets.empty() || has_others) return false;
  const auto chain = contents.chains.find(kChain);
  return chain == contents.chains.end() ||
         std::ranges::all_of(chain->second.rules, [&](const FilterRule& rule) {
           return rule.expressions == our_rule(family);
         });
}

netlink::Result<bool> has_flow_table(FilterTable& nftables, Family family) {
  const auto key = flow_table_of(family);
  const auto frame = nftables.list_frame(key);
  if (!frame) return frame.error();
  if (!*frame || !is_flow_table(**frame, family) || !is_whole(**frame, family)) return false;
  const auto object = nftables.find_expectation(key, std::string(kUnaccelerated));
  if (!object) return object.error();
  return *object == unaccelerated_object();
}

netlink::Status make_flow_table(FilterTable& nftables, Family family) {
  const auto there = has_flow_table(nftables, family);
  if (!there) return there.error();
  if (*there) return {};
  const auto key = flow_table_of(family);
  const auto frame = nftables.list_frame(key);
  if (!frame) return frame.error();
  if (*frame && !is_flow_table(**frame, family))
    return netlink::Error{netlink::ErrorKind::already, EEXIST,
                          "table " + netlink::to_string(key) + " is another program's; remove it"};
  netlink::NftUnit unit;
  if (*frame) unit.ops.emplace_back(netlink::NftDeleteTable{key});
  unit.ops.emplace_back(netlink::NftAddTable{key});
  unit.ops.emplace_back(netlink::NftAddExpectation{key, unaccelerated_object()});
  unit.ops.emplace_back(netlink::NftAddChain{key, {.name = kChain, .base = our_base()}});
  unit.ops.emplace_back(
      netlink::NftAddRule{key, {.chain = kChain, .expressions = our_rule(family)}});
  return nftables.apply({&unit, 1}).front();
}

netlink::Result<bool> remove_flow_table(FilterTable& nftables, Family family) {
  const auto key = flow_table_of(family);
  const auto frame = nftables.list_frame(key);
  if (!frame) return frame.error();
  if (!*frame || !is_flow_table(**frame, family)) return false;
  const netlink::NftUnit unit{{netlink::NftDeleteTable{key}}};
  if (auto removed = nftables.apply({&unit, 1}).front(); !removed) return removed.error();
  return true;
}

}  // namespace ipvsproxier::ipset
