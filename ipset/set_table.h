#pragma once

// SetTable: the IP sets of one network namespace, as a seam. Sync thread only.
// Implementations: LibipsetTable (set_libipset.h), FakeSetTable (test/fakes).

#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ipset/set_types.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

using netlink::Result;
using netlink::Status;

// Of a set that is to take another's place. One that is seen was left by a process that ended while
// it filled it.
inline constexpr const char* kCopyName = "KUBE-IPVS-COPY";

struct ListedSet {
  SetSpec spec;                      // as the kernel has it; hash_size may have grown
  std::vector<std::string> options;  // what our sets do not have: "timeout", "range 0-99"
  std::vector<Element> elements;     // sorted
};

class SetTable {
 public:
  virtual ~SetTable() = default;

  // Makes the set exist. One that has another maxelem, or options that ours do not have, is
  // replaced: its elements go into a set as it is wanted, named kCopyName until the two are swapped
  // in one step, so that rules which consult the set see every element all the time. Where that
  // fails (the elements do not fit, no memory) the set is as it was. A set of this name with
  // another kind or family is `already`, its text names the difference, and the set is not touched.
  virtual Status ensure(const SetSpec& spec) = 0;

  // The set and its elements; nullopt if there is none of this name. A set of a kind that is not
  // in SetKind is `unsupported`.
  virtual Result<std::optional<ListedSet>> list(const std::string& name) = 0;

  // The same in parts: the listing begins, and goes on while there was no last one. The elements of
  // a part are in no order. Operations in between are allowed: elements that they concern may be
  // listed or not. To replace or destroy the set itself ends its listing, which is then `busy`. A
  // table that does not say otherwise lists all at once.
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

  // Adds and removes elements in order; one Status for each. An add of what is there and a removal
  // of what is missing succeed. One failure (for instance a full set) does not stop the others.
  virtual std::vector<Status> apply(const SetSpec& spec, std::span<const ElementOp> ops) = 0;

  // Removes the set; `busy` while a rule refers to it; a missing set succeeds.
  virtual Status destroy(const std::string& name) = 0;

  // Requests that were sent to the kernel so far, an element counting as one; 0 where nobody
  // counts. Cheap.
  virtual std::uint64_t requests() const { return 0; }

 protected:
  static netlink::Error listing_ended() {
    return {netlink::ErrorKind::busy, EBUSY, "the listing of the set has ended"};
  }
};

}  // namespace ipvsproxier::ipset
