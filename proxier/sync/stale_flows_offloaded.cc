// StaleFlows: connections to our virtual services that a flowtable of others has.

#include <algorithm>
#include <iterator>

#include "netlink/conntrack/conntrack_listing.h"
#include "proxier/sync/stale_flows.h"

namespace ipvsproxier::sync {

using netlink::Protocol;

void StaleFlows::note_offloaded(netlink::Family family, TimePoint now) {
  offloaded_[family] = {.due = now, .done = 0};
}

// Always in parts. A flowtable takes no other protocol that IPVS has.
bool StaleFlows::begin_offloaded(TimePoint now) {
  const auto due = std::ranges::find_if(
      offloaded_, [now](const auto& entry) { return entry.second.due <= now; });
  if (due == offloaded_.end()) return false;
  due->second.due = TimePoint::max();
  parts_ = Parts{.family = due->first,
                 .protocols = {Protocol::tcp, Protocol::udp},
                 .offloaded = true,
                 .begun = false,
                 .services = {},
                 .purge = {},
                 .failed = {}};
  return true;
}

std::vector<netlink::Flow> StaleFlows::offloaded_in(std::vector<netlink::Flow> flows,
                                                    const plan::DesiredState& desired) {
  std::erase_if(flows, [&desired](const netlink::Flow& flow) {
    return !flow.untranslated_offload || !desired.services.contains(sent_to(flow));
  });
  netlink::keep_each_once(flows);
  return flows;
}

// A listing that fails is one of the looks: the next one follows anyway.
void StaleFlows::end_offloaded(netlink::Family family, TimePoint now) {
  after_offloaded_ = true;
  const auto entry = offloaded_.find(family);
  if (entry == offloaded_.end()) return;
  auto& look = entry->second;
  if (look.due != TimePoint::max()) return;  // noted again in the meantime
  auto pause = kAfterOffloadedLook;
  for (std::size_t i = 0; i < look.done; ++i) pause *= 10;
  look.due = now + pause;
  if (++look.done == kOffloadedLooks) offloaded_.erase(entry);
}

}  // namespace ipvsproxier::sync
