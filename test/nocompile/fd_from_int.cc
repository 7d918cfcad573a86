// A number does not become an owned descriptor by accident.
// expect: (could not convert|no viable conversion)

#include "netlink/unique_fd.h"

ipvsproxier::netlink::UniqueFd own(int fd) {
#ifdef MISUSE
  return fd;
#else
  return ipvsproxier::netlink::UniqueFd(fd);
#endif
}
