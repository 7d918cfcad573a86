#pragma once

// NftSetChanges: operations on the elements of several of our sets of nf_tables, applied as one
// transaction as far as the kernel takes them (netlink/nftables/nftables_transaction.h). A packet
// meets either none or all of them. Sync thread only.

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "ipset/nftables/filter_table.h"
#include "ipset/nftables/nft_source_ranges.h"
#include "ipset/sets/set_table.h"

namespace ipvsproxier::ipset {

class NftSetChanges {
 public:
  // Both must outlive this.
  NftSetChanges(FilterTable& table, NftSourceRanges& ranges) : table_(table), ranges_(ranges) {}

  // Further operations; those of one call must not concern an element twice. They must outlive
  // apply().
  void add(const SetTable::SetOps& change);

  // Applies all; one vector for each add(), one Status for each operation.
  std::vector<std::vector<Status>> apply();

 private:
  // The operations that one unit does: one, or all that concern the ranges of a virtual service.
  struct Step {
    std::size_t change = 0;
    std::vector<std::size_t> ops;
    bool adds = true;
    const Element* element = nullptr;  // of a single operation
    std::optional<RestrictedService> restricted;
    std::set<netlink::IpPrefix> ranges;  // afterwards
  };

  void add_elements(const SetTable::SetOps& change, std::vector<Status>& outcomes);
  void add_ranges(const SetTable::SetOps& change, std::vector<Status>& outcomes);
  void settle(const Step& step, const Status& status);

  FilterTable& table_;
  NftSourceRanges& ranges_;
  std::vector<netlink::NftUnit> units_;
  std::vector<Step> steps_;  // of the units
  std::vector<std::vector<Status>> outcomes_;
};

}  // namespace ipvsproxier::ipset
