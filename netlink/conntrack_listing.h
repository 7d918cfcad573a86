#pragma once

// How UDP flows are listed: by which dumps, and what is taken of them. The part of
// KernelConntrackTable that needs no socket. A value, one thread.

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "netlink/conntrack_table.h"
#include "netlink/nl_codec.h"

namespace ipvsproxier::netlink {

// nfnetlink.c, nfnetlink_rcv_msg: EINVAL for a subsystem that is not there, even after asking for
// its module; af_netlink.c, netlink_create: EPROTONOSUPPORT without nfnetlink.
bool is_no_subsystem(const Error& error);
Error no_subsystem(const Error& error);  // `missing`, with the module's name
// ctnetlink_alloc_filter and the policy before it.
bool refuses_filter(const Error& error);

// A flow comes twice if the kernel resizes its table during the dump.
template <typename Flow>
void keep_each_once(std::vector<Flow>& flows) {
  std::ranges::sort(flows);
  flows.erase(std::unique(flows.begin(), flows.end()), flows.end());
}

class UdpFlowListing {
 public:
  // One dump over a channel: NlChannel::stream_whole().
  using Dump = std::function<Status(const Bytes& request, const std::function<void()>& begin,
                                    const std::function<Status(ByteView)>& each)>;

  // Few destinations are asked for one by one, many by one dump of all UDP flows. Of a kernel that
  // has no filter one dump gives all.
  Result<std::vector<UdpFlow>> list(const FlowQuery& query, const Dump& dump);

 private:
  static constexpr std::size_t kAskedOneByOne = 4;

  Status take(const Dump& dump, const Bytes& request, const std::optional<FlowEnd>& filter,
              const FlowQuery& query, std::vector<UdpFlow>& flows);
  Status list_filtered(const Dump& dump, const FlowQuery& query, std::vector<UdpFlow>& flows);

  bool filters_ = true;  // the kernel, as far as is known
};

}  // namespace ipvsproxier::netlink
