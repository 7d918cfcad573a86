#pragma once

// LinkEventReader: notifications of links and addresses, bytes to LinkEvents, with one link of ours
// in view. Pure, one thread.
//
// Kernel facts (net/core/rtnetlink.c, net/bridge/br_netlink.c, net/ipv6/addrconf.c; 6.1): a link
// that leaves a bridge is an RTM_DELLINK of family AF_BRIDGE; a rename is an RTM_NEWLINK with
// ifi_change 0, a new link is one with all bits set; RTM_NEWADDR comes again whenever the lifetime
// of an address is renewed.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "netlink/link_codec.h"
#include "netlink/link_types.h"
#include "netlink/nl_codec.h"

namespace ipvsproxier::netlink {

class LinkEventReader {
 public:
  // `index` is our link's, nullopt while there is none.
  LinkEventReader(std::string link, std::optional<std::int32_t> index)
      : link_(std::move(link)), index_(index) {}

  // Adds what one received datagram tells. What cannot be read makes `overrun` true.
  void take(ByteView datagram, LinkEvents& events);

  // Forgets what it knew, after notifications were lost.
  void restart(std::optional<std::int32_t> index);

  std::optional<std::int32_t> index() const { return index_; }

 private:
  Status take_one(const MessageView& message, LinkEvents& events);
  Status take_link(const MessageView& message, LinkEvents& events);
  Status take_address(const MessageView& message, LinkEvents& events);

  std::string link_;
  std::optional<std::int32_t> index_;
  // Addresses that other links are known to have: what comes again is no change.
  std::set<std::pair<std::int32_t, IpAddress>> others_;
};

}  // namespace ipvsproxier::netlink
