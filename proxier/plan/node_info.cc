#include "proxier/plan/node_info.h"

#include <algorithm>
#include <utility>

namespace ipvsproxier::plan {

using netlink::Family;
using netlink::IpAddress;

NodeIps::NodeIps(bool follow, const std::optional<IpAddress>& bind_address) : follows_(follow) {
  if (bind_address && !bind_address->is_any()) note({*bind_address}, Source::configured);
}

void NodeIps::take(const std::optional<api::Node>& node) {
  if (settled_) return;
  for (auto& [family, known] : known_) known.current = known.source == Source::configured;
  if (!node) return;
  note(node->internal_ips, Source::internal);
  note(node->external_ips, Source::external);
  settled_ = !follows_ && !(node->internal_ips.empty() && node->external_ips.empty());
}

void NodeIps::recall(const IpAddress& address) {
  known_.try_emplace(address.family(), Known{address, Source::recalled, false});
}

// Takes the addresses in reverse order, because the first one of a family should win.
void NodeIps::note(const std::vector<IpAddress>& addresses, Source source) {
  std::for_each(addresses.rbegin(), addresses.rend(), [&](const IpAddress& address) {
    auto& known = known_.try_emplace(address.family()).first->second;
    if (known.source <= source) known = {address, source};
  });
}

IpAddress NodeIps::of(Family family) const {
  if (const auto it = known_.find(family); it != known_.end()) return it->second.address;
  return family == Family::ipv4 ? IpAddress::v4(0x7f000001) : *IpAddress::parse("::1");
}

NodeInfo node_info(std::string name, const std::optional<api::Node>& node, const NodeIps& ips,
                   std::vector<netlink::InterfaceAddress> addresses) {
  NodeInfo info;
  info.name = std::move(name);
  info.addresses = std::move(addresses);
  for (const auto family : netlink::kFamilies) info.ips.emplace(family, ips.of(family));
  if (!node) return info;
  info.zone = node->zone;
  info.pod_cidrs = node->pod_cidrs;
  return info;
}

}  // namespace ipvsproxier::plan
