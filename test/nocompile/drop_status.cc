// What may fail is looked at.
// expect: (nodiscard|unused-result)

#include "netlink/result.h"

ipvsproxier::netlink::Status attempt();

bool run() {
#ifdef MISUSE
  attempt();
  return true;
#else
  return attempt().has_value();
#endif
}
