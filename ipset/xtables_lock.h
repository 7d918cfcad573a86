#pragma once

// XtablesLock: the lock that everything which edits the legacy tables holds while it reads, changes
// and commits one (iptables' xtables_lock(): flock on a file). Held as long as the object lives.
// The file stays.

#include <chrono>
#include <string>

#include "netlink/result.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::ipset {

class XtablesLock {
 public:
  // Blocks until the lock is free, at most `wait`; then the error is `busy` and names the file.
  static netlink::Result<XtablesLock> acquire(const std::string& path,
                                              std::chrono::milliseconds wait);

 private:
  explicit XtablesLock(netlink::UniqueFd fd) : fd_(std::move(fd)) {}

  netlink::UniqueFd fd_;
};

}  // namespace ipvsproxier::ipset
