#include "proxier/sync/trash.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "proxier/plan/diff.h"
#include "proxier/plan/guarded.h"

namespace ipvsproxier::sync {

namespace {

using netlink::DeleteServer;
using netlink::DeleteService;
using netlink::IpvsOp;
using netlink::Protocol;
using netlink::VirtualServiceKey;

bool removes_entry(const IpvsOp& op) {
  return std::holds_alternative<DeleteServer>(op) || std::holds_alternative<DeleteService>(op);
}

bool adds_entry(const IpvsOp& op) {
  return std::holds_alternative<netlink::AddService>(op) ||
         std::holds_alternative<netlink::AddServer>(op);
}

const plan::RealServers* servers_of(const VirtualServiceKey& key, const plan::ActualState& kernel) {
  if (!kernel.services) return nullptr;
  const auto found = kernel.services->find(key);
  return found != kernel.services->end() && found->second.servers ? &*found->second.servers
                                                                  : nullptr;
}

void add_drained(const VirtualServiceKey& key, netlink::RealServer server,
                 std::vector<IpvsOp>& ops) {
  if (server.weight == 0) return;
  server.weight = 0;
  ops.emplace_back(netlink::EditServer{key, server});
}

// How many more one may use that has used so many, if it may use so many times what it leaves free.
std::size_t share_of(std::size_t free, std::size_t used, std::size_t times) {
  return free * times > used ? (free * times - used) / (times + 1) : 0;
}

template <typename Map>
void subtract(Map& counts, const typename Map::key_type& key, std::size_t count) {
  const auto it = counts.find(key);
  if (it != counts.end() && (it->second -= count) == 0) counts.erase(it);
}

template <typename Map>
std::size_t count_of(const Map& counts, const typename Map::key_type& key) {
  const auto it = counts.find(key);
  return it == counts.end() ? 0 : it->second;
}

// How many real servers of the kernel the operation removes.
std::size_t count_removed(const IpvsOp& op, const plan::ActualState& kernel) {
  const auto* servers = removes_entry(op) ? servers_of(netlink::service_of(op), kernel) : nullptr;
  if (servers == nullptr) return 0;
  const auto* one = std::get_if<DeleteServer>(&op);
  return one == nullptr ? servers->size() : servers->contains(one->server) ? 1 : 0;
}

// Real servers in the kernel that are not planned.
std::size_t count_unplanned(const plan::RealServers& servers, const plan::DesiredState& desired,
                            const VirtualServiceKey& key) {
  const auto planned = desired.services.find(key);
  if (planned == desired.services.end()) return servers.size();
  return static_cast<std::size_t>(std::ranges::count_if(
      servers, [&](const auto& server) { return !planned->second.servers.contains(server.key); }));
}

}  // namespace

api::NamespacedName Trash::service_of(const VirtualServiceKey& key,
                                      const plan::Planner& planner) const {
  if (const auto* owner = planner.owner_of(key)) return *owner;
  const auto left = leaving_.find(key);
  return left == leaving_.end() ? api::NamespacedName{} : left->second;
}

void Trash::expire(TimePoint now) {
  for (; !removed_.empty() && removed_.front().until <= now; removed_.pop_front())
    for (const auto& [service, count] : removed_.front().counts) {
      total_ -= count;
      subtract(of_service_, service, count);
      subtract(of_namespace_, service.ns, count);
    }
}

std::size_t Trash::room(const api::NamespacedName& service, Protocol protocol) const {
  const std::size_t times = protocol == Protocol::tcp ? 1 : 3;
  const auto used = count_of(of_service_, service);
  const auto of_namespace = count_of(of_namespace_, service.ns);
  const auto shared = kMost - kReserved;
  const auto many = share_of(shared - std::min(shared, total_), of_namespace, times);
  const auto few = share_of(kMost - total_, of_namespace, times);
  return std::max(share_of(many, used, 3), used < kFew ? std::min(kFew - used, few) : 0);
}

void Trash::charge(const api::NamespacedName& service, std::size_t count, TimePoint now) {
  if (count == 0) return;
  if (removed_.empty() || removed_.back().until <= now + kStay)
    removed_.push_back({now + kStay + kStep, {}});
  removed_.back().counts[service] += count;
  total_ += count;
  of_service_[service] += count;
  of_namespace_[service.ns] += count;
}

// How many real servers each Service may remove now, of those that the operations remove. Services
// with few come first.
Trash::Counts Trash::grant(const Counts& asked, Protocol protocol, TimePoint now) {
  std::vector<std::pair<std::size_t, api::NamespacedName>> in_order;
  for (const auto& [service, count] : asked) in_order.emplace_back(count, service);
  std::ranges::sort(in_order);
  Counts granted;
  for (const auto& [count, service] : in_order) {
    const auto some = std::min(count, room(service, protocol));
    charge(service, some, now);
    granted[service] = some;
  }
  return granted;
}

// Adds the operation, or those that take its place if it removes more real servers than `granted`,
// which is counted down. Returns whether some wait.
bool Trash::release(const IpvsOp& op, const plan::ActualState& kernel, std::size_t& granted,
                    std::vector<IpvsOp>& ops) {
  const auto count = count_removed(op, kernel);
  const auto now = std::min(count, std::exchange(granted, granted - std::min(count, granted)));
  if (now == count) {
    ops.push_back(op);
    return false;
  }
  const auto& key = netlink::service_of(op);
  const auto& servers = *servers_of(key, kernel);
  if (const auto* one = std::get_if<DeleteServer>(&op); one != nullptr) {
    add_drained(key, *servers.find(one->server), ops);
    return true;
  }
  auto it = servers.begin();
  for (std::size_t i = 0; i < now; ++i, ++it) ops.emplace_back(DeleteServer{key, it->key});
  for (; it != servers.end(); ++it) add_drained(key, *it, ops);
  return true;
}

void Trash::hold(std::vector<IpvsOp>& ops, Protocol protocol, const plan::ActualState& kernel,
                 const plan::Planner& planner, TimePoint now) {
  const auto counts = [&](const IpvsOp& op) {
    return netlink::service_of(op).protocol == protocol ? count_removed(op, kernel) : 0;
  };
  Counts asked;
  for (const auto& op : ops)
    if (const auto count = counts(op); count > 0)
      asked[service_of(netlink::service_of(op), planner)] += count;
  if (asked.empty()) return;
  auto granted = grant(asked, protocol, now);
  std::vector<IpvsOp> kept;
  kept.reserve(ops.size());
  for (const auto& op : ops) {
    if (counts(op) == 0) {
      kept.push_back(op);
      continue;
    }
    const auto& key = netlink::service_of(op);
    const auto service = service_of(key, planner);
    const bool waits = release(op, kernel, granted.at(service), kept);
    // Drain looks again at a planned virtual service of a protocol that drains.
    const auto& desired = planner.desired();
    const bool held = waits && !(plan::drains(desired, protocol) && desired.services.contains(key));
    if (held && !waiting_.contains(key))
      set_waiting(key, {.service = service, .servers = servers_of(key, kernel)->size()});
    set_held(key, held);
  }
  ops = std::move(kept);
}

void Trash::hold(plan::Transaction& transaction, const plan::ActualState& kernel,
                 const plan::Planner& planner, TimePoint now) {
  if (lifted_) return;
  expire(now);
  for (const auto protocol : {Protocol::udp, Protocol::sctp, Protocol::tcp})
    for (auto& phase : transaction.phases)
      if (auto* ops = std::get_if<std::vector<IpvsOp>>(&phase.work))
        hold(*ops, protocol, kernel, planner, now);
  keep_marks(transaction, planner.desired());
  refuse_additions(transaction, planner);
  std::erase_if(transaction.phases, [](const plan::Phase& phase) {
    return std::visit([](const auto& work) { return work.empty(); }, phase.work);
  });
}

// Whether a later process would know by this element that a virtual service which waits is ours.
bool Trash::is_mark(const plan::SetKey& set, const ipset::Element& element,
                    const plan::DesiredState& desired) const {
  const auto marks = [&](const VirtualServiceKey& key) {
    if (desired.services.contains(key)) return false;
    const auto own = plan::elements_of(key);
    return std::ranges::find(own, std::pair(set.id, element)) != own.end();
  };
  const auto guarded = plan::guarded_by(set.id, element);
  if (guarded.service) return held_.contains(held_of(*guarded.service)) && marks(*guarded.service);
  const auto protocol = plan::protocol_of_ports(set.id);
  if (!protocol || !guarded.port) return false;
  for (auto it = held_.lower_bound({*guarded.port, *protocol, {}}); it != held_.end(); ++it) {
    const auto& [port, of, key] = *it;
    if (port != *guarded.port || of != *protocol) break;
    if (key.address.family() == set.family && marks(key)) return true;
  }
  return false;
}

void Trash::keep_marks(plan::Transaction& transaction, const plan::DesiredState& desired) const {
  if (held_.empty()) return;
  for (auto& phase : transaction.phases) {
    auto* changes = std::get_if<std::vector<plan::SetChange>>(&phase.work);
    if (changes == nullptr) continue;
    for (auto& change : *changes)
      std::erase_if(change.ops, [&](const ipset::ElementOp& op) {
        return !op.add && is_mark(change.set, op.element, desired);
      });
    std::erase_if(*changes, [](const plan::SetChange& change) { return change.ops.empty(); });
  }
}

void Trash::refuse_additions(plan::Transaction& transaction, const plan::Planner& planner) const {
  std::set<std::string> full;
  for (const auto& [name, servers] : waiting_of_)
    if (servers > most_waiting_) full.insert(name);
  if (full.empty()) return;
  for (const auto& phase : transaction.phases)
    if (const auto* ops = std::get_if<std::vector<IpvsOp>>(&phase.work))
      for (const auto& op : *ops)
        if (const auto& key = netlink::service_of(op);
            adds_entry(op) && full.contains(service_of(key, planner).ns))
          transaction.without_room.insert(key);
}

bool Trash::has_room(const VirtualServiceKey& key, const plan::Planner& planner, TimePoint now) {
  expire(now);
  return lifted_ || room(service_of(key, planner), key.protocol) > 0;
}

// Without real servers that wait the virtual service is forgotten.
void Trash::set_waiting(const VirtualServiceKey& key, Waiting waiting) {
  if (const auto known = waiting_.find(key); known != waiting_.end())
    subtract(waiting_of_, known->second.service.ns, known->second.servers);
  if (waiting.servers == 0) {
    waiting_.erase(key);
    set_held(key, false);
    return;
  }
  waiting_of_[waiting.service.ns] += waiting.servers;
  waiting_.insert_or_assign(key, std::move(waiting));
}

void Trash::set_held(const VirtualServiceKey& key, bool held) {
  if (held)
    held_.insert(held_of(key));
  else
    held_.erase(held_of(key));
}

void Trash::give_back(const plan::Transaction& transaction, const plan::ActualState& kernel,
                      const plan::Planner& planner) {
  if (lifted_ || removed_.empty()) return;
  Counts left;
  for (const auto& phase : transaction.phases) {
    const auto* ops = std::get_if<std::vector<IpvsOp>>(&phase.work);
    if (ops == nullptr) continue;
    for (const auto& op : *ops)
      if (const auto count = count_removed(op, kernel); count > 0)
        left[service_of(netlink::service_of(op), planner)] += count;
  }
  auto& counted = removed_.back().counts;
  for (const auto& [service, count] : left) {
    const auto some = std::min(count, count_of(counted, service));
    subtract(counted, service, some);
    subtract(of_service_, service, some);
    subtract(of_namespace_, service.ns, some);
    total_ -= some;
  }
}

void Trash::note(const plan::ServiceKeySet& services, const plan::DesiredState& desired,
                 const plan::ActualState& kernel, const plan::Planner& planner) {
  if (!kernel.services) return;
  for (const auto& key : services) {
    const auto* servers = servers_of(key, kernel);
    const auto known = waiting_.find(key);
    const auto count = servers != nullptr ? count_unplanned(*servers, desired, key) : 0;
    if (count > 0 || known != waiting_.end())
      set_waiting(key, {.service = service_of(key, planner), .servers = count});
    if (!kernel.services->contains(key) || desired.services.contains(key)) leaving_.erase(key);
  }
}

std::optional<TimePoint> Trash::next() const {
  if (removed_.empty() || held_.empty()) return std::nullopt;
  return removed_.front().until;
}

std::map<api::NamespacedName, plan::Scope> Trash::due(const plan::DesiredState& desired,
                                                      TimePoint now) {
  std::map<api::NamespacedName, plan::Scope> due;
  const auto when = next();
  if (!when || now < *when) return due;
  expire(now);
  std::map<std::pair<api::NamespacedName, Protocol>, std::size_t> rooms;
  for (const auto& held : held_) {
    const auto& key = std::get<VirtualServiceKey>(held);
    const auto& waiting = waiting_.at(key);
    const auto [left, is_new] = rooms.try_emplace({waiting.service, key.protocol}, 0);
    if (is_new) left->second = room(waiting.service, key.protocol);
    if (left->second == 0) continue;
    left->second -= std::min(left->second, waiting.servers);
    auto& scope = due[waiting.service];
    if (desired.services.contains(key))
      scope.services.insert(key);
    else
      scope.merge(plan::scope_of(key));
  }
  return due;
}

}  // namespace ipvsproxier::sync
