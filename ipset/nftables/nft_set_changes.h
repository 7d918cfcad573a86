#pragma once

// NftSetChanges: operations on the elements of several of our sets of nf_tables, applied as one
// transaction as far as the kernel takes them (netlink/nftables/nftables_transaction.h). A packet
// meets either none or all of them. Sync thread only.

#include <cstddef>
#include <span>
#include <utility>
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
  // The operation that one unit does.
  struct Step {
    std::size_t change = 0;
    std::size_t op = 0;
    bool adds = true;
    const Element* element = nullptr;
  };

  void add_elements(const SetTable::SetOps& change, std::vector<Status>& outcomes);
  void add_ranges(const SetTable::SetOps& change, std::vector<Status>& outcomes);
  Status write_again(const Step& step, const RangesElement& ranges);
  void settle(const Step& step, Status status) {
    outcomes_[step.change][step.op] = std::move(status);
  }

  FilterTable& table_;
  NftSourceRanges& ranges_;
  std::vector<netlink::NftUnit> units_;
  std::vector<Step> steps_;  // of the units
  std::vector<std::vector<Status>> outcomes_;
};

}  // namespace ipvsproxier::ipset
