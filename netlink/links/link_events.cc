#include "netlink/links/link_events.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cstring>

namespace ipvsproxier::netlink {

namespace {

// Addresses that no Service has: loopback, and the link-local IPv6 address that a link gets when it
// goes UP.
bool is_of_no_interest(const IpAddress& address) {
  return address.is_loopback() || (address.family() == Family::ipv6 && address.is_link_local());
}

}  // namespace

void LinkEventReader::take(ByteView datagram, LinkEvents& events) {
  while (true) {
    const auto message = take_message(datagram);
    if (message && !*message) return;
    if (message && take_one(**message, events)) continue;
    events.overrun = true;
    if (!message) return;
  }
}

void LinkEventReader::restart(std::set<std::int32_t> indices) {
  ours_ = std::move(indices);
  others_.clear();
}

Status LinkEventReader::take_one(const MessageView& message, LinkEvents& events) {
  switch (message.type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
      return take_link(message, events);
    case RTM_NEWADDR:
    case RTM_DELADDR:
      return take_address(message, events);
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
      return take_route(message, events);
    default:
      return {};
  }
}

Status LinkEventReader::take_link(const MessageView& message, LinkEvents& events) {
  ifinfomsg header{};
  if (message.payload.size() >= sizeof header)
    std::memcpy(&header, message.payload.data(), sizeof header);
  // Another family: a message about bridge membership, not about the link itself.
  if (header.ifi_family != AF_UNSPEC) return {};
  const auto link = decode_link(message.payload);
  if (!link) return link.error();
  const bool is_lost = message.type == RTM_DELLINK || (header.ifi_flags & IFF_UP) == 0;
  if (!loop_series_.empty() && number_in_series(link->name, loop_series_) && is_lost)
    events.link_lost = true;
  const bool is_ours = ours_.contains(link->index);
  const bool has_our_name = number_in_series(link->name, series_).has_value();
  if (message.type == RTM_DELLINK) {
    ours_.erase(link->index);
    events.link_lost = events.link_lost || is_ours || has_our_name;
    others_.erase(others_.lower_bound({link->index, IpAddress{}}),
                  others_.lower_bound({link->index + 1, IpAddress{}}));
  } else if (is_ours && !has_our_name) {
    // The link lives on under another name, with its addresses.
    ours_.erase(link->index);
    events.link_lost = true;
    events.others_changed = true;
  } else if (has_our_name && !is_ours) {
    ours_.insert(link->index);
    // A link was renamed to one of our names: its addresses were another link's before.
    if (header.ifi_change == 0) events.others_changed = true;
  }
  return {};
}

Status LinkEventReader::take_address(const MessageView& message, LinkEvents& events) {
  const auto record = decode_address(message.payload);
  if (!record) return record.error().kind == ErrorKind::unsupported ? Status{} : record.error();
  const bool added = message.type == RTM_NEWADDR;
  const auto& address = record->address;
  if (is_of_no_interest(address)) return {};
  if (ours_.contains(record->link_index)) {
    if (!added)
      events.lost.insert(address);
    else if (record->prefix_length == address_bits(address.family()))
      events.lost.erase(address);
    return {};
  }
  const std::pair place{record->link_index, address};
  if (!added) {
    others_.erase(place);
    events.others_changed = true;
  } else if (others_.insert(place).second) {
    events.others_changed = true;
  }
  return {};
}

Status LinkEventReader::take_route(const MessageView& message, LinkEvents& events) {
  const auto route = decode_local_route(message.payload);
  if (!route) return route.error();
  if (!*route) return {};
  if (message.type == RTM_DELROUTE)
    events.lost.insert(**route);
  else
    events.lost.erase(**route);
  return {};
}

}  // namespace ipvsproxier::netlink
