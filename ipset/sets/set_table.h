#pragma once

// SetTable: interface to the sets of one network namespace: IP sets, or the sets of our table
// of nf_tables. Sync thread only. Implementations: LibipsetTable (set_libipset.h), NftSetTable
// (ipset/nftables/nft_set_table.h), FakeSetTable (test/fakes).

#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ipset/sets/element_set.h"
#include "ipset/sets/set_types.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

using netlink::Result;
using netlink::Status;

// Name of the temporary set that replaces another one (ensure()). A set of this name at start was
// left by a process that ended in the middle of a replacement.
inline constexpr const char* kCopyName = "KUBE-IPVS-COPY";

struct ListedSet {
  SetSpec spec;                      // as the kernel has it; hash_size may have grown
  std::vector<std::string> options;  // options that our sets do not have: "timeout", "range 0-99"
  std::vector<Element> elements;     // sorted
};

class SetTable {
 public:
  virtual ~SetTable() = default;

  // Makes the set exist. A set with another maxelem, or with options that ours do not have, is
  // replaced: its elements are copied into a new set named kCopyName, and the kernel swaps the two
  // in one step, so that rules see every element all the time. If that fails (the elements do not
  // fit, no memory), the set is unchanged. A set of this name with another kind or family fails
  // with `already`, names the difference, and is not touched.
  virtual Status ensure(const SetSpec& spec) = 0;

  // The set and its elements; nullopt if there is no set of this name. `unsupported` for a kind
  // outside SetKind.
  virtual Result<std::optional<ListedSet>> list(const std::string& name) = 0;

  // The same in parts: begin_list(), then next_list() until a part has `last`. The elements of a
  // part are not sorted. Operations between the parts are allowed; elements that they concern may
  // or may not be listed. Replacing or destroying the set ends its listing, which then fails with
  // `busy`. The default implementation returns everything as one part.
  struct SetPart {
    ListedSet set;
    bool last = true;
  };
  virtual Result<std::optional<SetPart>> begin_list(const std::string& name) {
    auto all = list(name);
    if (!all) return all.error();
    if (!*all) return std::optional<SetPart>{};
    return std::optional<SetPart>({.set = *std::move(*all)});
  }
  virtual Result<SetPart> next_list() { return listing_ended(); }

  // Adds and removes elements in order; one Status for each. Adding an existing element and
  // removing a missing one succeed. A failure (for instance a full set) does not stop the others.
  virtual std::vector<Status> apply(const SetSpec& spec, std::span<const ElementOp> ops) = 0;

  // The same for several sets, in order; one vector for each. In nf_tables it is one step for
  // packets (nft_set_table.h). After a timeout nothing more is sent (netlink::timed_out()).
  struct SetOps {
    SetSpec spec;
    std::span<const ElementOp> ops;
    // What the set holds as far as the caller knows: of source ranges only what differs is written.
    // nullptr: unknown.
    const ElementSet* has = nullptr;
  };
  virtual std::vector<std::vector<Status>> apply_all(std::span<const SetOps> changes) {
    std::vector<std::vector<Status>> outcomes;
    bool silent = false;
    for (const auto& [spec, ops, has] : changes) {
      outcomes.push_back(silent ? std::vector<Status>(ops.size(), Status(netlink::not_sent()))
                                : apply(spec, ops));
      silent = silent || netlink::timed_out(outcomes.back());
    }
    return outcomes;
  }

  // Removes the set; `busy` while a rule uses it. Removing a missing set succeeds.
  virtual Status destroy(const std::string& name) = 0;

  // Number of requests sent to the kernel so far, one for each element; 0 if not counted. Cheap.
  virtual std::uint64_t requests() const { return 0; }

 protected:
  static netlink::Error listing_ended() {
    return {netlink::ErrorKind::busy, EBUSY, "the listing of the set has ended"};
  }
};

}  // namespace ipvsproxier::ipset
