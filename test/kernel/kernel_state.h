#pragma once

// What proxying keeps in the kernel of a network namespace, as seen by others than the daemon.

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "netlink/ipvs/ipvs_kernel.h"
#include "test/kernel/netns.h"
#include "test/kernel/patience.h"

namespace ipvsproxier::test {

// What ipvsadm, ip and, by the packet filter (packet_filter.h), ipset, iptables-save and
// ip6tables-save or nft print of it, in lines that can be compared: sorted where the kernel has no
// order, without counters and numbers of luck. Throws if a tool fails.
std::vector<std::string> kernel_lines(const Netns& netns);

// All links, addresses, sets, rules and virtual services, byte for byte: with numbers of luck,
// which stay while the thing does, and with the counters of rules but those that count all traffic.
std::vector<std::string> everything(const Netns& netns);

// "- LINE" for what is missing in `actual`, "+ LINE" for what should not be there; at most 30
// lines.
// "" if both are the same.
std::string difference(const std::vector<std::string>& expected,
                       const std::vector<std::string>& actual);

// The lines without the virtual services that only wait for their removal (sync/trash.h): those
// that are not expected and have real servers of weight 0 alone, with these real servers and the
// set elements by which a later process knows them. Without the set of other endpoints, too, if it
// is empty: it is made with its first element and stays after its last.
std::vector<std::string> without_waiting(const std::vector<std::string>& expected,
                                         std::vector<std::string> actual);

// The virtual services of a namespace, to read and to tamper with.
class IpvsView {
 public:
  explicit IpvsView(const Netns& netns);

  // nullopt: there is no such virtual service or real server.
  std::optional<netlink::ListedServer> server(const netlink::VirtualServiceKey& service,
                                              const netlink::RealServerKey& server);
  std::optional<std::uint32_t> weight(const netlink::VirtualServiceKey& service,
                                      const netlink::RealServerKey& server);
  std::optional<netlink::VirtualService> service(const netlink::VirtualServiceKey& key);
  // Throws if the kernel refuses.
  void apply(const netlink::IpvsOp& op);

 private:
  std::unique_ptr<netlink::KernelIpvsTable> table_;
};

// Looks again and again until it is so; false when the time is over.
template <typename Fn>
bool eventually(Fn&& is_so, int timeout_ms = kPatience) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    const bool last_look = std::chrono::steady_clock::now() >= deadline;
    if (is_so()) return true;
    if (last_look) return false;
    ::poll(nullptr, 0, 10);
  }
}

}  // namespace ipvsproxier::test
