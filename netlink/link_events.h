#pragma once

// LinkEventReader: notifications of links, addresses and routes, bytes to LinkEvents, with a series
// of links that are ours and our local routes in view. Pure, one thread.
//
// Kernel facts (net/core/rtnetlink.c, net/bridge/br_netlink.c, net/ipv6/addrconf.c; 6.1): a link
// that leaves a bridge is an RTM_DELLINK of family AF_BRIDGE; a rename is an RTM_NEWLINK with
// ifi_change 0, a new link is one with all bits set; RTM_NEWADDR comes again whenever the lifetime
// of an address is renewed.

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "netlink/link_codec.h"
#include "netlink/link_types.h"
#include "netlink/nl_codec.h"

namespace ipvsproxier::netlink {

class LinkEventReader {
 public:
  // `indices` are those of our links.
  LinkEventReader(std::string series, std::set<std::int32_t> indices)
      : series_(std::move(series)), ours_(std::move(indices)) {}

  // Adds what one received datagram tells. What cannot be read makes `overrun` true.
  void take(ByteView datagram, LinkEvents& events);

  // Forgets what it knew, after notifications were lost.
  void restart(std::set<std::int32_t> indices);

  const std::set<std::int32_t>& indices() const { return ours_; }

 private:
  Status take_one(const MessageView& message, LinkEvents& events);
  Status take_link(const MessageView& message, LinkEvents& events);
  Status take_address(const MessageView& message, LinkEvents& events);
  static Status take_route(const MessageView& message, LinkEvents& events);

  std::string series_;
  std::set<std::int32_t> ours_;
  // Addresses that other links are known to have: what comes again is no change.
  std::set<std::pair<std::int32_t, IpAddress>> others_;
};

}  // namespace ipvsproxier::netlink
