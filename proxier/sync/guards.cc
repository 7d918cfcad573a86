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
}

std::optional<Cause> Guards::must_hide(const netlink::VirtualServiceKey& service) const {
  if (families_without_rules_.contains(service.address.family())) return Cause::node;
  std::optional<Cause> result;
  for (const auto cause :
       {find_cause(unguarded_addresses_, service.address), find_cause(unguarded_services_, service),
        find_cause(unguarded_node_ports_, {service.protocol, service.port})})
    if (cause && result != Cause::node) result = cause;
  return result;
}

std::optional<Cause> Guards::must_hold(const IpvsOp& op) const {
  if (const auto* service = std::get_if<AddService>(&op)) return must_hide(service->service.key);
  if (const auto* server = std::get_if<AddServer>(&op))
    return find_cause(failed_services_, server->service);
  // An edit would add the service that must not be added.
  if (const auto* edit = std::get_if<EditService>(&op))
    return find_cause(failed_services_, edit->service.key);
  return std::nullopt;
}

void Guards::note(const IpvsOp& op, const netlink::Status& status) {
  if (const auto* add = std::get_if<AddService>(&op)) {
    const auto& key = add->service.key;
    if (!status)
      blame(failed_services_, key, cause_of(true, status.error()));
    else if (add->service.scheduler == netlink::kNoScheduler)
      unscheduled_services_.insert(key);
    else
      addresses_with_service_.insert(key.address);
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
    if (!status) kept_services_.insert(removal->key);
  }
}

void Guards::note_held(const IpvsOp& op, Cause cause) {
  if (const auto* add = std::get_if<AddService>(&op))
    blame(failed_services_, add->service.key, cause);
}

std::set<netlink::VirtualServiceKey> Guards::take_useless_services() {
  return std::exchange(useless_services_, {});
}

std::optional<Cause> Guards::must_hold(const plan::BindingOp& op) const {
  const auto& address = op.binding.address;
  if (!op.add) return find_cause(unbound_addresses_, address);
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
  if (op.add) blame(unbound_addresses_, op.binding.address, cause);
}

bool Guards::must_hold(const plan::SetKey& set) const {
  return set.id == ipset::SetId::in_cluster_only && families_without_rules_.contains(set.family);
}

bool Guards::must_keep(const plan::SetKey& set, const ipset::Element& element) const {
  const auto guarded = plan::guarded_by(set.id, element);
  // Without its last range a virtual service is open to all; its new ones could not be added.
  if (set.id == ipset::SetId::nft_source_ranges && guarded.service &&
      unguarded_services_.contains(*guarded.service))
    return true;
  if (kept_services_.empty() && kept_addresses_.empty()) return false;
  const auto is_guarded = [&](const netlink::VirtualServiceKey& key) {
    return guarded.service == key || guarded.address == key.address || guarded.port == key.port;
  };
  return std::any_of(kept_services_.begin(), kept_services_.end(), is_guarded) ||
         (guarded.address && kept_addresses_.contains(*guarded.address)) ||
         (guarded.service && kept_addresses_.contains(guarded.service->address));
}

bool Guards::must_keep_rules(netlink::Family family) const {
  return std::any_of(kept_addresses_.begin(), kept_addresses_.end(),
                     [&](const auto& address) { return address.family() == family; }) ||
         std::any_of(kept_services_.begin(), kept_services_.end(),
                     [&](const auto& key) { return key.address.family() == family; });
}

}  // namespace ipvsproxier::sync
