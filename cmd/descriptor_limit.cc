#include "cmd/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

namespace ipvsproxier::cmd {

netlink::Status raise_descriptor_limit() {
  const auto failed = [] {
    return netlink::make_error(netlink::Operation::generic, errno,
                               "raise the limit of open descriptors (RLIMIT_NOFILE)");
  };
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return failed();
  const auto wanted = std::min<rlim_t>(limit.rlim_max, kMostDescriptors);
  if (limit.rlim_cur >= wanted) return {};
  limit.rlim_cur = wanted;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return failed();
  return {};
}

}  // namespace ipvsproxier::cmd
