// An address compares with an address: text has many spellings of one.
// expect: (no match for|invalid operands)

#include "netlink/ip_address.h"

bool is_local(const ipvsproxier::netlink::IpAddress& address) {
#ifdef MISUSE
  return address == "127.0.0.1";
#else
  return address == ipvsproxier::netlink::IpAddress::v4(0x7f000001);
#endif
}
