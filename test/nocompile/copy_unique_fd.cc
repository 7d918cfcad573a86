// A file descriptor has one owner.
// expect: (use of deleted function|call to deleted constructor|uses deleted function)

#include <utility>

#include "netlink/unique_fd.h"

ipvsproxier::netlink::UniqueFd take(ipvsproxier::netlink::UniqueFd& fd) {
#ifdef MISUSE
  return ipvsproxier::netlink::UniqueFd(fd);
#else
  return ipvsproxier::netlink::UniqueFd(std::move(fd));
#endif
}
