#include "ipset/nft/flow_rules.h"

#include <string_view>

#include <fmt/format.h>

#include "ipset/sets/printable_name.h"

namespace ipvsproxier::ipset {

using netlink::Family;
using netlink::NftFamily;

std::set<Family> families_of_flows(const std::vector<netlink::NftFlowRule>& rules) {
  std::set<Family> families;
  for (const auto& rule : rules) {
    const auto family = rule.table.family;
    if (family == NftFamily::ip || family == NftFamily::inet) families.insert(Family::ipv4);
    if (family == NftFamily::ip6 || family == NftFamily::inet) families.insert(Family::ipv6);
  }
  return families;
}

std::string name_of_flow_rule(const netlink::NftFlowRule& rule) {
  const auto chain =
      rule.chain.empty() ? "a rule" : fmt::format("chain {}", printable_name(rule.chain));
  return fmt::format("nf_tables table {}, {} adds connections to flowtable {}",
                     printable_name(netlink::to_string(rule.table)), chain,
                     printable_name(rule.flowtable));
}

std::string text_of_flow_rule(const netlink::NftFlowRule& rule, const std::string& why) {
  constexpr std::string_view kWhatFor =
      "which would forward connections of Services untranslated, so that they stall after the "
      "first answer";
  if (why.empty())
    return fmt::format("{}, {}; a rule of ours keeps them out of it", name_of_flow_rule(rule),
                       kWhatFor);
  return fmt::format(
      "{}, {}; nothing keeps them out of it: {}; write \"ct direction original\" into that "
      "rule, or remove it",
      name_of_flow_rule(rule), kWhatFor, why);
}

}  // namespace ipvsproxier::ipset
