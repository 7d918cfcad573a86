#include "proxier/plan/diff.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "proxier/plan/element_order.h"
#include "proxier/plan/guarded.h"
#include "proxier/plan/in_cluster.h"
#include "proxier/plan/ownership.h"
#include "proxier/plan/rule_changes.h"
#include "proxier/plan/wrr_steps.h"

namespace ipvsproxier::plan {

bool is_ours(const DesiredState& desired, const netlink::VirtualServiceKey& key) {
  const bool is_excluded =
      !desired.rules.contains(key.address.family()) ||
      std::any_of(desired.excluded.begin(), desired.excluded.end(),
                  [&](const auto& prefix) { return prefix.contains(key.address); });
  return !is_excluded || desired.services.contains(key);
}

namespace {

using ipset::Element;
using ipset::ElementOp;
using ipset::SetId;
using netlink::Family;
using netlink::IpvsOp;
using netlink::Protocol;

constexpr std::string_view kSettleRules = "settle rules";

// Whether a virtual service that is not desired stays until its connections have ended. If its real
// servers could not be read, it may have some.
bool lingers(const DesiredState& desired, const ActualService& leaving) {
  return desired.drain_deleted_services && drains(desired, leaving.service.key.protocol) &&
         is_ours(desired, leaving.service.key) && (!leaving.servers || !leaving.servers->empty());
}

// With more real servers than this, the scheduler is set after them, because mh and sh rebuild
// their table at every real server (net/netfilter/ipvs/ip_vs_mh.c, ip_vs_sh.c; 6.1). The table of
// mh has at least 4,093 entries. That of sh has 256: for a few real servers, rebuilding it costs
// less than one more message, as a benchmark showed that is not kept.
std::size_t most_bound_at_once(std::string_view scheduler) {
  if (scheduler == "mh") return 1;
  if (scheduler == "sh") return 64;
  return std::numeric_limits<std::size_t>::max();
}

class Differ {
 public:
  Differ(const DesiredState& desired, const ActualState& actual, const Scope& scope)
      : desired_(desired), actual_(actual), scope_(scope), order_(desired, actual) {}

  Transaction run() {
    for (const auto& [family, parameters] : desired_.rules)
      if (can_expose(family)) exposable_.insert(family);
    RuleChanges rules(desired_, actual_, scope_);
    reserve_adds();
    compare_services();
    compare_sets();
    const auto staying = staying_elements();

    add("lower weights", std::move(lowered_));
    add("make sets", sets_to_make());
    add("prepare rules", rules.prepared());
    add("add elements", take(add_now));
    add("masquerade", take(mark));
    add("add first virtual services", std::move(first_adds_));
    add("add first addresses", address_adds(true));
    add("add virtual services", std::move(adds_));
    add("add addresses", address_adds(false));
    add("edit", std::move(edits_));
    add("let in", take(let_in));
    add("convert rules", rules.converted());
    add("drop outside", take(drop));
    add("remove ways", take(keep_here));
    if (!desired_.complete) return std::move(transaction_);
    add("drain", std::move(drains_));
    add("remove addresses", address_removals());
    add("remove virtual services", std::move(removals_));
    // Elements may guard an unknown virtual service.
    if (!actual_.services) return std::move(transaction_);
    add("keep sources", take(unmark));
    add("remove elements", take(remove));
    add(kSettleRules, rules.settled(staying));
    return std::move(transaction_);
  }

 private:
  template <typename T>
  void add(std::string_view name, std::vector<T> work) {
    if (!work.empty()) transaction_.phases.push_back(Phase{name, std::move(work)});
  }

  // A VIP may be exposed only if its filters are known to be in place.
  bool can_expose(Family family) const {
    return knows_sets(family, desired_, actual_) &&
           std::ranges::all_of(ipset::tables_of(desired_.packet_filter), [&](ipset::Table table) {
             return actual_.rules.contains({family, table});
           });
  }

  const ipset::ElementSet& actual_elements(SetKey key) const {
    return plan::actual_elements(actual_, key);
  }

  // Sets that are missing, too small, much too large, or created with other options.
  std::vector<ipset::SetSpec> sets_to_make() const {
    std::map<SetKey, std::size_t> more;
    for (const auto kind : {add_now, let_in, drop, unmark})
      for (const auto& change : set_changes_[kind]) more[change.set] += change.ops.size();
    std::vector<ipset::SetSpec> specs;
    for (const auto& [key, elements] : desired_.sets) {
      const auto it = actual_.sets.find(key);
      if (it == actual_.sets.end() || (ipset::is_made_late(key.id) && elements.empty())) continue;
      // Removals come last: for a while the set holds the old and the new elements.
      const auto most = std::max(elements.size(), actual_elements(key).size() + more[key]);
      const auto capacity = capacity_of(key, most);
      if (!it->second || capacity != actual_.capacity(key))
        specs.push_back(ipset::set_spec(key.id, key.family, capacity));
    }
    return specs;
  }

  // The maxelem for a set that will hold so many elements.
  std::uint32_t capacity_of(SetKey key, std::size_t elements) const {
    const auto now = actual_.capacity(key);
    if (ipset::is_unbounded(key.id)) return now;
    if (!desired_.growing_sets) return elements <= ipset::kSetCapacity ? ipset::kSetCapacity : now;
    const auto needed = ipset::capacity_for(elements);
    // A set that shrinks a little keeps its size: it may grow again.
    return now > needed && elements > needed / 2 ? now : needed;
  }

  void compare_sets() {
    for (auto id : ipset::sets_of(desired_.packet_filter))
      for (auto family : netlink::kFamilies) compare_set({family, id});
    for (const auto kind : {mark, keep_here, remove}) std::ranges::reverse(set_changes_[kind]);
  }

  void compare_set(SetKey key) {
    const auto wanted = desired_.sets.find(key);
    const auto scope = scope_.elements.find(key);
    if (wanted == desired_.sets.end() || scope == scope_.elements.end() ||
        !actual_.sets.contains(key))
      return;
    const auto& has = actual_elements(key);
    // It guards bound addresses: keep it while these are unknown.
    const bool may_remove = key.id != vip_set() || actual_.addresses;
    // If not, an element could make a foreign virtual service look like ours.
    const bool all_known =
        !desired_.keep_foreign_services || (actual_.services && exposable_.contains(key.family));
    std::array<SetChange, kElementTimes> changes;
    for (const auto& element : scope->second) {
      const bool adding = wanted->second.contains(element);
      if (has.contains(element) == adding) continue;
      if (adding ? !all_known && !belongs_to_ours(key, element, desired_, actual_)
                 : !may_remove || stays(key, element, wanted->second))
        continue;
      const auto when = adding ? order_.addition_of(key, element) : order_.removal_of(key, element);
      changes[when].ops.push_back(ElementOp{adding, element});
      note_way(has, adding, key.id, element);
      if (const auto first = restricted_first(has, element); first && adding && when != add_now)
        changes[add_now].ops.push_back(ElementOp{true, *first});
    }
    for (std::size_t kind = 0; kind < kElementTimes; ++kind) {
      if (changes[kind].ops.empty()) continue;
      changes[kind].set = key;
      set_changes_[kind].push_back(std::move(changes[kind]));
    }
  }

  // Whether an element that is not wanted is left in the kernel.
  bool stays(SetKey key, const Element& element, const ipset::ElementSet& wanted) {
    return refuses_for_lingering(key.id, element) || marks_lingering(key, element) ||
           is_leftover(key, element) || is_replaced(wanted, element);
  }

  void note_way(const netlink::VirtualServiceKey& from) {
    if (const auto way = in_cluster_way_of(desired_, from)) transaction_.ways.emplace(from, *way);
  }
  void note_way(const ipset::ElementSet& has, bool adding, SetId set, const Element& element) {
    const auto from = way_from(set, element);
    if (!from) return;
    if (adding) note_way(*from);
    if (set != SetId::nft_in_cluster) return;
    const auto replaced = adding ? has.replaced_by(element) : std::vector{element};
    for (const auto& old : replaced) {
      const auto& to = std::get<ipset::DestinationElement>(old);
      transaction_.old_ways.emplace(*from,
                                    netlink::VirtualServiceKey{to.to, to.protocol, to.to_port});
    }
  }

  // Elements that nobody asks for and that wait for real servers, also those that no scope names.
  std::map<SetKey, ipset::ElementSet> staying_elements() const {
    std::map<SetKey, ipset::ElementSet> staying;
    for (const auto& change : set_changes_[wait])
      for (const auto& op : change.ops)
        if (!op.add) staying[change.set].insert(op.element);
    if (scope_.rules.empty() || !actual_.services) return staying;
    if (desired_.leftovers.servers.empty() &&
        std::ranges::all_of(*actual_.services,
                            [](const auto& one) { return one.second.servers.has_value(); }))
      return staying;
    std::map<SetKey, ipset::ElementSet> removed;
    for (const auto& kind : set_changes_)
      for (const auto& change : kind)
        for (const auto& op : change.ops)
          if (!op.add) removed[change.set].insert(op.element);
    for (const auto& [key, wanted] : desired_.sets) {
      if (!may_wait(key.id)) continue;
      for (const auto& element : actual_elements(key))
        if (!wanted.contains(element) && !removed[key].contains(element))
          staying[key].insert(element);
    }
    return staying;
  }

  std::vector<SetChange> take(ElementTime kind) { return std::move(set_changes_[kind]); }

  SetId vip_set() const { return ipset::vip_set(desired_.packet_filter); }

  // Whether adding a desired element has removed it.
  static bool is_replaced(const ipset::ElementSet& wanted, const Element& element) {
    return !wanted.replaced_by(element).empty();
  }

  bool is_leftover(SetKey set, const Element& element) const {
    const auto it = desired_.leftovers.elements.find(set);
    return it != desired_.leftovers.elements.end() && it->second.contains(element);
  }

  // Whether the element refuses new connections to an address that only finishes its connections.
  bool refuses_for_lingering(SetId id, const Element& element) const {
    return id == vip_set() && has_lingering(std::get<ipset::IpElement>(element).ip);
  }

  // Whether a virtual service that only finishes its connections is ours by this element alone
  // (ownership.h): the process that removes it may be another one.
  bool marks_lingering(SetKey set, const Element& element) {
    if (!desired_.drain_deleted_services || !desired_.keep_foreign_services || !actual_.services)
      return false;
    if (!lingering_marks_) {
      lingering_marks_.emplace();
      for (const auto& [key, service] : *actual_.services)
        if (!desired_.services.contains(key) && lingers(desired_, service) &&
            !(actual_.addresses && actual_.addresses->contains(key.address)))
          for (auto& [id, own] : elements_of(key))
            lingering_marks_->insert({{key.address.family(), id}, own});
    }
    return lingering_marks_->contains({set, element});
  }

  // Whether a virtual service of this address only finishes its connections.
  bool has_lingering(const netlink::IpAddress& address) const {
    if (!desired_.drain_deleted_services || !actual_.services) return false;
    for (auto it = actual_.services->lower_bound({address});
         it != actual_.services->end() && it->first.address == address; ++it)
      if (!desired_.services.contains(it->first) && lingers(desired_, it->second)) return true;
    return false;
  }

  // In an empty kernel everything is added: reserve, because a growing vector takes up to twice the
  // memory, and more while it is copied.
  void reserve_adds() {
    if (!actual_.services || !actual_.services->empty()) return;
    std::size_t most = 0;
    for (const auto& key : scope_.services)
      if (const auto it = desired_.services.find(key); it != desired_.services.end())
        most += 1 + it->second.servers.size();
    adds_.reserve(most);
  }

  void compare_services() {
    if (!actual_.services) return;
    for (const auto& key : scope_.services) {
      const auto planned = desired_.services.find(key);
      const auto actual = actual_.services->find(key);
      if (planned != desired_.services.end() && is_of_node_port(planned->second.facet))
        transaction_.node_addresses.insert(key.address);
      if (planned == desired_.services.end()) {
        if (actual != actual_.services->end() && is_ours(desired_, key))
          release_service(actual->second);
      } else if (actual == actual_.services->end()) {
        add_service(planned->second);
      } else {
        if (actual->second.service != planned->second.service)
          edits_.emplace_back(netlink::EditService{planned->second.service});
        if (actual->second.servers)
          compare_servers(planned->second, actual->second.service, *actual->second.servers);
        else if (planned->second.facet != Facet::cluster_ip)
          order_.note_unread(planned->second);
      }
    }
  }

  void add_service(const PlannedService& planned) {
    if (!exposable_.contains(planned.service.key.address.family())) return;
    auto& ops = planned.first ? first_adds_ : adds_;
    auto service = planned.service;
    const bool binds_late = planned.servers.size() > most_bound_at_once(service.scheduler.view());
    if (binds_late) service.scheduler = netlink::kNoScheduler;
    ops.emplace_back(netlink::AddService{service, !desired_.keep_foreign_services});
    for (std::size_t i = 0; i < planned.servers.size(); ++i)
      ops.emplace_back(netlink::AddServer{planned.service.key, planned.server(i)});
    if (binds_late) ops.emplace_back(netlink::EditService{planned.service});
  }

  void compare_servers(const PlannedService& planned, const netlink::VirtualService& in_kernel,
                       const RealServers& has) {
    const auto& service = planned.service.key;
    auto& adds = planned.first ? first_adds_ : adds_;
    const auto for_now = weights_for_now(planned, in_kernel, has);
    if (for_now && for_now->differ_from(planned)) transaction_.held_weights.insert(service);
    auto it = has.begin();
    const auto release_before = [&](const netlink::RealServerKey* end) {
      for (; it != has.end() && (end == nullptr || it->key < *end); ++it) {
        const bool stays = !desired_.complete || order_.is_way_unread(service) ||
                           desired_.leftovers.servers.contains({service, it->key});
        if (order_.note_leaving(planned, *it, stays)) {
          transaction_.sent_on.insert({service, it->key});
          note_way(service);
        }
        if (for_now && it->weight > for_now->largest) lower(service, *it, for_now->largest);
        if (!stays) release_server(service, *it);
      }
    };
    for (std::size_t i = 0; i < planned.servers.size(); ++i) {
      auto server = planned.server(i);
      if (for_now) server.weight = for_now->weights[i];
      release_before(&server.key);
      if (it == has.end() || it->key != server.key) {
        adds.emplace_back(netlink::AddServer{service, server});
        continue;
      }
      const auto& old = *it++;
      if (old == server) continue;
      auto& edits = for_now && server.weight < old.weight ? lowered_ : edits_;
      edits.emplace_back(netlink::EditServer{service, server});
    }
    release_before(nullptr);
  }

  // Before others are added beside it (wrr_steps.h).
  void lower(const netlink::VirtualServiceKey& service, netlink::RealServer server,
             std::uint32_t weight) {
    server.weight = weight;
    lowered_.emplace_back(netlink::EditServer{service, server});
  }

  void release_service(const ActualService& leaving) {
    const auto& key = leaving.service.key;
    if (desired_.leftovers.services.contains(key)) return;
    if (!lingers(desired_, leaving)) {
      removals_.emplace_back(netlink::DeleteService{key});
    } else if (leaving.servers && desired_.complete) {
      for (const auto& server : *leaving.servers) release_server(key, server);
    }
  }

  void release_server(const netlink::VirtualServiceKey& service,
                      const netlink::RealServer& server) {
    if (!drains(desired_, service.protocol)) {
      removals_.emplace_back(netlink::DeleteServer{service, server.key});
    } else if (server.weight != 0) {
      auto drained = server;
      drained.weight = 0;
      drains_.emplace_back(netlink::EditServer{service, drained});
    }
  }

  // The place where the address stays: the lowest of its current places that is allowed.
  std::optional<Place> kept_place(const netlink::IpAddress& address) const {
    for (const auto place : actual_.addresses->places(address))
      if (is_one_of(place, desired_.places)) return place;
    return std::nullopt;
  }

  // Addresses of the first virtual services, or of the others.
  std::vector<BindingOp> address_adds(bool first) {
    std::vector<BindingOp> ops;
    if (!actual_.addresses || !actual_.services) return ops;
    if (!rooms_) rooms_.emplace(*actual_.addresses, desired_.places);
    std::set<netlink::IpAddress> firsts;
    for (const auto& key : scope_.services)
      if (const auto it = desired_.services.find(key);
          it != desired_.services.end() && it->second.first)
        firsts.insert(key.address);
    for (const auto& address : scope_.addresses)
      if (desired_.addresses.contains(address) && !kept_place(address) &&
          exposable_.contains(address.family()) && firsts.contains(address) == first)
        ops.push_back(BindingOp{true, {address, rooms_->next()}});
    return ops;
  }

  // Removals of undesired addresses, and of second bindings of desired ones.
  std::vector<BindingOp> address_removals() const {
    std::vector<BindingOp> ops;
    if (!actual_.addresses) return ops;
    for (const auto& address : scope_.addresses) {
      if (!desired_.rules.contains(address.family())) continue;
      const bool is_fixed = actual_.fixed_addresses.contains(address);
      std::optional<Place> kept;
      if (desired_.addresses.contains(address)) {
        kept = kept_place(address);
        if (!kept && !(actual_.services && exposable_.contains(address.family()))) continue;
      } else if (has_lingering(address) || desired_.leftovers.addresses.contains(address)) {
        continue;
      }
      for (const auto place : actual_.addresses->places(address))
        if (place != kept && (!is_fixed || place == kLocalTable))
          ops.push_back(BindingOp{false, {address, place}});
    }
    return ops;
  }

  const DesiredState& desired_;
  const ActualState& actual_;
  const Scope& scope_;
  std::set<Family> exposable_;
  std::vector<IpvsOp> lowered_, first_adds_, adds_, edits_, drains_, removals_;
  ElementOrder order_;
  std::array<std::vector<SetChange>, kElementTimes> set_changes_;
  std::optional<Rooms> rooms_;
  std::optional<std::set<std::pair<SetKey, Element>>> lingering_marks_;
  Transaction transaction_;
};

}  // namespace

Transaction diff(const DesiredState& desired, const ActualState& actual, const Scope& scope) {
  return Differ(desired, actual, scope).run();
}

bool keep_old_rules(Transaction& transaction) {
  const auto settles = [](const Phase& phase) { return phase.name == kSettleRules; };
  return std::erase_if(transaction.phases, settles) > 0;
}

Transaction diff(const DesiredState& desired, const ActualState& actual) {
  return diff(desired, actual, whole(desired, actual));
}

SortedVector<netlink::RealServerKey> draining(const DesiredState& desired,
                                              const ActualState& actual,
                                              const netlink::VirtualServiceKey& service) {
  if (!desired.complete || !actual.services) return {};
  const auto it = actual.services->find(service);
  if (it == actual.services->end() || !it->second.servers) return {};
  const auto planned = desired.services.find(service);
  const bool stays = desired.leftovers.services.contains(service);
  if (planned == desired.services.end() && (stays || !lingers(desired, it->second))) return {};
  const auto is_wanted = [&](const netlink::RealServerKey& key) {
    return planned != desired.services.end() && planned->second.servers.contains(key);
  };
  std::vector<netlink::RealServerKey> result;
  for (const auto& server : *it->second.servers)
    if (server.weight == 0 && !is_wanted(server.key)) result.push_back(server.key);
  return SortedVector(std::move(result));
}

Scope scope_of(const netlink::VirtualServiceKey& leaving) {
  const auto& address = leaving.address;
  const ipset::ElementSet vip{ipset::IpElement{address}};
  Scope scope{.services = {leaving},
              .addresses = {address},
              .elements = {{{address.family(), SetId::ipvs_ips}, vip},
                           {{address.family(), SetId::nft_vips}, vip}},
              .rules = {}};
  for (const auto& [set, element] : elements_of(leaving))
    scope.elements[{address.family(), set}].insert(element);
  return scope;
}

}  // namespace ipvsproxier::plan
