// An element says of which kind of set it is.
// expect: (no match for|no viable|could not convert|no matching)

#include "ipset/sets/set_types.h"

ipvsproxier::ipset::Element element(const ipvsproxier::netlink::IpAddress& ip) {
#ifdef MISUSE
  return ip;
#else
  return ipvsproxier::ipset::IpElement{.ip = ip};
#endif
}
