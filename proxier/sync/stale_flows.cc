#include "proxier/sync/stale_flows.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "proxier/plan/diff.h"
#include "proxier/plan/guarded.h"

namespace ipvsproxier::sync {

namespace {

using netlink::ErrorKind;
using netlink::Protocol;
using netlink::VirtualServiceKey;

const plan::ActualService* find(const plan::ActualState& state, const VirtualServiceKey& key) {
  if (!state.services) return nullptr;
  const auto it = state.services->find(key);
  return it == state.services->end() ? nullptr : &it->second;
}

// Pauses while the kernel cannot list flows: each request makes it look for a module.
constexpr loop::Backoff kUnreadable{std::chrono::seconds(1), std::chrono::minutes(5)};

bool is_unreadable(const netlink::Error& error) {
  return error.kind == ErrorKind::missing || error.kind == ErrorKind::denied ||
         error.kind == ErrorKind::unsupported;
}

bool is_asked_for(const netlink::FlowQuery& query, const VirtualServiceKey& key) {
  return key.address.family() == query.family && key.protocol == query.protocol;
}

// One for each family and protocol.
std::vector<netlink::FlowQuery> queries() {
  std::vector<netlink::FlowQuery> all;
  for (const auto family : netlink::kFamilies)
    for (const auto protocol : {Protocol::udp, Protocol::tcp, Protocol::sctp})
      all.push_back({.family = family,
                     .protocol = protocol,
                     .destinations = {},
                     .wanted = {},
                     .most = StaleFlows::kFlowsALook});
  return all;
}

VirtualServiceKey sent_to(const netlink::Flow& flow) {
  return {flow.destination.address, flow.protocol, flow.destination.port};
}

// The virtual service that an operation changes so that flows may become stale, and the real server
// that it removes.
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

bool StaleFlows::add_servers(const plan::DesiredState& desired, const plan::ActualState& state,
                             const netlink::VirtualServiceKey& key, View& view) {
  const auto* service = find(state, key);
  if (!state.services || (service && !service->servers)) return false;
  const auto planned = desired.services.find(key);
  const bool wanted = planned != desired.services.end();
  if (wanted)
    for (const auto& server : planned->second.servers)
      if (!service || !service->servers->contains(server)) view.unsure.insert(server);
  if (service)
    for (const auto& server : *service->servers) {
      view.has.insert(server.key);
      if (!wanted || !planned->second.servers.contains(server.key)) view.unsure.insert(server.key);
    }
  return true;
}

// Unsure real servers are desired and absent, or present and not desired: a failed operation may
// have happened. nullopt: nothing is known of the real servers.
std::optional<StaleFlows::View> StaleFlows::view_of(const plan::DesiredState& desired,
                                                    const plan::ActualState& state,
                                                    const VirtualServiceKey& key) {
  View view;
  if (!add_servers(desired, state, key, view)) return std::nullopt;
  const auto way = plan::in_cluster_way_of(desired, key);
  if (way && !add_servers(desired, state, *way, view)) return std::nullopt;
  return view;
}

void StaleFlows::remember(Note& note, const netlink::RealServerKey& gone) {
  note.seen.reset();
  note.tries = 0;
  if (remembered_ < kServersRemembered && note.gone.insert(gone).second) ++remembered_;
}

StaleFlows::Notes::iterator StaleFlows::forget(Notes::iterator note) {
  remembered_ -= note->second.gone.size();
  return notes_.erase(note);
}

void StaleFlows::postpone(Note& note, TimePoint now) const {
  note.due = now + backoff_.delay(++note.tries, 0);
}

// Those of which this transaction changes the element that sends clients on.
void StaleFlows::remember_ways(const plan::Transaction& transaction,
                               const plan::ActualState& before) {
  std::set<VirtualServiceKey> changing;
  for (const auto& phase : transaction.phases)
    if (const auto* changes = std::get_if<std::vector<plan::SetChange>>(&phase.work))
      for (const auto& [set, ops] : *changes)
        if (set.id == ipset::SetId::in_cluster || set.id == ipset::SetId::nft_in_cluster)
          for (const auto& op : ops)
            if (const auto from = plan::guarded_by(set.id, op.element).service)
              changing.insert(*from);
  if (changing.empty()) return;
  for (const auto& [to, all] : plan::in_cluster_ways(before))
    for (const auto& from : all)
      if (changing.contains(from) && former_ways_.size() < kWaysRemembered)
        former_ways_.insert_or_assign(from, to);
}

plan::InClusterWays StaleFlows::ways_in(const plan::ActualState& before) const {
  auto ways = plan::in_cluster_ways(before);
  for (const auto& [from, to] : former_ways_) ways[to].push_back(from);
  return ways;
}

void StaleFlows::note(const plan::Transaction& transaction, const plan::ActualState& before) {
  remember_ways(transaction, before);
  std::optional<plan::InClusterWays> ways;
  for (const auto& phase : transaction.phases) {
    const auto* ops = std::get_if<std::vector<netlink::IpvsOp>>(&phase.work);
    if (!ops) continue;
    for (const auto& op : *ops) {
      Changed changed;
      std::visit([&](const auto& one) { changed(one); }, op);
      if (!changed.service) continue;
      const auto* service = find(before, *changed.service);
      const bool all_go = std::holds_alternative<netlink::DeleteService>(op);
      const auto take = [&](const VirtualServiceKey& key) {
        auto& note = notes_[key];
        note.due = {};
        if (changed.gone) remember(note, *changed.gone);
        if (all_go && service && service->servers)
          for (const auto& server : *service->servers) remember(note, server.key);
      };
      const bool is_udp = changed.service->protocol == Protocol::udp;
      if (is_udp) take(*changed.service);
      if (!is_udp && !all_go && changed.gone == nullptr) continue;
      if (!ways) ways = ways_in(before);
      if (const auto through = ways->find(*changed.service); through != ways->end())
        for (const auto& key : through->second) take(key);
      if (all_go) former_ways_.erase(*changed.service);
    }
  }
}

void StaleFlows::note_left(const plan::DesiredState& desired, const plan::ActualState& state) {
  if (!state.services || std::exchange(left_noted_, true)) return;
  for (const auto& [key, service] : *state.services)
    if (plan::is_ours(desired, key) &&
        (key.protocol == Protocol::udp || plan::in_cluster_way_of(desired, key)))
      notes_[key];
}

std::optional<TimePoint> StaleFlows::next() const {
  if (notes_.empty()) return std::nullopt;
  if (unreadable_) return readable_due_;
  auto next = TimePoint::max();
  for (const auto& [key, note] : notes_) next = std::min(next, note.due);
  return next;
}

// A virtual service with unsure real servers is looked at once, and again when its state changes.
StaleFlows::Look StaleFlows::begin_look(const plan::DesiredState& desired,
                                        const plan::ActualState& state, TimePoint now) {
  Look look;
  for (auto it = notes_.begin(); it != notes_.end();) {
    auto& [key, note] = *it;
    if (note.due > now) {
      ++it;
      continue;
    }
    auto now_seen = view_of(desired, state, key);
    if (now_seen && now_seen->unsure.empty() && note.gone.empty() && !find(state, key)) {
      it = forget(it);  // no flow can be stale
      continue;
    }
    if (!now_seen || now_seen == note.seen)
      postpone(note, now);
    else
      look.emplace(key, *std::move(now_seen));
    ++it;
  }
  return look;
}

bool StaleFlows::is_stale(const netlink::Flow& flow, const Look& look) const {
  const auto key = sent_to(flow);
  const auto looked = look.find(key);
  if (looked == look.end()) return false;
  const netlink::RealServerKey server{flow.server.address, flow.server.port};
  const auto& view = looked->second;
  if (view.has.contains(server) || view.unsure.contains(server)) return false;
  // Connections of another protocol that an earlier proxy made end by themselves.
  const bool by_absence = key.protocol == netlink::Protocol::udp && !view.has.empty();
  return by_absence || notes_.at(key).gone.contains(server);
}

StaleFlows::Found StaleFlows::remove_found(netlink::ConntrackTable& conntrack,
                                           const netlink::FlowQuery& query, std::size_t& removed,
                                           std::vector<Failure>& failures) {
  Found found;
  const auto flows = conntrack.list(query);
  if (!flows) {
    found.unlisted = flows.error();
    return found;
  }
  found.more = flows->size() >= query.most / 2;  // each flow may have been listed twice
  auto outcomes = conntrack.remove(*flows);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const auto& flow = (*flows)[i];
    if (outcomes[i]) {
      ++removed;
      continue;
    }
    found.failed.insert(sent_to(flow));
    failures.push_back({"remove " + to_string(flow), std::move(outcomes[i].error())});
  }
  return found;
}

void StaleFlows::end_look(const Look& look, const netlink::FlowQuery& query, const Found& found,
                          TimePoint now) {
  for (const auto& [key, seen] : look) {
    if (!is_asked_for(query, key)) continue;
    const auto it = notes_.find(key);
    auto& note = it->second;
    if (found.unlisted || found.failed.contains(key)) {
      postpone(note, now);
    } else if (found.more) {
      note.due = now + backoff_.first;
    } else if (seen.unsure.empty()) {
      forget(it);
    } else {
      note.seen = seen;
      postpone(note, now);
    }
  }
}

void StaleFlows::not_readable(netlink::Error error, TimePoint now) {
  unreadable_ = Failure{"clear stale UDP flows", std::move(error)};
  readable_due_ = now + kUnreadable.delay(++unreadable_tries_, 0);
}

std::map<netlink::Family, Purge> StaleFlows::purge(netlink::ConntrackTable& conntrack,
                                                   const plan::DesiredState& desired,
                                                   const plan::ActualState& state, TimePoint now,
                                                   std::vector<Failure>& failures) {
  std::map<netlink::Family, Purge> purges;
  if (unreadable_ && now < readable_due_) return purges;
  const auto look = begin_look(desired, state, now);
  for (auto query : queries()) {
    for (const auto& [key, seen] : look)
      if (is_asked_for(query, key)) query.destinations.insert({key.address, key.port});
    if (query.destinations.empty()) continue;
    const auto family = query.family;
    query.wanted = [&](const auto& flow) { return is_stale(flow, look); };
    const auto begin = std::chrono::steady_clock::now();
    const auto failed_before = failures.size();
    auto& purge = purges[family];
    const auto found = remove_found(conntrack, query, purge.removed, failures);
    const bool unreadable = found.unlisted && is_unreadable(*found.unlisted);
    if (found.unlisted && !unreadable)
      failures.push_back(
          {fmt::format("list {} {} flows", to_string(family), to_string(query.protocol)),
           *found.unlisted});
    purge.failed += failures.size() - failed_before + (unreadable ? 1 : 0);
    purge.took += std::chrono::steady_clock::now() - begin;
    if (unreadable) {
      not_readable(*found.unlisted, now);
      return purges;
    }
    end_look(look, query, found, now);
    if (found.unlisted) continue;
    unreadable_.reset();
    unreadable_tries_ = 0;
  }
  if (look.empty()) unreadable_.reset();  // all flows that had to be looked at can be
  return purges;
}

}  // namespace ipvsproxier::sync
