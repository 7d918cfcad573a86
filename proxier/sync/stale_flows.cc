#include "proxier/sync/stale_flows.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "proxier/plan/diff.h"
#include "proxier/plan/in_cluster.h"

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

// What a transaction does to one virtual service, as far as flows may become stale by it.
struct Changes {
  bool begins = false;
  bool ends = false;
  std::vector<const netlink::RealServerKey*> gone;
};

// A virtual service of another protocol than UDP is there only if it begins or loses real servers.
std::map<VirtualServiceKey, Changes> changes_in(const plan::Transaction& transaction) {
  std::map<VirtualServiceKey, Changes> all;
  for (const auto& phase : transaction.phases) {
    const auto* ops = std::get_if<std::vector<netlink::IpvsOp>>(&phase.work);
    if (!ops) continue;
    for (const auto& op : *ops) {
      Changed changed;
      std::visit([&](const auto& one) { changed(one); }, op);
      if (!changed.service) continue;
      const bool begins = std::holds_alternative<netlink::AddService>(op);
      const bool ends = std::holds_alternative<netlink::DeleteService>(op);
      if (changed.service->protocol != Protocol::udp && !begins && !ends && !changed.gone) continue;
      auto& changes = all[*changed.service];
      changes.begins = changes.begins || begins;
      changes.ends = changes.ends || ends;
      if (changed.gone) changes.gone.push_back(changed.gone);
    }
  }
  return all;
}

void append(std::string& bytes, const netlink::RealServerKey& key) {
  for (const auto byte : key.address.bytes()) bytes += static_cast<char>(byte);
  bytes += static_cast<char>(key.port & 0xffU);
  bytes += static_cast<char>(key.port >> 8U);
}

// Whoever makes two states alike keeps stale flows of his own Service.
std::uint64_t fingerprint_of(const plan::RealServers& present,
                             const netlink::SortedVector<netlink::RealServerKey>& wanted) {
  std::string bytes;
  for (const auto& one : present) append(bytes, one.key);
  append(bytes, {});  // no real server
  for (const auto& one : wanted) append(bytes, one);
  return std::hash<std::string>{}(bytes);
}

}  // namespace

bool StaleFlows::is_unreadable(const netlink::Error& error) {
  return error.kind == ErrorKind::missing || error.kind == ErrorKind::denied ||
         error.kind == ErrorKind::unsupported;
}

std::optional<StaleFlows::Servers> StaleFlows::servers_of(const plan::DesiredState& desired,
                                                          const plan::ActualState& state,
                                                          const VirtualServiceKey& key) {
  const auto* service = find(state, key);
  if (!state.services || (service && !service->servers)) return std::nullopt;
  Servers servers;
  if (service) servers.present = &*service->servers;
  const auto planned = desired.services.find(key);
  if (planned != desired.services.end()) servers.planned = &planned->second.servers;
  const plan::RealServers none;
  const netlink::SortedVector<netlink::RealServerKey> no_keys;
  const auto& present = servers.present ? *servers.present : none;
  const auto& wanted = servers.planned ? *servers.planned : no_keys;
  servers.sure = std::ranges::equal(present, wanted, {}, &netlink::RealServer::key);
  servers.fingerprint = fingerprint_of(present, wanted);
  return servers;
}

// `goals`: those that were met already, as many virtual services have one.
const std::optional<StaleFlows::Servers>& StaleFlows::goal_of(const plan::DesiredState& desired,
                                                              const plan::ActualState& state,
                                                              const VirtualServiceKey& key,
                                                              Goals& goals) {
  const auto [goal, is_new] = goals.try_emplace(key);
  if (is_new) goal->second = servers_of(desired, state, key);
  return goal->second;
}

// nullopt: nothing is known of one of them.
std::optional<std::vector<StaleFlows::Servers>> StaleFlows::goals_of(
    const plan::DesiredState& desired, const plan::ActualState& state,
    const std::vector<VirtualServiceKey>& keys, Goals& goals) {
  std::vector<Servers> all;
  for (const auto& key : keys) {
    const auto& goal = goal_of(desired, state, key, goals);
    if (!goal) return std::nullopt;
    all.push_back(*goal);
  }
  return all;
}

std::optional<StaleFlows::View> StaleFlows::view_of(const plan::DesiredState& desired,
                                                    const plan::ActualState& state,
                                                    const VirtualServiceKey& key, Goals& goals) {
  const auto own = servers_of(desired, state, key);
  if (!own) return std::nullopt;
  View view{.own = *own, .goal = {}};
  const auto way = plan::in_cluster_way_of(desired, key);
  if (!way) return view;
  const auto& goal = goal_of(desired, state, *way, goals);
  if (!goal) return std::nullopt;
  view.goal = *goal;
  return view;
}

void StaleFlows::remember(const VirtualServiceKey& service, const netlink::RealServerKey& gone) {
  auto& [servers, too_many, notes, certain] = gone_[service];
  const auto share = std::max<std::size_t>(kServersRemembered / gone_.size(), 1);
  if (remembered_ >= kServersRemembered && servers.size() >= share && !servers.contains(gone)) {
    remembered_ -= servers.size();
    servers.clear();
    too_many = true;
  }
  if (!too_many && servers.insert(gone).second) ++remembered_;
}

// `lost`: `from`, the virtual service itself or one that its clients are, or were, sent to, lost
// real servers.
void StaleFlows::note(const VirtualServiceKey& key, bool lost, const VirtualServiceKey& from) {
  auto& note = notes_[key];
  note.due = {};
  ++note.changes;
  if (!lost) return;
  note.seen.reset();
  note.tries = 0;
  const auto gone = gone_.find(from);
  if (gone != gone_.end() && note.gone_from.insert(from).second) ++gone->second.notes;
}

void StaleFlows::note_early(const VirtualServiceKey& key) {
  auto& note = notes_[key];
  note = {.gone_from = std::move(note.gone_from),
          .early = true,
          .seen = {},
          .changes = note.changes + 1};
}

// A virtual service may be added turns before its address is bound, and an address that was lost is
// bound anew.
void StaleFlows::note_bound(const plan::Transaction& transaction, const plan::ActualState& before) {
  if (!before.services) return;
  for (const auto& phase : transaction.phases) {
    const auto* ops = std::get_if<std::vector<plan::BindingOp>>(&phase.work);
    if (!ops) continue;
    for (const auto& op : *ops) {
      const auto& address = op.binding.address;
      if (!op.add) continue;
      for (auto it = before.services->lower_bound({address});
           it != before.services->end() && it->first.address == address; ++it)
        note_early(it->first);
    }
  }
}

// The note names the virtual service no longer.
void StaleFlows::release(const VirtualServiceKey& service) {
  const auto gone = gone_.find(service);
  if (--gone->second.notes > 0) return;
  remembered_ -= gone->second.servers.size();
  gone_.erase(gone);
}

StaleFlows::Notes::iterator StaleFlows::forget(Notes::iterator note) {
  for (const auto& service : note->second.gone_from) release(service);
  return notes_.erase(note);
}

// All flows were looked at: none is left to a real server that is gone for certain. A Service whose
// real servers are never sure would hold these for ever, and there is room for so many.
void StaleFlows::release_gone(Note& note) {
  std::erase_if(note.gone_from, [this](const VirtualServiceKey& service) {
    if (!gone_.at(service).certain) return false;
    release(service);
    return true;
  });
}

// What a virtual service has again, as planned, is not gone: some flows to it may be by a way that
// is turned. What is there and not planned may be gone, the answer lost.
void StaleFlows::take_back(const plan::DesiredState& desired, const plan::ActualState& state) {
  for (auto& [key, gone] : gone_) {
    const auto* service = find(state, key);
    const auto planned = desired.services.find(key);
    gone.certain = false;
    if (!state.services || (service && !service->servers)) continue;
    const auto is_present = [&](const netlink::RealServerKey& server) {
      return service && service->servers->contains(server);
    };
    const auto is_planned = [&](const netlink::RealServerKey& server) {
      return planned != desired.services.end() && planned->second.servers.contains(server);
    };
    remembered_ -= std::erase_if(gone.servers, [&](const netlink::RealServerKey& server) {
      return is_present(server) && is_planned(server);
    });
    gone.certain = !gone.too_many && std::ranges::none_of(gone.servers, [&](const auto& server) {
      return is_present(server) || is_planned(server);
    });
  }
}

bool StaleFlows::lost_too_many(const Note& note) const {
  return std::ranges::any_of(note.gone_from, [this](const VirtualServiceKey& service) {
    return gone_.at(service).too_many;
  });
}

void StaleFlows::postpone(Note& note, TimePoint now) const {
  note.due = now + backoff_.delay(++note.tries, 0);
}

void StaleFlows::note(const plan::Transaction& transaction, const plan::ActualState& before) {
  ways_.note(transaction, before);
  // Connections go on behind a way that turned; datagrams to the old endpoint would never end.
  for (const auto* turned : {&transaction.ways, &transaction.old_ways})
    for (const auto& [from, goal] : *turned)
      if (from.protocol == Protocol::udp) note(from, false, from);
  for (const auto& [service, changes] : changes_in(transaction)) {
    if (changes.begins && early_) note_early(service);
    auto keys = ways_.to(service);
    if (service.protocol == Protocol::udp) keys.insert(service);
    if (changes.ends) ways_.forget(service);
    if (keys.empty()) continue;
    for (const auto* gone : changes.gone) remember(service, *gone);
    const auto* ending = changes.ends ? find(before, service) : nullptr;
    if (ending && ending->servers)
      for (const auto& server : *ending->servers) remember(service, server.key);
    const bool lost = changes.ends || !changes.gone.empty();
    for (const auto& key : keys) note(key, lost, service);
  }
  if (early_) note_bound(transaction, before);
}

void StaleFlows::note_left(const plan::DesiredState& desired, const plan::ActualState& state) {
  if (!state.services || std::exchange(left_noted_, true)) return;
  ways_.note(state);
  for (const auto& [key, service] : *state.services)
    if (key.protocol == Protocol::udp && plan::is_ours(desired, key)) notes_[key];
}

std::optional<TimePoint> StaleFlows::next() const {
  if (parts_) return TimePoint::min();
  auto next = TimePoint::max();
  for (const auto& [family, look] : offloaded_) next = std::min(next, look.due);
  if (notes_.empty()) return offloaded_.empty() ? std::nullopt : std::optional(next);
  if (unreadable_) return std::min(next, readable_due_);
  for (const auto& [key, note] : notes_) next = std::min(next, note.due);
  return next;
}

// A virtual service whose real servers are not sure is looked at once, and again when its state
// changes. Those beyond the limit stay due.
StaleFlows::Look StaleFlows::begin_look(const plan::DesiredState& desired,
                                        const plan::ActualState& state, TimePoint now) {
  take_back(desired, state);
  Look look;
  Goals goals;
  WaysTo ways;
  for (auto it = notes_.begin(); it != notes_.end() && look.size() < kServicesALook;) {
    auto& [key, note] = *it;
    if (note.due > now) {
      ++it;
      continue;
    }
    auto view = whole_view_of(desired, state, key, note, goals, ways);
    if (view && view->sure() && note.gone_from.empty() && !find(state, key)) {
      it = forget(it);  // no flow can be stale
      continue;
    }
    // A change that adds it notes it again.
    if (key.protocol != Protocol::udp && note.gone_from.empty() && !find(state, key)) view.reset();
    if (!view || view->fingerprint() == note.seen)
      postpone(note, now);
    else
      look.emplace(key, *view);
    ++it;
  }
  return look;
}

bool StaleFlows::is_stale(const netlink::Flow& flow, const Look& look) const {
  const auto key = sent_to(flow);
  const auto looked = look.find(key);
  if (looked == look.end()) return false;
  const netlink::RealServerKey server{flow.server.address, flow.server.port};
  const auto& [own, goal, former] = looked->second;
  if (own.may_have(server) || goal.may_have(server)) return false;
  const auto& note = notes_.at(key);
  if (note.early && own.present && own.planned && !flow.answered && flow.server == flow.destination)
    return true;
  // Connections of another protocol that an earlier proxy made end by themselves.
  if (key.protocol == Protocol::udp && (own.any() || goal.any())) return true;
  const auto is_gone_from = [&](const VirtualServiceKey& service) {
    return gone_.at(service).servers.contains(server);
  };
  const bool is_remembered = std::ranges::any_of(note.gone_from, is_gone_from);
  if (is_remembered || !former) return is_remembered;
  // Connections go on by an earlier way, and to what answers at the address itself.
  return flow.server != flow.destination &&
         std::ranges::none_of(*former, [&](const auto& one) { return one.may_have(server); });
}

std::set<VirtualServiceKey> StaleFlows::remove(netlink::ConntrackTable& conntrack,
                                               const std::vector<netlink::Flow>& flows,
                                               std::size_t& removed,
                                               std::vector<Failure>& failures) {
  std::set<VirtualServiceKey> failed;
  auto outcomes = conntrack.remove(flows);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i]) {
      ++removed;
      continue;
    }
    failed.insert(sent_to(flows[i]));
    failures.push_back({"remove " + to_string(flows[i]), std::move(outcomes[i].error())});
  }
  return failed;
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
  found.failed = remove(conntrack, *flows, removed, failures);
  return found;
}

void StaleFlows::end_look(const VirtualServiceKey& key, const View& seen, const Found& found,
                          TimePoint now) {
  const auto it = notes_.find(key);
  auto& note = it->second;
  if (found.unlisted || found.failed.contains(key)) {
    postpone(note, now);
  } else if (found.more) {
    note.due = now + backoff_.first;
  } else if (seen.sure()) {
    forget(it);
  } else {
    note.early = false;
    release_gone(note);
    note.seen = seen.fingerprint();
    postpone(note, now);
    if (key.protocol != Protocol::udp && note.gone_from.empty()) forget(it);
  }
}

void StaleFlows::not_readable(netlink::Error error, TimePoint now) {
  unreadable_ = Failure{"clear stale flows", std::move(error)};
  readable_due_ = now + kUnreadable.delay(++unreadable_tries_, 0);
}

std::map<netlink::Family, Purge> StaleFlows::purge(netlink::ConntrackTable& conntrack,
                                                   const plan::DesiredState& desired,
                                                   const plan::ActualState& state, TimePoint now,
                                                   std::vector<Failure>& failures) {
  Purges purges;
  // Looks at flowtables do not keep others waiting: one of the rest comes between two of them.
  const bool may_begin = !std::exchange(after_offloaded_, false);
  if (parts_ || (may_begin && begin_offloaded(now))) {
    take_part(conntrack, desired, state, now, purges, failures);
    return purges;
  }
  if (unreadable_ && now < readable_due_) return purges;
  const auto look = begin_look(desired, state, now);
  if (begin_parts(look, conntrack)) {
    take_part(conntrack, desired, state, now, purges, failures);
    return purges;
  }
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
    for (const auto& [key, seen] : look)
      if (is_asked_for(query, key)) end_look(key, seen, found, now);
    if (found.unlisted) continue;
    unreadable_.reset();
    unreadable_tries_ = 0;
  }
  if (look.empty()) unreadable_.reset();  // all flows that had to be looked at can be
  return purges;
}

}  // namespace ipvsproxier::sync
