// A value that may be an error is looked at.
// expect: (nodiscard|unused-result)

#include "netlink/result.h"

ipvsproxier::netlink::Result<int> attempt();

int run() {
#ifdef MISUSE
  attempt();
  return 0;
#else
  return attempt().value_or(0);
#endif
}
