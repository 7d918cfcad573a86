#pragma once

// NftSourceRanges: the source ranges of restricted virtual services in our tables of nf_tables.
// Each has a set and a chain of its own, to which the map "restricted" leads, and chains by which
// the map of virtual services leads there (nft_set_elements.h). Sync thread only.

#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "ipset/nftables/filter_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/sets/set_types.h"
#include "netlink/ip_address.h"
#include "netlink/nftables/nftables_types.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

// Makes a chain of a restricted virtual service as it should be, whatever it was.
void append_chain(const RestrictedChain& chain, netlink::NftUnit& unit);
bool is_as_made(const RestrictedChain& chain, const FilterChain& found);
// Removes it, if it is there. Elements may no longer lead to it.
void append_removal(const RestrictedChain& chain, netlink::NftUnit& unit);

// The virtual services that the table restricts: an element of the map leads to a chain, and there
// is a set. `map`: the elements of the map "restricted".
std::set<RestrictedService> restricted_in(const FilterContents& frame,
                                          std::span<const netlink::NftElement> map, Family family);
// The removal of all that the table has of a virtual service that it does not restrict; `in_map`:
// the map has its key.
netlink::NftUnit removal_of_rest(const RestrictedService& service, const FilterContents& frame,
                                 bool in_map);

// Whether the answer was lost: the kernel may have done it.
bool is_lost(const netlink::Status& status);

class NftSourceRanges {
 public:
  // `table` must outlive this.
  explicit NftSourceRanges(FilterTable& table) : table_(table) {}

  // Restricted virtual services, with the rules of their chains.
  using Chains = std::vector<std::pair<RestrictedService, std::vector<Rule>>>;

  // Those that the map leads to their chains, and that have a set of ours; nullopt without the map.
  netlink::Result<std::optional<Chains>> services(netlink::Family family);
  // The ranges of one; nullopt if its set is gone or empty, or has intervals that are no prefixes,
  // or a chain with other rules than ours.
  netlink::Result<std::optional<RangesElement>> read(const RestrictedService& service,
                                                     const std::vector<Rule>& chain);
  // The elements of all; nullopt without the map.
  netlink::Result<std::optional<std::vector<Element>>> read_all(netlink::Family family);

  // What makes the ranges of a virtual service `after` where the kernel has `before`; no operation
  // if nothing differs. `before`: nullptr if unknown: all is written, whatever is there.
  static netlink::NftUnit change(const RangesElement* before, const RangesElement& after);
  // Ends the restriction.
  static netlink::NftUnit removal(const RestrictedService& service);
  // The same again, where the kernel refused such a unit as it holds something else than was known.
  netlink::Status write(const RangesElement& ranges);
  netlink::Status remove(const RestrictedService& service);

 private:
  netlink::Status replace(const RangesElement& ranges);
  netlink::Status commit(netlink::NftUnit unit);

  FilterTable& table_;
};

inline RestrictedService restricted_by(const RangesElement& ranges) {
  return {ranges.ip, ranges.protocol, ranges.port};
}

}  // namespace ipvsproxier::ipset
