#include "cmd/ipvsctl/listing/foreign_sets.h"

#include <optional>

#include "ipset/nftables/nft_set_elements.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ctl {

using ipset::FilterContents;
using netlink::Family;

bool is_our_set(const netlink::NftSetSpec& spec, Family family) {
  for (const auto id : ipset::kNftSetIds)
    if (const auto wanted = ipset::nft_set_of(ipset::set_spec(id, family));
        wanted.name == spec.name)
      return wanted == spec;
  const auto service = ipset::restricted_of(spec.name);
  return service && service->address.family() == family && ipset::ranges_set_of(*service) == spec;
}

std::size_t element_count(const ipset::FilterSet& set, Family family) {
  if (const auto prefixes = (set.spec.flags & netlink::NftSetSpec::kInterval) != 0
                                ? ipset::prefixes_of(set.elements, family)
                                : std::nullopt)
    return prefixes->size();
  return set.elements.size();
}

std::vector<ForeignSet> foreign_sets_of(const FilterContents& contents, Family family) {
  std::vector<ForeignSet> foreign;
  for (const auto& [name, set] : contents.sets)
    if (!is_our_set(set.spec, family))
      foreign.push_back({.family = family, .name = name, .elements = element_count(set, family)});
  return foreign;
}

}  // namespace ipvsproxier::ctl
