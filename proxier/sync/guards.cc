#include "proxier/sync/guards.h"

#include <algorithm>

#include "proxier/plan/guarded.h"

namespace ipvsproxier::sync {

namespace {

using netlink::AddServer;
using netlink::AddService;
using netlink::DeleteService;
using netlink::EditService;
using netlink::IpvsOp;
using netlink::RealServerKey;
using netlink::service_of;
using netlink::VirtualServiceKey;

template <typename Key>
void blame(std::map<Key, Cause>& causes, const Key& key, Cause cause) {
  const auto it = causes.try_emplace(key, cause).first;
  if (cause == Cause::node) it->second = cause;
}

template <typename Key>
std::optional<Cause> find_cause(const std::map<Key, Cause>& causes, const Key& key) {
  const auto it = causes.find(key);
  return it == causes.end() ? std::nullopt : std::optional(it->second);
}

bool has_any_at(const std::set<VirtualServiceKey>& services, const netlink::IpAddress& address) {
  const auto it = services.lower_bound({address});
  return it != services.end() && it->address == address;
}

// The real server that gets no new connections behind the operation.
const RealServerKey* leaving_server(const IpvsOp& op) {
  if (const auto* gone = std::get_if<netlink::DeleteServer>(&op)) return &gone->server;
  const auto* edit = std::get_if<netlink::EditServer>(&op);
  return edit != nullptr && edit->server.weight == 0 ? &edit->server.key : nullptr;
}

}  // namespace

void Guards::note_unguarded(const netlink::VirtualServiceKey& service, Cause cause) {
  blame(unguarded_services_, service, cause);
}

void Guards::note_unguarded(ipset::SetId set, const ipset::Element& element, Cause cause) {
  const auto [service, address, port] = plan::guarded_by(set, element);
  if (service) blame(unguarded_services_, *service, cause);
  if (address) blame(unguarded_addresses_, *address, cause);
  if (const auto protocol = plan::protocol_of_ports(set); protocol && port)
    blame(unguarded_node_ports_, {*protocol, *port}, cause);
  if (plan::masquerades(set, element)) note_unmasqueraded(set, element, cause);
  keep_old_way(set, element);
}

std::optional<Guards::PortOfProtocol> Guards::node_port_of(const VirtualServiceKey& service) const {
  if (transaction_ == nullptr || !transaction_->node_addresses.contains(service.address))
    return std::nullopt;
  return PortOfProtocol{service.protocol, service.port};
}

std::optional<Cause> Guards::must_hide(const netlink::VirtualServiceKey& service) const {
  if (families_without_rules_.contains(service.address.family())) return Cause::node;
  const auto port = node_port_of(service);
  std::optional<Cause> result;
  for (const auto cause :
       {find_cause(unguarded_addresses_, service.address), find_cause(unguarded_services_, service),
        port ? find_cause(unguarded_node_ports_, *port) : std::nullopt})
    if (cause && result != Cause::node) result = cause;
  return result;
}

void Guards::note_stuck(ipset::SetId set, const ipset::Element& element, Cause cause) {
  if (plan::keeps_source(set, element)) note_unmasqueraded(set, element, cause);
  if (plan::drops_outside(element))
    blame(unguarded_services_, *plan::guarded_by(set, element).service, cause);
  keep_old_way(set, element);
}

void Guards::note_held(const plan::SetKey& set, const ipset::ElementOp& op) {
  keep_old_way(set.id, op.element);
  if (!op.add) families_with_kept_elements_.insert(set.family);
}

void Guards::note_unmasqueraded(ipset::SetId set, const ipset::Element& element, Cause cause) {
  const auto [service, address, port] = plan::guarded_by(set, element);
  if (service) blame(unmasqueraded_services_, *service, cause);
  if (const auto protocol = plan::protocol_of_ports(set); protocol && port)
    blame(unmasqueraded_node_ports_, {*protocol, *port}, cause);
}

std::optional<Cause> Guards::is_unmasqueraded(const VirtualServiceKey& service) const {
  if (const auto cause = find_cause(unmasqueraded_services_, service)) return cause;
  const auto port = node_port_of(service);
  return port ? find_cause(unmasqueraded_node_ports_, *port) : std::nullopt;
}

const VirtualServiceKey* Guards::way_of(const VirtualServiceKey& from) const {
  if (transaction_ == nullptr) return nullptr;
  const auto it = transaction_->ways.find(from);
  return it == transaction_->ways.end() ? nullptr : &it->second;
}

// Whether the node could not add the virtual service or one of its real servers.
bool Guards::lacks_servers(const VirtualServiceKey& service) const {
  return failed_services_.contains(service) || lacking_services_.contains(service);
}

// Whether in-cluster clients of the virtual service would be sent to where something is missing.
bool Guards::lacks_way(const VirtualServiceKey& from) const {
  const auto* way = way_of(from);
  return way != nullptr && (lacks_servers(*way) || unbound_addresses_.contains(way->address));
}

void Guards::keep_old_way(ipset::SetId set, const ipset::Element& element) {
  const auto from = plan::way_from(set, element);
  if (!from || plan::drops_outside(element) || transaction_ == nullptr) return;
  const auto old = transaction_->old_ways.find(*from);
  if (old != transaction_->old_ways.end()) kept_ways_.insert(old->second);
}

void Guards::note_failed_rules(netlink::Family family) {
  families_without_rules_.insert(family);
  if (transaction_ == nullptr) return;
  for (const auto& [from, old] : transaction_->old_ways)
    if (from.address.family() == family) kept_ways_.insert(old);
}

bool Guards::has_old_way(const netlink::IpAddress& address) const {
  return has_any_at(kept_ways_, address);
}

std::optional<Cause> Guards::must_stay(const RealServerKey& server,
                                       const VirtualServiceKey& service) const {
  if (kept_ways_.contains(service)) return Cause::node;
  // Those that come in its place are held back as well.
  if (const auto cause = is_unmasqueraded(service)) return cause;
  const auto* way = way_of(service);
  if (way == nullptr || !transaction_->sent_on.contains({service, server})) return std::nullopt;
  for (const auto& cause :
       {must_hide(service), find_cause(failed_services_, *way),
        find_cause(unbound_addresses_, way->address), find_cause(failed_servers_, {*way, server})})
    if (cause) return cause;
  return std::nullopt;
}

bool Guards::has_no_room(const VirtualServiceKey& service) const {
  return transaction_ != nullptr && transaction_->without_room.contains(service);
}

std::optional<Cause> Guards::must_hold(const IpvsOp& op) const {
  const auto& service = service_of(op);
  if (const auto* server = leaving_server(op)) return must_stay(*server, service);
  if (std::holds_alternative<DeleteService>(op))
    return kept_ways_.contains(service) ? std::optional(Cause::node) : std::nullopt;
  const bool adds_server = std::holds_alternative<AddServer>(op);
  if ((adds_server || std::holds_alternative<AddService>(op)) && has_no_room(service))
    return Cause::object;
  if (std::holds_alternative<AddService>(op)) return must_hide(service);
  // An edit would add the service that must not be added.
  const auto cause = find_cause(failed_services_, service);
  return cause || !adds_server ? cause : is_unmasqueraded(service);
}

void Guards::note_lacks(const netlink::AddServer& add, Cause cause) {
  blame(failed_servers_, {add.service, add.server.key}, cause);
  if (cause == Cause::node) lacking_services_.insert(add.service);
}

void Guards::note_keeps_servers(const VirtualServiceKey& service) {
  keep_servers_.insert(service);
  if (const auto port = node_port_of(service)) ports_keep_servers_.insert(*port);
}

void Guards::note(const IpvsOp& op, const netlink::Status& status) {
  if (!status && leaving_server(op) != nullptr) note_keeps_servers(service_of(op));
  if (const auto* add = std::get_if<AddService>(&op)) {
    const auto& key = add->service.key;
    if (!status)
      blame(failed_services_, key, cause_of(true, status.error()));
    else if (add->service.scheduler == netlink::kNoScheduler)
      unscheduled_services_.insert(key);
    else
      addresses_with_service_.insert(key.address);
  } else if (const auto* server = std::get_if<AddServer>(&op)) {
    if (!status) note_lacks(*server, cause_of(true, status.error()));
  } else if (const auto* edit = std::get_if<EditService>(&op)) {
    const auto& key = edit->service.key;
    if (unscheduled_services_.erase(key) == 0) return;
    if (status) {
      addresses_with_service_.insert(key.address);
      return;
    }
    blame(failed_services_, key, cause_of(true, status.error()));
    if (status.error().kind == netlink::ErrorKind::missing) useless_services_.insert(key);
  } else if (const auto* removal = std::get_if<DeleteService>(&op)) {
    if (!status) note_kept(removal->key);
  }
}

void Guards::note_kept(const VirtualServiceKey& service) {
  kept_services_.insert(service);
  kept_ports_.insert(service.port);
}

void Guards::note_held(const IpvsOp& op, Cause cause) {
  if (leaving_server(op) != nullptr) note_keeps_servers(service_of(op));
  if (const auto* add = std::get_if<AddService>(&op))
    blame(failed_services_, add->service.key, cause);
  else if (const auto* server = std::get_if<AddServer>(&op))
    note_lacks(*server, cause);
  else if (const auto* removal = std::get_if<DeleteService>(&op))
    note_kept(removal->key);
}

std::set<netlink::VirtualServiceKey> Guards::take_useless_services() {
  return std::exchange(useless_services_, {});
}

std::optional<Cause> Guards::must_hold(const plan::BindingOp& op) const {
  const auto& address = op.binding.address;
  if (!op.add)
    return has_old_way(address) ? std::optional(Cause::node)
                                : find_cause(unbound_addresses_, address);
  if (families_without_rules_.contains(address.family())) return Cause::node;
  if (const auto cause = find_cause(unguarded_addresses_, address)) return cause;
  if (addresses_with_service_.contains(address)) return std::nullopt;
  std::optional<Cause> result;
  for (auto it = failed_services_.lower_bound({address});
       it != failed_services_.end() && it->first.address == address; ++it)
    if (result != Cause::node) result = it->second;
  return result;
}

void Guards::note(const plan::BindingOp& op, const netlink::Status& status) {
  if (status) return;
  if (op.add)
    blame(unbound_addresses_, op.binding.address, cause_of(true, status.error()));
  else
    kept_addresses_.insert(op.binding.address);
}

void Guards::note_held(const plan::BindingOp& op, Cause cause) {
  if (op.add)
    blame(unbound_addresses_, op.binding.address, cause);
  else if (!unbound_addresses_.contains(op.binding.address))
    kept_addresses_.insert(op.binding.address);
}

// Whether a real server of what the element is about could not be taken from new connections.
bool Guards::keeps_servers(ipset::SetId set, const plan::Guarded& guarded) const {
  const auto protocol = plan::protocol_of_ports(set);
  return (guarded.service && keep_servers_.contains(*guarded.service)) ||
         (protocol && guarded.port && ports_keep_servers_.contains({*protocol, *guarded.port}));
}

bool Guards::must_hold(const plan::SetKey& set, const ipset::Element& element) const {
  const auto guarded = plan::guarded_by(set.id, element);
  if (plan::keeps_source(set.id, element) && keeps_servers(set.id, guarded)) return true;
  // Packets that are dropped so far would be refused.
  if (set.id == ipset::SetId::nft_services && guarded.service && lacks_servers(*guarded.service))
    return true;
  const auto from = plan::way_from(set.id, element);
  if (!from) return false;
  return lacks_way(*from) ||
         (plan::drops_outside(element) &&
          (families_without_rules_.contains(set.family) || unguarded_services_.contains(*from)));
}

bool Guards::must_keep(const plan::SetKey& set, const ipset::Element& element) const {
  const auto guarded = plan::guarded_by(set.id, element);
  // The map of virtual services still leads to the chain of its ranges.
  if (set.id == ipset::SetId::nft_source_ranges && guarded.service &&
      unguarded_services_.contains(*guarded.service))
    return true;
  if (plan::masquerades(set.id, element) && keeps_servers(set.id, guarded)) return true;
  if (const auto from = plan::way_from(set.id, element)) {
    if (lacks_servers(*from)) return true;
    if (!plan::drops_outside(element) && unguarded_services_.contains(*from)) return true;
  }
  const auto& [service, address, port] = guarded;
  return (service &&
          (kept_services_.contains(*service) || kept_addresses_.contains(service->address))) ||
         (address &&
          (has_any_at(kept_services_, *address) || kept_addresses_.contains(*address))) ||
         (port && kept_ports_.contains(*port));
}

bool Guards::must_keep_rules(netlink::Family family) const {
  const auto is_of = [&](const netlink::IpAddress& address) { return address.family() == family; };
  return families_with_kept_elements_.contains(family) ||
         std::ranges::any_of(kept_addresses_, is_of) ||
         std::ranges::any_of(kept_services_, [&](const auto& key) { return is_of(key.address); }) ||
         (transaction_ != nullptr &&
          std::ranges::any_of(transaction_->old_ways, [&](const auto& old) {
            return is_of(old.first.address) && lacks_way(old.first);
          }));
}

}  // namespace ipvsproxier::sync
