#pragma once

// LinkMonitor: notifications of links and addresses, and of routes where they are asked for, of the
// network namespace in which it was opened (rtnetlink groups LINK, IPV4_IFADDR, IPV6_IFADDR;
// IPV4_ROUTE, IPV6_ROUTE). Not thread-safe; the main thread's.
//
// Deleting a link sends RTM_DELADDR for its addresses before RTM_DELLINK, also of one that is DOWN.
// Notifications that do not fit into the receive buffer are lost and the next receive says ENOBUFS
// (af_netlink.c). A link under another name than ours is another link: renaming ours loses it.

#include <memory>
#include <string>

#include "netlink/link_types.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

class LinkMonitor {
 public:
  // Watches; the links of `series` (link_types.h) are ours, they need not exist yet. Without
  // `local_routes` nothing is told of ours; with it every change of a route wakes who waits.
  static Result<std::unique_ptr<LinkMonitor>> open(const std::string& series, bool local_routes);
  ~LinkMonitor();

  int fd() const;  // readable when take() has something

  // Everything since the last call; does not block. An address that was added to a link of
  // ours, or that it lost and got back in between, is no event, the same with local routes; nor are
  // IPv6 link-local and loopback addresses on any link, nor a renewal of another link's address
  // once it was seen. After an overrun it finds our links again; what is known of links and
  // addresses must be listed again.
  LinkEvents take();

 private:
  struct Io;
  explicit LinkMonitor(std::unique_ptr<Io> io);

  std::unique_ptr<Io> io_;
};

}  // namespace ipvsproxier::netlink
