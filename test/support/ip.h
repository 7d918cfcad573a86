#pragma once

// Short for addresses that a test spells out. Throws if the text is none.

#include <string>
#include <string_view>

#include "netlink/ip_address.h"

namespace ipvsproxier::test {

inline netlink::IpAddress ip(std::string_view text) {
  return netlink::IpAddress::parse(text).value();
}

inline netlink::IpPrefix prefix(const std::string& text) {
  return netlink::IpPrefix::parse(text).value();
}

}  // namespace ipvsproxier::test
