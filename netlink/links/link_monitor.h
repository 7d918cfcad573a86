#pragma once

// LinkMonitor: notifications about links and addresses, and on request about routes, of the network
// namespace in which it was opened (rtnetlink groups LINK, IPV4_IFADDR, IPV6_IFADDR; IPV4_ROUTE,
// IPV6_ROUTE). Main thread only; not thread-safe.
//
// Deleting a link sends RTM_DELADDR for its addresses before RTM_DELLINK, even if the link is DOWN.
// Notifications that do not fit into the receive buffer are lost, and the next receive fails with
// ENOBUFS (af_netlink.c). Links are recognized by name: a renamed link of ours counts as lost.

#include <memory>
#include <string>

#include "netlink/links/link_types.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

class LinkMonitor {
 public:
  // Starts watching. The links of `series` (link_types.h) are ours; they need not exist yet. With
  // `local_routes` changes of our local routes are reported as well, at the price of a wakeup for
  // every change of any route. A link of `loop_series` that is removed or not UP counts as a lost
  // one of ours.
  static Result<std::unique_ptr<LinkMonitor>> open(const std::string& series, bool local_routes,
                                                   const std::string& loop_series = "");
  ~LinkMonitor();

  int fd() const;  // readable when take() has events

  // The events since the last call; does not block. No event comes from: an address or local route
  // of ours that was added, or removed and added again in between; IPv6 link-local and loopback
  // addresses on any link; a repeated notification of a known address on another link. After an
  // overrun the monitor finds our links again; the caller must list links and addresses again.
  LinkEvents take();

 private:
  struct Io;
  explicit LinkMonitor(std::unique_ptr<Io> io);

  std::unique_ptr<Io> io_;
};

}  // namespace ipvsproxier::netlink
