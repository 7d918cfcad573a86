#pragma once

// NftSetTable: SetTable of the sets and maps of our tables of nf_tables. The operations of one
// call, on however many sets, are one transaction as far as the kernel takes them; a verdict is
// always replaced, and the source ranges of a virtual service change, in one. Sync thread only.
//
// Errors: those of FilterTable; `malformed` for an element of another kind or family than its set;
// `already` for a table that somebody else made (nft_table_claim.h), which is left alone.

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ipset/nftables/filter_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_source_ranges.h"
#include "ipset/sets/set_table.h"

namespace ipvsproxier::ipset {

class NftSetTable final : public SetTable {
 public:
  // `table` must outlive this.
  explicit NftSetTable(FilterTable& table) : table_(table), ranges_(table) {}

  // Makes the table as well. A set or map of this name of another type is replaced; chains that
  // look it up are emptied for that.
  Status ensure(const SetSpec& spec) override;
  // One of another type counts as absent. Keys that are none of ours are left out. A virtual
  // service whose chain of source ranges is not as we wrote it has none, so that they are written
  // again.
  Result<std::optional<ListedSet>> list(const std::string& name) override;
  // Some milliseconds a part. A listing that changes disturb begins again, and the third time is
  // made at once.
  Result<std::optional<SetPart>> begin_list(const std::string& name) override;
  Result<SetPart> next_list() override;
  std::vector<Status> apply(const SetSpec& spec, std::span<const ElementOp> ops) override;
  std::vector<std::vector<Status>> apply_all(std::span<const SetOps> changes) override;
  Status destroy(const std::string& name) override;
  std::uint64_t requests() const override { return table_.requests(); }

 private:
  // A listing in parts: of a set, or of the source ranges of one virtual service after another.
  struct Listing {
    SetSpec spec;
    NftSourceRanges::Chains services;  // still to come, the last first
  };

  Result<std::optional<std::vector<Element>>> elements_in(const SetSpec& spec);
  Result<bool> is_there(const SetSpec& spec);
  Result<std::optional<SetPart>> begin_ranges(const SetSpec& spec);
  Result<SetPart> next_ranges();
  Status commit(netlink::NftUnit unit);

  FilterTable& table_;
  NftSourceRanges ranges_;
  std::optional<Listing> listing_;
  std::map<std::string, int> unended_;  // listings of each set that did not come to their ends
};

}  // namespace ipvsproxier::ipset
