#include "proxier/check/filter_drops.h"

#include <algorithm>

#include <fmt/format.h>

#include "ipset/nft/host_firewall.h"

namespace ipvsproxier::check {

namespace {

std::string_view harm(std::string_view chain) {
  if (chain == "OUTPUT" || chain == "POSTROUTING") return "what IPVS sends to pods";
  if (chain == "FORWARD") return "what pods answer";
  return "what comes for Services";
}

}  // namespace

std::vector<DropFact> legacy_drops(netlink::Family family, ipset::Table table,
                                   const ipset::WholeTable& whole) {
  std::vector<DropFact> found;
  for (const auto& [chain, policy] : whole.policies) {
    const auto rules = whole.chains.find(chain);
    const auto* const reason =
        policy == ipset::Verdict::drop ? "its policy is DROP"
        : rules != whole.chains.end() && std::ranges::any_of(rules->second, ipset::drops_all)
            ? "a rule without a condition drops or rejects"
            : nullptr;
    if (reason == nullptr) continue;
    found.push_back(
        {.place = fmt::format("legacy {} table {}, chain {}", netlink::to_string(family),
                              ipset::to_string(table), chain),
         .what = fmt::format("{}: {} is lost unless rules before accept it", reason, harm(chain))});
  }
  return found;
}

}  // namespace ipvsproxier::check
