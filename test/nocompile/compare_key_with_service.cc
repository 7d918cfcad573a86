// A key is not the thing: a service that exists may still differ from what it should be.
// expect: (no match for|invalid operands)

#include "netlink/ipvs/ipvs_types.h"

bool is_there(const ipvsproxier::netlink::VirtualServiceKey& key,
              const ipvsproxier::netlink::VirtualService& service) {
#ifdef MISUSE
  return key == service;
#else
  return key == service.key;
#endif
}
