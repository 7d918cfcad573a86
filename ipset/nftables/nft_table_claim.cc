#include "ipset/nftables/nft_table_claim.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "ipset/nftables/nft_set_elements.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ipset {

namespace {

bool is_set_of_ours(const netlink::NftSetSpec& spec, netlink::Family family) {
  return std::ranges::any_of(
      kNftSetIds, [&](const SetId id) { return nft_set_of(set_spec(id, family)) == spec; });
}

// The names of base chains are those that anybody gives.
bool is_chain_of_ours(const std::string& name, const FilterChain& chain) {
  constexpr std::array kVerdicts = {ServiceVerdict::keep, ServiceVerdict::mark,
                                    ServiceVerdict::cluster};
  return !chain.base && std::ranges::any_of(kVerdicts, [&](const ServiceVerdict verdict) {
    return name == chain_of(verdict);
  });
}

}  // namespace

TableClaim claim_of(const std::optional<FilterContents>& contents, netlink::Family family) {
  if (!contents) return TableClaim::absent;
  if (contents->flags.owned) return TableClaim::foreign;
  if (contents->chains.empty() && contents->sets.empty()) return TableClaim::empty;
  const bool ours = std::ranges::any_of(
                        contents->chains,
                        [](const auto& one) { return is_chain_of_ours(one.first, one.second); }) ||
                    std::ranges::any_of(contents->sets, [&](const auto& one) {
                      return is_set_of_ours(one.second.spec, family);
                    });
  return ours ? TableClaim::ours : TableClaim::foreign;
}

bool has_name_of_ours(std::string_view set, netlink::Family family) {
  const auto service = restricted_of(std::string(set));
  return (service && service->address.family() == family) ||
         std::ranges::any_of(kNftSetIds, [&](const SetId id) {
           return name_in_table(set_name(id, family)) == set;
         });
}

netlink::Error foreign_table(netlink::Family family) {
  const auto table = netlink::to_string(nft_table_of(family));
  return {
      netlink::ErrorKind::already, 0,
      fmt::format("the table {0} of nf_tables is not ours: it is left alone, and no {1} Service "
                  "gets rules; find out who made it and remove it (nft delete table {0}), or "
                  "use --packet-filter=iptables",
                  table, netlink::to_string(family))};
}

}  // namespace ipvsproxier::ipset
