#pragma once

// NftSetTable: SetTable of the sets and maps of our tables of nf_tables. Each operation on an
// element is a step of its own for packets: a verdict is replaced, and the source ranges of a
// virtual service change, in one transaction. Sync thread only.
//
// Errors: those of FilterTable; `malformed` for an element of another kind or family than its set.

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ipset/nftables/filter_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/sets/set_table.h"

namespace ipvsproxier::ipset {

class NftSetTable final : public SetTable {
 public:
  // `table` must outlive this.
  explicit NftSetTable(FilterTable& table) : table_(table) {}

  // Makes the table as well. A set or map of this name of another type fails with `already`.
  Status ensure(const SetSpec& spec) override;
  // Keys that are none of ours are left out. A virtual service whose chain of source ranges is not
  // as we wrote it has none, so that they are written again.
  Result<std::optional<ListedSet>> list(const std::string& name) override;
  // Some milliseconds a part. A listing that changes disturb begins again, and the third time is
  // made at once.
  Result<std::optional<SetPart>> begin_list(const std::string& name) override;
  Result<SetPart> next_list() override;
  std::vector<Status> apply(const SetSpec& spec, std::span<const ElementOp> ops) override;
  Status destroy(const std::string& name) override;
  std::uint64_t requests() const override { return table_.requests(); }

 private:
  // The source ranges of each restricted virtual service of a family, also those that are part of
  // others, which the kernel's intervals do not have.
  using Ranges = std::map<RestrictedService, std::set<IpPrefix>>;

  // A listing in parts: of a set, or of the source ranges of one virtual service after another.
  struct Listing {
    SetSpec spec;
    std::vector<RestrictedService> services;  // still to come, the last first
    Ranges ranges;                            // so far
  };

  Result<std::optional<std::vector<Element>>> elements_in(const SetSpec& spec);
  Result<std::optional<SetPart>> begin_ranges(const SetSpec& spec);
  Result<SetPart> next_ranges();
  Result<std::optional<std::vector<RestrictedService>>> intact_services(Family family);
  Result<std::optional<Ranges>> read_ranges(Family family);
  std::vector<Status> apply_elements(const SetSpec& spec, std::span<const ElementOp> ops);
  std::vector<Status> apply_ranges(const SetSpec& spec, std::span<const ElementOp> ops);
  // By what differs, unless there were none or the kernel refuses: then all are written.
  Status change_ranges(const RestrictedService& service, const std::set<IpPrefix>& before,
                       const std::set<IpPrefix>& after);
  Status write_ranges(const RestrictedService& service, const std::set<IpPrefix>& ranges);
  Status remove_ranges(const RestrictedService& service);
  Status commit(netlink::NftUnit unit);

  FilterTable& table_;
  std::map<Family, Ranges> ranges_;  // no entry: unknown
  std::optional<Listing> listing_;
  std::string disturbed_;  // the set whose listing did not end, and how often
  int disturbances_ = 0;
};

}  // namespace ipvsproxier::ipset
