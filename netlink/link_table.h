#pragma once

// LinkTable: links and their addresses in one network namespace, as a seam: what the daemon needs
// to know of all of them, and what it may change on its own dummy links; and local routes of its
// own, which make an address this host's without being one of a link. Sync thread only.
// Implementations: KernelLinkTable (link_kernel.h), FakeLinkTable (test/fakes).

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/link_types.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

class LinkTable {
 public:
  virtual ~LinkTable() = default;

  // Makes the dummy link exist (transmit queue length 0, left DOWN, as kube-proxy does); true if it
  // was created now. A link of this name that is not a dummy is `already`, and is not touched.
  virtual Result<bool> ensure_dummy(std::string_view name) = 0;

  // Removes the dummy link and its addresses; true if there was one. A link of this name that is
  // not a dummy is `already`, and is not touched.
  virtual Result<bool> remove_dummy(std::string_view name) = 0;

  // The names of all links; the kernel's order.
  virtual Result<std::vector<std::string>> list_links() = 0;

  // Every address of both families on every link, in any state.
  virtual Result<std::vector<InterfaceAddress>> list_addresses() = 0;

  // Adds (global scope, no flags, no label) and removes host addresses on the link, in order; one
  // Status for each. An add of what exists and a removal of what is missing succeed.
  virtual std::vector<Status> apply(std::string_view link, std::span<const AddressOp> ops) = 0;

  // The addresses of our local routes, of both families.
  virtual Result<std::vector<IpAddress>> list_local_routes() = 0;

  // The same as apply() for local routes of ours; others' routes of the same address stay.
  virtual std::vector<Status> apply_local_routes(std::span<const AddressOp> ops) = 0;

  // Requests that were sent to the kernel so far; 0 where nobody counts. Cheap.
  virtual std::uint64_t requests() const { return 0; }
};

}  // namespace ipvsproxier::netlink
