#pragma once

// LinkTable: interface to the links and addresses of one network namespace. The daemon lists all of
// them and changes only its own dummy links, its own local routes, which make an address local to
// this host without adding it to a link, and its own loop. Sync thread only. Implementations:
// KernelLinkTable (link_kernel.h), FakeLinkTable (test/fakes).

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/links/link_types.h"
#include "netlink/links/loop_types.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

class LinkTable {
 public:
  virtual ~LinkTable() = default;

  // Creates the dummy link if it is absent (transmit queue length 0, left DOWN, as kube-proxy
  // does); true if it was created now. A link of this name that is not a dummy fails with `already`
  // and is not touched.
  virtual Result<bool> ensure_dummy(std::string_view name) = 0;

  // Removes the dummy link and its addresses; true if the link existed. A link of this name that is
  // not a dummy fails with `already` and is not touched.
  virtual Result<bool> remove_dummy(std::string_view name) = 0;

  // The names of all links, in the kernel's order.
  virtual Result<std::vector<std::string>> list_links() = 0;

  // All addresses of both families on all links, whatever the link's state.
  virtual Result<std::vector<InterfaceAddress>> list_addresses() = 0;

  // Adds (global scope, no flags, no label) and removes host addresses on the link, in order; one
  // Status for each. Adding an existing address and removing a missing one succeed.
  virtual std::vector<Status> apply(std::string_view link, std::span<const AddressOp> ops) = 0;

  // The addresses of our local routes, of both families.
  virtual Result<std::vector<IpAddress>> list_local_routes() = 0;

  // Like apply(), for our local routes; other programs' routes to the same address stay.
  virtual std::vector<Status> apply_local_routes(std::span<const AddressOp> ops) = 0;

  // Makes the loop, or makes right what differs; of a dry run: tells what links lack. Links of
  // these names that are not each other's end fail with `already`, and are not touched.
  virtual Result<LoopReport> ensure_loop(const LoopSpec& spec, bool dry = false) = 0;
  // Removes the loop, and its routes with it; true if it existed. Others' links as above.
  virtual Result<bool> remove_loop(const LoopSpec& spec) = 0;

  // Number of requests sent to the kernel so far; 0 if not counted. Cheap.
  virtual std::uint64_t requests() const { return 0; }
};

}  // namespace ipvsproxier::netlink
