#pragma once

// LinkEventReader: turns rtnetlink notifications of links, addresses and routes into LinkEvents. It
// keeps track of our links (a series of names, link_types.h) and of our local routes. Pure; one
// thread.
//
// Kernel facts (net/core/rtnetlink.c, net/bridge/br_netlink.c, net/ipv6/addrconf.c; 6.1): a link
// that leaves a bridge is an RTM_DELLINK of family AF_BRIDGE; a rename is an RTM_NEWLINK with
// ifi_change 0, a new link is one with all bits set; RTM_NEWADDR comes again whenever the lifetime
// of an address is renewed.

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "netlink/links/link_codec.h"
#include "netlink/links/link_types.h"
#include "netlink/nl_codec.h"

namespace ipvsproxier::netlink {

class LinkEventReader {
 public:
  // `indices`: the interface indices of our links. `loop_series`: names of links of ours whose
  // addresses do not matter; "": none.
  LinkEventReader(std::string series, std::set<std::int32_t> indices, std::string loop_series = "")
      : series_(std::move(series)),
        loop_series_(std::move(loop_series)),
        ours_(std::move(indices)) {}

  // Adds the events of one received datagram. Bytes that cannot be read set `overrun`.
  void take(ByteView datagram, LinkEvents& events);

  // Forgets all state after notifications were lost.
  void restart(std::set<std::int32_t> indices);

  const std::set<std::int32_t>& indices() const { return ours_; }

 private:
  Status take_one(const MessageView& message, LinkEvents& events);
  Status take_link(const MessageView& message, LinkEvents& events);
  Status take_address(const MessageView& message, LinkEvents& events);
  static Status take_route(const MessageView& message, LinkEvents& events);

  std::string series_;
  std::string loop_series_;
  std::set<std::int32_t> ours_;
  // Addresses known on other links: a repeated notification is no change.
  std::set<std::pair<std::int32_t, IpAddress>> others_;
};

}  // namespace ipvsproxier::netlink
