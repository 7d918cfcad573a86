#pragma once

// XtablesLock: the lock that every program holds while it reads, changes and commits a legacy table
// (iptables' xtables_lock(): flock on a file). Held for the life of the object. The file is never
// removed.

#include <chrono>
#include <string>

#include "netlink/result.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::ipset {

class XtablesLock {
 public:
  // Blocks until the lock is free, at most `wait`; after that fails with `busy` and names the file.
  static netlink::Result<XtablesLock> acquire(const std::string& path,
                                              std::chrono::milliseconds wait);
  // Whether acquire() could open the file, or make it. Does not wait, and makes nothing.
  static netlink::Status can_open(const std::string& path);

 private:
  explicit XtablesLock(netlink::UniqueFd fd) : fd_(std::move(fd)) {}

  netlink::UniqueFd fd_;
};

}  // namespace ipvsproxier::ipset
