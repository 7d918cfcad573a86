#include "proxier/plan/diff.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "proxier/plan/guarded.h"
#include "proxier/plan/in_cluster.h"
#include "proxier/plan/ownership.h"
#include "proxier/plan/rule_changes.h"

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

// Whether a virtual service that is not desired stays until its connections have ended. If its real
// servers could not be read, it may have some.
bool lingers(const DesiredState& desired, const ActualService& leaving) {
  return desired.drains_services && leaving.service.key.protocol == Protocol::tcp &&
         is_ours(desired, leaving.service.key) && (!leaving.servers || !leaving.servers->empty());
}

// With more real servers than this, the scheduler is set after them, because mh and sh rebuild
// their table at every real server (net/netfilter/ipvs/ip_vs_mh.c, ip_vs_sh.c; 6.1). The table of
// mh has at least 4,093 entries. That of sh has 256: for a few real servers, rebuilding it costs
// less than one more message (test/bench/schedulers_bench.cc).
std::size_t most_bound_at_once(std::string_view scheduler) {
  if (scheduler == "mh") return 1;
  if (scheduler == "sh") return 64;
  return std::numeric_limits<std::size_t>::max();
}

class Differ {
 public:
  Differ(const DesiredState& desired, const ActualState& actual, const Scope& scope)
      : desired_(desired), actual_(actual), scope_(scope) {}

  Transaction run() {
    for (const auto& [family, parameters] : desired_.rules)
      if (can_expose(family)) exposable_.insert(family);
    const RuleChanges rules(desired_, actual_, scope_);
    reserve_adds();
    compare_services();

    auto additions = set_changes(Change::add);
    auto local_marks = set_changes(Change::make_local);
    add("make sets", sets_to_make({&additions, &local_marks}));
    add("prepare rules", rules.prepared());
    add("add elements", std::move(additions));
    if (removes()) add("give up policy Local", set_changes(Change::end_local));
    add("add first virtual services", std::move(first_adds_));
    add("add first addresses", address_adds(true));
    add("add virtual services", std::move(adds_));
    add("add addresses", address_adds(false));
    add("edit", std::move(edits_));
    add("let in", set_changes(Change::let_in));
    if (!desired_.complete) return std::move(transaction_);
    if (actual_.services) add("remove ways", set_changes(Change::keep_here));
    add("remove addresses", address_removals());
    add("remove virtual services", std::move(removals_));
    add("begin policy Local", std::move(local_marks));
    // Elements may guard an unknown virtual service.
    if (!actual_.services) return std::move(transaction_);
    add("remove elements", set_changes(Change::remove));
    add("settle rules", rules.settled());
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
  std::vector<ipset::SetSpec> sets_to_make(
      std::initializer_list<const std::vector<SetChange>*> additions) const {
    std::map<SetKey, std::size_t> more;
    for (const auto* changes : additions)
      for (const auto& change : *changes) more[change.set] += change.ops.size();
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
    if (!desired_.sets_grow) return elements <= ipset::kSetCapacity ? ipset::kSetCapacity : now;
    const auto needed = ipset::capacity_for(elements);
    // A set that shrinks a little keeps its size: it may grow again.
    return now > needed && elements > needed / 2 ? now : needed;
  }

  // `let_in`: additions that must not come before the real servers of their virtual services.
  // `make_local`: those by which clients keep their source addresses (is_local_mark()).
  // `keep_here`: removals that must not come after the virtual services to which they send packets.
  // `end_local`: of what `make_local` adds.
  enum class Change : std::uint8_t { add, let_in, make_local, end_local, keep_here, remove };

  static bool adds(Change kind) { return kind <= Change::make_local; }
  bool removes() const { return desired_.complete && actual_.services; }

  // When the element is added or removed.
  Change kind_of(SetKey key, const Element& element, bool adding) const {
    if (adding && (lets_in(actual_elements(key), element) || waits_for_goal(key, element)))
      return Change::let_in;
    if (removes() && is_local_mark(key, element, adding))
      return adding ? Change::make_local : Change::end_local;
    if (adding) return Change::add;
    return ends_way(key, element) ? Change::keep_here : Change::remove;
  }

  std::vector<SetChange> set_changes(Change kind) {
    const bool adding = adds(kind);
    std::vector<SetChange> changes;
    for (auto id : ipset::sets_of(desired_.packet_filter))
      for (auto family : netlink::kFamilies) {
        const SetKey key{family, id};
        const auto wanted = desired_.sets.find(key);
        const auto scope = scope_.elements.find(key);
        if (wanted == desired_.sets.end() || scope == scope_.elements.end() ||
            !actual_.sets.contains(key))
          continue;
        // It guards bound addresses: keep it while these are unknown.
        if (!adding && id == vip_set() && !actual_.addresses) continue;
        const auto& has = actual_elements(key);
        // If not, an element could make a foreign virtual service look like ours.
        const bool all_known =
            desired_.owns_all || (actual_.services && exposable_.contains(family));
        SetChange change{key, {}};
        for (const auto& element : scope->second) {
          const bool want = wanted->second.contains(element);
          if (want != adding || has.contains(element) == adding) continue;
          if (kind_of(key, element, adding) != kind) continue;
          if (adding && !all_known && !belongs_to_ours(key, element, desired_, actual_)) continue;
          if (!adding && (refuses_for_lingering(id, element) || marks_lingering(key, element) ||
                          is_leftover(key, element) || is_replaced(wanted->second, element)))
            continue;
          change.ops.push_back(ElementOp{adding, element});
        }
        if (!change.ops.empty()) changes.push_back(std::move(change));
      }
    if (!adding) std::reverse(changes.begin(), changes.end());
    return changes;
  }

  // The virtual service whose clients the element has to do with: in-cluster clients are sent on
  // from it, or they alone are let in.
  static std::optional<netlink::VirtualServiceKey> way_from(SetKey set, const Element& element) {
    if (set.id != SetId::in_cluster && set.id != SetId::in_cluster_only &&
        set.id != SetId::nft_in_cluster)
      return std::nullopt;
    return guarded_by(set.id, element).service;
  }

  // Whether the element is of the way from a virtual service that stays, where the way ends: to
  // what may go next.
  bool ends_way(SetKey set, const Element& element) const {
    const auto from = way_from(set, element);
    return from && desired_.services.contains(*from);
  }

  // Whether the element makes a virtual service that stays one of policy Local, or no longer. From
  // real servers of other nodes no answer comes back to a client that keeps its source address: it
  // does so when they have left, and no longer before they come.
  bool is_local_mark(SetKey key, const Element& element, bool adding) const {
    if (const auto all = set_beside(key.id)) {
      if (adding) return actual_elements({key.family, *all}).contains(element);
      const auto wanted = desired_.sets.find({key.family, *all});
      return wanted != desired_.sets.end() && wanted->second.contains(element);
    }
    return adding && becomes_local(actual_elements(key), element);
  }

  SetId vip_set() const { return ipset::vip_set(desired_.packet_filter); }

  // Whether the element sends in-cluster clients of a virtual service that is there to one that is
  // yet to come.
  bool waits_for_goal(SetKey set, const Element& element) const {
    const auto from = way_from(set, element);
    if (!from || !actual_.services || !actual_.services->contains(*from)) return false;
    const auto goal = in_cluster_way_of(desired_, *from);
    return goal && !actual_.services->contains(*goal);
  }

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
    if (!desired_.drains_services || desired_.owns_all || !actual_.services) return false;
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
    if (!desired_.drains_services || !actual_.services) return false;
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
      if (planned == desired_.services.end()) {
        if (actual != actual_.services->end() && is_ours(desired_, key))
          release_service(actual->second);
      } else if (actual == actual_.services->end()) {
        add_service(planned->second);
      } else {
        if (actual->second.service != planned->second.service)
          edits_.emplace_back(netlink::EditService{planned->second.service});
        if (actual->second.servers) compare_servers(planned->second, *actual->second.servers);
      }
    }
  }

  void add_service(const PlannedService& planned) {
    if (!exposable_.contains(planned.service.key.address.family())) return;
    auto& ops = planned.first ? first_adds_ : adds_;
    auto service = planned.service;
    const bool binds_late = planned.servers.size() > most_bound_at_once(service.scheduler.view());
    if (binds_late) service.scheduler = netlink::kNoScheduler;
    ops.emplace_back(netlink::AddService{service, desired_.owns_all});
    for (std::size_t i = 0; i < planned.servers.size(); ++i)
      ops.emplace_back(netlink::AddServer{planned.service.key, planned.server(i)});
    if (binds_late) ops.emplace_back(netlink::EditService{planned.service});
  }

  void compare_servers(const PlannedService& planned, const RealServers& has) {
    const auto& service = planned.service.key;
    auto& adds = planned.first ? first_adds_ : adds_;
    auto it = has.begin();
    const auto release_before = [&](const netlink::RealServerKey* end) {
      for (; it != has.end() && (end == nullptr || it->key < *end); ++it)
        if (desired_.complete && !desired_.leftovers.servers.contains({service, it->key}))
          release_server(service, *it);
    };
    for (std::size_t i = 0; i < planned.servers.size(); ++i) {
      const auto server = planned.server(i);
      release_before(&server.key);
      if (it == has.end() || it->key != server.key)
        adds.emplace_back(netlink::AddServer{service, server});
      else if (*it++ != server)
        edits_.emplace_back(netlink::EditServer{service, server});
    }
    release_before(nullptr);
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
    if (service.protocol != Protocol::tcp) {
      removals_.emplace_back(netlink::DeleteServer{service, server.key});
    } else if (server.weight != 0) {
      auto drained = server;
      drained.weight = 0;
      edits_.emplace_back(netlink::EditServer{service, drained});
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
  std::vector<IpvsOp> first_adds_, adds_, edits_, removals_;
  std::optional<Rooms> rooms_;
  std::optional<std::set<std::pair<SetKey, Element>>> lingering_marks_;
  Transaction transaction_;
};

}  // namespace

Transaction diff(const DesiredState& desired, const ActualState& actual, const Scope& scope) {
  return Differ(desired, actual, scope).run();
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
