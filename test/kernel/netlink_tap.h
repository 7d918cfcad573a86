#pragma once

// Counts the requests that change something among all netlink messages of a network namespace, with
// an nlmon link in it: what a daemon wrote, without asking the daemon. Rules of iptables are not
// among them: it uses socket options. Throws std::runtime_error.

#include <cstddef>
#include <cstdint>

#include "netlink/unique_fd.h"
#include "test/kernel/netns.h"
#include "test/kernel/patience.h"

namespace ipvsproxier::test {

struct WriteRequests {
  std::size_t ipvs = 0;   // virtual services, real servers, timeouts
  std::size_t sets = 0;   // sets and their elements, by message: one may hold many elements
  std::size_t rules = 0;  // chains and rules of our table of nf_tables
  std::size_t links = 0;  // links and their addresses
  std::size_t flows = 0;  // tracked connections

  std::size_t total() const { return ipvs + sets + rules + links + flows; }
  friend bool operator==(const WriteRequests&, const WriteRequests&) = default;
};

class NetlinkTap {
 public:
  // Only one at a time in a namespace.
  explicit NetlinkTap(const Netns& netns);

  // Those since the last call. Throws if the kernel lost some.
  WriteRequests take();
  // Waits until there are this many more in all; false if the time is over.
  bool wait_for(std::size_t requests, int timeout_ms = kPatience);

 private:
  bool receive(int timeout_ms);

  netlink::UniqueFd socket_;
  WriteRequests seen_;
};

}  // namespace ipvsproxier::test
