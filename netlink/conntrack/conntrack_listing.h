#pragma once

// How flows are listed: which dumps are requested and which of their flows are kept. This is
// the part of KernelConntrackTable that needs no socket. A value; one thread.

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "netlink/conntrack/conntrack_table.h"
#include "netlink/nl_codec.h"

namespace ipvsproxier::netlink {

// True for EINVAL, which nfnetlink_rcv_msg (nfnetlink.c) answers for an absent subsystem after it
// has asked for the module, and for EPROTONOSUPPORT, which netlink_create (af_netlink.c) answers
// without nfnetlink.
bool is_no_subsystem(const Error& error);
Error no_subsystem(const Error& error);  // `missing`, with the module's name
// Whether the kernel rejected the filter (ctnetlink_alloc_filter and the policy before it).
bool refuses_filter(const Error& error);

// Sorts and removes duplicates: a flow is listed twice if the kernel resizes its table during the
// dump.
template <typename Flow>
void keep_each_once(std::vector<Flow>& flows) {
  std::ranges::sort(flows);
  flows.erase(std::unique(flows.begin(), flows.end()), flows.end());
}

class FlowListing {
 public:
  // One dump over a channel: NlChannel::stream_whole().
  using Dump = std::function<Status(const Bytes& request, const std::function<void()>& begin,
                                    const std::function<Status(ByteView)>& each)>;

  // Up to kAskedOneByOne destinations are requested one by one, more by one dump of all flows of
  // the protocol.
  // A kernel without the filter gets one dump of everything.
  Result<std::vector<Flow>> list(const FlowQuery& query, const Dump& dump);

 private:
  static constexpr std::size_t kAskedOneByOne = 4;

  Status take(const Dump& dump, const Bytes& request, const std::optional<FlowEnd>& filter,
              const FlowQuery& query, std::vector<Flow>& flows);
  Status list_filtered(const Dump& dump, const FlowQuery& query, std::vector<Flow>& flows);

  bool filters_ = true;  // whether the kernel filters, as far as is known
};

}  // namespace ipvsproxier::netlink
