// StaleFlows: connections to our virtual services that a flowtable of others has.

#include <algorithm>
#include <iterator>

#include "proxier/sync/stale_flows.h"

namespace ipvsproxier::sync {

using netlink::Protocol;

void StaleFlows::note_offloaded(netlink::Family family, TimePoint now) {
  offloaded_[family] = {.due = now, .done = 0};
}

// A listing that fails is one of the looks: the next one follows anyway.
void StaleFlows::remove_offloaded(netlink::ConntrackTable& conntrack,
                                  const plan::DesiredState& desired, TimePoint now,
                                  std::map<netlink::Family, Purge>& purges,
                                  std::vector<Failure>& failures) {
  for (auto it = offloaded_.begin(); it != offloaded_.end();) {
    auto& [family, look] = *it;
    if (look.due > now) {
      ++it;
      continue;
    }
    auto& purge = purges[family];
    const auto begin = std::chrono::steady_clock::now();
    bool more = false;
    // A flowtable takes no other protocol that IPVS has.
    for (const auto protocol : {Protocol::tcp, Protocol::udp}) {
      const auto is_stuck = [&](const netlink::Flow& flow) {
        return flow.untranslated_offload && desired.services.contains(sent_to(flow));
      };
      const netlink::FlowQuery query{.family = family,
                                     .protocol = protocol,
                                     .destinations = {},
                                     .wanted = is_stuck,
                                     .most = kFlowsALook};
      const auto found = remove_found(conntrack, query, purge.removed, failures);
      more = more || found.more;
      if (found.unlisted) ++purge.failed;
    }
    purge.took += std::chrono::steady_clock::now() - begin;
    if (more) {
      look.due = now + backoff_.first;
    } else {
      auto pause = kAfterOffloadedLook;
      for (std::size_t i = 0; i < look.done; ++i) pause *= 10;
      look.due = now + pause;
      ++look.done;
    }
    it = look.done == kOffloadedLooks ? offloaded_.erase(it) : std::next(it);
  }
}

}  // namespace ipvsproxier::sync
