#include "proxier/sync/stale_flows.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace ipvsproxier::sync {

namespace {

using netlink::Protocol;
using netlink::VirtualServiceKey;

const plan::ActualService* find(const plan::ActualState& state, const VirtualServiceKey& key) {
  if (!state.services) return nullptr;
  const auto it = state.services->find(key);
  return it == state.services->end() ? nullptr : &it->second;
}

// Which virtual service an operation changes so that flows may go stale, and the real server that
// it takes away.
struct Changed {
  const VirtualServiceKey* service = nullptr;
  const netlink::RealServerKey* gone = nullptr;

  void operator()(const netlink::AddService& op) { service = &op.service.key; }
  void operator()(const netlink::EditService&) {}
  void operator()(const netlink::DeleteService& op) { service = &op.key; }
  void operator()(const netlink::AddServer& op) { service = &op.service; }
  void operator()(const netlink::EditServer&) {}
  void operator()(const netlink::DeleteServer& op) {
    service = &op.service;
    gone = &op.server;
  }
};

}  // namespace

void StaleFlows::note(const plan::Transaction& transaction, const plan::ActualState& before) {
  for (const auto& phase : transaction.phases) {
    const auto* ops = std::get_if<std::vector<netlink::IpvsOp>>(&phase.work);
    if (!ops) continue;
    for (const auto& op : *ops) {
      Changed changed;
      std::visit([&](const auto& one) { changed(one); }, op);
      if (!changed.service || changed.service->protocol != Protocol::udp) continue;
      auto& gone = noted_[*changed.service];
      if (changed.gone) gone.insert(*changed.gone);
      const auto* service = find(before, *changed.service);
      const bool all_go = std::holds_alternative<netlink::DeleteService>(op);
      if (all_go && service && service->servers)
        for (const auto& server : *service->servers) gone.insert(server.key);
    }
  }
}

bool StaleFlows::note_all(const plan::ActualState& state) {
  if (!state.services) return false;
  for (const auto& [key, service] : *state.services)
    if (key.protocol == Protocol::udp) noted_[key];
  return true;
}

std::optional<TimePoint> StaleFlows::next() const {
  return noted_.empty() ? std::nullopt : std::optional(due_);
}

bool StaleFlows::is_stale(const netlink::UdpFlow& flow, const plan::ActualState& state) const {
  const VirtualServiceKey key{flow.destination.address, Protocol::udp, flow.destination.port};
  const auto noted = noted_.find(key);
  if (noted == noted_.end()) return false;
  const netlink::RealServerKey server{flow.server.address, flow.server.port};
  const auto* service = find(state, key);
  if (service && service->servers->contains(server)) return false;
  return (service && !service->servers->empty()) || noted->second.contains(server);
}

netlink::Result<std::vector<netlink::UdpFlow>> StaleFlows::list(netlink::ConntrackTable& conntrack,
                                                                netlink::Family family) const {
  const auto is_of_family = [family](const auto& entry) {
    return entry.first.address.family() == family;
  };
  const auto count = std::count_if(noted_.begin(), noted_.end(), is_of_family);
  if (static_cast<std::size_t>(count) > kAskOneByOne)
    return conntrack.list_udp(family, std::nullopt);
  std::vector<netlink::UdpFlow> flows;
  for (const auto& entry : noted_) {
    if (!is_of_family(entry)) continue;
    auto some = conntrack.list_udp(family, netlink::FlowEnd{entry.first.address, entry.first.port});
    if (!some) return some;
    std::move(some->begin(), some->end(), std::back_inserter(flows));
  }
  return flows;
}

void StaleFlows::postpone(TimePoint now) {
  due_ = now + backoff_.delay(++failed_, 0);
}

StaleFlows::Noted StaleFlows::take_unsure(const plan::ActualState& state,
                                          const plan::ServiceKeySet& unsettled) {
  Noted unsure;
  for (auto it = noted_.begin(); it != noted_.end();) {
    const auto here = it++;
    const auto* service = find(state, here->first);
    const bool unknown = !state.services || (service && !service->servers);
    if (unknown || unsettled.contains(here->first)) unsure.insert(noted_.extract(here));
  }
  return unsure;
}

bool StaleFlows::has(netlink::Family family) const {
  return std::any_of(noted_.begin(), noted_.end(), [family](const auto& entry) {
    return entry.first.address.family() == family;
  });
}

// How many were removed.
std::size_t StaleFlows::purge(netlink::ConntrackTable& conntrack, netlink::Family family,
                              const plan::ActualState& state,
                              std::vector<Failure>& failures) const {
  auto flows = list(conntrack, family);
  if (!flows) {
    // Without connection tracking there is nothing to be stale.
    if (flows.error().kind != netlink::ErrorKind::missing)
      failures.push_back(
          {fmt::format("list {} UDP flows", netlink::to_string(family)), std::move(flows.error())});
    return 0;
  }
  std::erase_if(*flows, [&](const auto& flow) { return !is_stale(flow, state); });
  if (flows->empty()) return 0;
  auto outcomes = conntrack.remove(*flows);
  std::size_t removed = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i])
      ++removed;
    else
      failures.push_back({"remove " + to_string((*flows)[i]), std::move(outcomes[i].error())});
  }
  return removed;
}

std::map<netlink::Family, Purge> StaleFlows::purge(netlink::ConntrackTable& conntrack,
                                                   const plan::ActualState& state,
                                                   const plan::ServiceKeySet& unsettled,
                                                   TimePoint now, std::vector<Failure>& failures) {
  auto unsure = take_unsure(state, unsettled);
  std::map<netlink::Family, Purge> purges;
  const auto before = failures.size();
  for (auto family : netlink::kFamilies) {
    if (!has(family)) continue;
    const auto failed_before = failures.size();
    const auto begin = std::chrono::steady_clock::now();
    auto& purge_of_family = purges[family];
    purge_of_family.removed = purge(conntrack, family, state, failures);
    purge_of_family.failed = failures.size() - failed_before;
    purge_of_family.took = std::chrono::steady_clock::now() - begin;
  }
  if (failures.size() == before) noted_.clear();
  noted_.merge(unsure);
  if (noted_.empty()) {
    failed_ = 0;
    due_ = now;
  } else {
    postpone(now);
  }
  return purges;
}

}  // namespace ipvsproxier::sync
