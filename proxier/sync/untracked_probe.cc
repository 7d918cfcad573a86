#include "proxier/sync/untracked_probe.h"

#include <algorithm>
#include <utility>

#include "proxier/plan/node_ports.h"

namespace ipvsproxier::sync {

void UntrackedProbe::look(plan::NodeInfo& node, bool anew) {
  if (!find_) return;
  std::set<netlink::IpAddress> addresses;
  for (const auto family : netlink::kFamilies) addresses.merge(other_link_addresses(node, family));
  for (const auto& [family, ip] : node.ips) addresses.erase(ip);
  if (anew || addresses != addresses_) {
    auto look = find_(addresses, kLongestLook);
    if (!look) {
      failed_look_.failed(look.error());
    } else {
      failed_look_.succeeded();
      for (auto& before : found_)
        if (look->unjudged.contains(before.table)) look->ports.push_back(std::move(before));
      std::ranges::sort(look->ports);
      found_ = std::move(look->ports);
      for (const auto& [table, why] : look->unjudged)
        if (!unjudged_.contains(table))
          logger_.info("which packets {} keeps from connection tracking is not known: {}", table,
                       why);
      unjudged_ = std::move(look->unjudged);
    }
    addresses_ = std::move(addresses);
  }
  node.untracked = found_;
}

}  // namespace ipvsproxier::sync
