// A result is not its value until somebody has asked.
// expect: (cannot convert|no viable conversion)

#include "netlink/result.h"

int value_of(const ipvsproxier::netlink::Result<int>& result) {
#ifdef MISUSE
  const int value = result;
#else
  const int value = result ? *result : 0;
#endif
  return value;
}
