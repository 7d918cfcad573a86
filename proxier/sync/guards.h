#pragma once

// Guards: what a transaction has not been able to do so far, and what must be held back for that
// reason. Nothing is shown to clients without the set elements and rules that filter or masquerade
// it, and these stay as long as the entry that they guard. A value: Applier notes each outcome and
// asks before each operation. Sync thread only.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "ipset/sets/set_catalog.h"
#include "ipset/sets/set_types.h"
#include "netlink/ipvs/ipvs_types.h"
#include "netlink/result.h"
#include "proxier/plan/bindings.h"
#include "proxier/plan/guarded.h"
#include "proxier/plan/transaction.h"
#include "proxier/sync/refusal.h"

namespace ipvsproxier::sync {

class Guards {
 public:
  Guards() = default;
  // Of this transaction, which must outlive this.
  explicit Guards(const plan::Transaction& transaction) : transaction_(&transaction) {}

  // The cause for which the operation must be held back now; nullopt: it may run.
  // - A virtual service or address waits for its set elements and its family's rules, an address
  //   also for one of its virtual services.
  // - A real server waits for its virtual service, and for masquerading that it may need.
  // - A virtual service or real server waits while its namespace has no room (sync/trash.h).
  // - A real server that in-cluster clients are to reach by another way stays until that is there.
  // - A virtual service to which rules still send them stays.
  // - An address stays in its place until it is in its new one.
  std::optional<Cause> must_hold(const netlink::IpvsOp& op) const;
  std::optional<Cause> must_hold(const plan::BindingOp& op) const;
  // Whether the namespace of the virtual service has no room.
  bool has_no_room(const netlink::VirtualServiceKey& service) const;
  // Elements and rules stay while a virtual service or address that they guard could not be
  // removed; one by which packets are masqueraded, while a real server that needs it has not left;
  // a way of in-cluster clients, while all others are dropped.
  bool must_keep(const plan::SetKey& set, const ipset::Element& element) const;
  // An element that drops what is not sent on waits for the way; one by which packets keep their
  // source, for the leave of the real servers that need another.
  bool must_hold(const plan::SetKey& set, const ipset::Element& element) const;
  // Nor are rules turned to where nothing is.
  bool must_keep_rules(netlink::Family family) const;
  // The set could not be made: it holds no elements.
  bool lacks_set(const std::string& name) const { return failed_sets_.contains(name); }

  // Outcomes.
  void note_missing_set(const std::string& name) { failed_sets_.insert(name); }
  void note_failed_rules(netlink::Family family);
  // The virtual service's own rule, or an element, could not be added, or was not tried.
  void note_unguarded(const netlink::VirtualServiceKey& service, Cause cause);
  void note_unguarded(ipset::SetId set, const ipset::Element& element, Cause cause);
  // An element could not be removed.
  void note_stuck(ipset::SetId set, const ipset::Element& element, Cause cause);
  // The kernel's answer.
  void note(const netlink::IpvsOp& op, const netlink::Status& status);
  void note(const plan::BindingOp& op, const netlink::Status& status);
  // The operation was held back.
  void note_held(const plan::SetKey& set, const ipset::ElementOp& op);
  void note_held(const netlink::IpvsOp& op, Cause cause);
  void note_held(const plan::BindingOp& op, Cause cause);

  // Virtual services that were added in this transaction and for whose scheduler the kernel has no
  // module: they must be removed again. Each is told once.
  std::set<netlink::VirtualServiceKey> take_useless_services();

 private:
  // Entries that are missing, with the cause. If both an object and the node are the cause, the
  // node counts.
  template <typename Key>
  using Causes = std::map<Key, Cause>;
  using PortOfProtocol = std::pair<netlink::Protocol, std::uint16_t>;

  // nullopt: the virtual service is of no node port.
  std::optional<PortOfProtocol> node_port_of(const netlink::VirtualServiceKey& service) const;
  std::optional<Cause> must_hide(const netlink::VirtualServiceKey& service) const;
  std::optional<Cause> must_stay(const netlink::RealServerKey& server,
                                 const netlink::VirtualServiceKey& service) const;
  const netlink::VirtualServiceKey* way_of(const netlink::VirtualServiceKey& from) const;
  bool lacks_servers(const netlink::VirtualServiceKey& service) const;
  void keep_old_way(ipset::SetId set, const ipset::Element& element);
  void note_lacks(const netlink::AddServer& add, Cause cause);
  void note_keeps_servers(const netlink::VirtualServiceKey& service);
  void note_kept(const netlink::VirtualServiceKey& service);
  bool lacks_way(const netlink::VirtualServiceKey& from) const;
  bool has_old_way(const netlink::IpAddress& address) const;
  bool keeps_servers(ipset::SetId set, const plan::Guarded& guarded) const;
  void note_unmasqueraded(ipset::SetId set, const ipset::Element& element, Cause cause);
  std::optional<Cause> is_unmasqueraded(const netlink::VirtualServiceKey& service) const;

  const plan::Transaction* transaction_ = nullptr;
  std::set<std::string> failed_sets_;
  std::set<netlink::Family> families_without_rules_;
  // Entries that must stay hidden because elements or rules that guard them are missing.
  Causes<netlink::IpAddress> unguarded_addresses_;
  Causes<netlink::VirtualServiceKey> unguarded_services_;
  Causes<PortOfProtocol> unguarded_node_ports_;
  Causes<netlink::VirtualServiceKey> failed_services_;
  Causes<std::pair<netlink::VirtualServiceKey, netlink::RealServerKey>> failed_servers_;
  std::set<netlink::VirtualServiceKey> lacking_services_;  // of those that the node failed
  // Packets to these keep their source, which was to end.
  Causes<netlink::VirtualServiceKey> unmasqueraded_services_;
  Causes<PortOfProtocol> unmasqueraded_node_ports_;
  // Addresses with a virtual service that was added in this transaction.
  std::set<netlink::IpAddress> addresses_with_service_;
  // Virtual services added without a scheduler that still need one.
  std::set<netlink::VirtualServiceKey> unscheduled_services_;
  std::set<netlink::VirtualServiceKey> useless_services_;
  // Real servers that were to leave get new connections there.
  std::set<netlink::VirtualServiceKey> keep_servers_;
  std::set<PortOfProtocol> ports_keep_servers_;
  // Addresses that could not be added to one of their places.
  Causes<netlink::IpAddress> unbound_addresses_;
  // To these in-cluster clients are still sent, as their way could not be changed.
  std::set<netlink::VirtualServiceKey> kept_ways_;
  std::set<netlink::Family> families_with_kept_elements_;
  // These could not be removed.
  std::set<netlink::VirtualServiceKey> kept_services_;
  std::set<std::uint16_t> kept_ports_;  // of `kept_services_`
  std::set<netlink::IpAddress> kept_addresses_;
};

}  // namespace ipvsproxier::sync
