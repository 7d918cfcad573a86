#pragma once

// NftSourceRanges: the source ranges of restricted virtual services in our tables of nf_tables.
// Each has a set and a chain of its own, to which the map "restricted" leads, and chains by which
// the map of virtual services leads there (nft_set_elements.h). What the kernel has is remembered,
// so that a change writes what differs. Sync thread only.

#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "ipset/nftables/filter_table.h"
#include "ipset/nftables/nft_set_elements.h"
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

class NftSourceRanges {
 public:
  // Of each restricted virtual service of a family; also those that are part of others, which the
  // kernel's intervals do not have.
  using Ranges = std::map<RestrictedService, std::set<netlink::IpPrefix>>;

  // `table` must outlive this.
  explicit NftSourceRanges(FilterTable& table) : table_(table) {}

  // Restricted virtual services, with the rules of their chains.
  using Chains = std::vector<std::pair<RestrictedService, std::vector<Rule>>>;

  // Those that the map leads to their chains, and that have a set of ours; nullopt without the map.
  netlink::Result<std::optional<Chains>> services(netlink::Family family);
  // The ranges of one; empty if its set is gone, or has intervals that are no prefixes, or a chain
  // with other rules than ours.
  netlink::Result<std::set<netlink::IpPrefix>> read(const RestrictedService& service,
                                                    const std::vector<Rule>& chain);
  // Those of all; nullopt without the map. Remembers them.
  netlink::Result<std::optional<Ranges>> read_all(netlink::Family family);

  void remember(netlink::Family family, Ranges ranges) { known_[family] = std::move(ranges); }
  void forget(netlink::Family family) { known_.erase(family); }
  // Reads them unless they are remembered.
  netlink::Result<const Ranges*> known(netlink::Family family);

  // What makes the ranges of a virtual service `after` where the kernel has `before`; nothing to do
  // is no operation. Without ranges it is not restricted.
  static netlink::NftUnit change(const RestrictedService& service,
                                 const std::set<netlink::IpPrefix>& before,
                                 const std::set<netlink::IpPrefix>& after);
  // Takes the outcome of such a unit. The kernel refused it if it holds something else than
  // remembered: then all is written, whatever is there.
  netlink::Status settle(const RestrictedService& service, std::set<netlink::IpPrefix> after,
                         netlink::Status outcome);
  netlink::Status remove(const RestrictedService& service);

 private:
  netlink::Status write(const RestrictedService& service,
                        const std::set<netlink::IpPrefix>& ranges);
  netlink::Status replace(const RestrictedService& service,
                          const std::set<netlink::IpPrefix>& ranges);
  netlink::Status commit(netlink::NftUnit unit);

  FilterTable& table_;
  std::map<netlink::Family, Ranges> known_;  // no entry: unknown
};

}  // namespace ipvsproxier::ipset
