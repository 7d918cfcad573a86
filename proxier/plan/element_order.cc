#include "proxier/plan/element_order.h"

#include <algorithm>
#include <variant>

#include "proxier/plan/in_cluster.h"
#include "proxier/plan/rule_changes.h"

namespace ipvsproxier::plan {

using ipset::Element;
using ipset::ServiceElement;
using ipset::ServiceVerdict;
using ipset::SetId;

namespace {

std::optional<ServiceVerdict> verdict_of(const Element& element) {
  const auto* service = std::get_if<ServiceElement>(&element);
  return service == nullptr ? std::nullopt : std::optional(service->verdict);
}

// That of the element that this one replaces.
std::optional<ServiceVerdict> verdict_before(const ipset::ElementSet& has, const Element& element) {
  if (!verdict_of(element)) return std::nullopt;
  const auto replaced = has.replaced_by(element);
  return replaced.empty() ? std::nullopt : verdict_of(replaced.front());
}

}  // namespace

bool may_wait(SetId set) {
  return set == SetId::nft_in_cluster || set == SetId::external_ip;
}

std::optional<Element> restricted_first(const ipset::ElementSet& has, const Element& element) {
  const auto* wanted = std::get_if<ServiceElement>(&element);
  if (wanted == nullptr || !wanted->restricted) return std::nullopt;
  const auto replaced = has.replaced_by(element);
  if (replaced.empty()) return std::nullopt;
  auto now = std::get<ServiceElement>(replaced.front());
  if (now.restricted || now.verdict == ServiceVerdict::foreign) return std::nullopt;
  now.restricted = true;
  return now;
}

bool ElementOrder::note_leaving(const PlannedService& planned, const netlink::RealServer& server,
                                bool stays) {
  const auto& key = planned.service.key;
  if (planned.facet == Facet::cluster_ip || (drains(desired_, key.protocol) && server.weight == 0))
    return false;
  note(planned, {stays && server.weight != 0, false});
  const auto way = in_cluster_way_of(desired_, key);
  const auto goal = way ? desired_.services.find(*way) : desired_.services.end();
  return goal != desired_.services.end() && goal->second.servers.contains(server.key);
}

void ElementOrder::note(const PlannedService& planned, Leaving leaving) {
  const auto& key = planned.service.key;
  const auto add = [&](Leaving& all) {
    all = {all.stays || leaving.stays, all.unread || leaving.unread};
  };
  add(leaving_[key]);
  if (is_of_node_port(planned.facet)) add(leaving_node_ports_[{key.protocol, key.port}]);
}

bool ElementOrder::is_way_unread(const netlink::VirtualServiceKey& service) const {
  const auto way = in_cluster_way_of(desired_, service);
  if (!way) return false;
  const auto family = service.address.family();
  if (!actual_.sets.contains({family, SetId::nft_in_cluster}) || !actual_.services) return true;
  const auto goal = actual_.services->find(*way);
  return goal != actual_.services->end() && !goal->second.servers;
}

bool ElementOrder::is_way_whole(const netlink::VirtualServiceKey& service) const {
  const auto way = in_cluster_way_of(desired_, service);
  const auto goal = way ? desired_.services.find(*way) : desired_.services.end();
  if (goal == desired_.services.end() || !actual_.services || !actual_.addresses) return false;
  const auto actual = actual_.services->find(*way);
  if (actual == actual_.services->end() || !actual->second.servers) return false;
  return actual_.addresses->contains(way->address) &&
         std::all_of(goal->second.servers.begin(), goal->second.servers.end(),
                     [&](const auto& server) { return actual->second.servers->contains(server); });
}

ElementTime ElementOrder::addition_of(SetKey set, const Element& element) const {
  const auto& has = actual_elements(actual_, set);
  const auto before = verdict_before(has, element);
  if (before == verdict_of(element) && before) return add_now;  // but for its source ranges
  if (is_of_localhost(set.id)) return let_in;
  if (lets_in(has, element)) {
    if (is_unread(set.id, element)) return wait;
    const auto leaving = leaving_of(set.id, element);
    return keeps_source(set.id, element) && leaving && !leaving->stays ? unmark : let_in;
  }
  if (const auto from = way_from(set.id, element)) return way_change(set.id, element, *from);
  if (!keeps_source(set.id, element)) return add_now;
  const auto leaving = leaving_of(set.id, element);
  if (!leaving) return add_now;
  // A map without an element masquerades nothing.
  const bool masquerades_now = before || !verdict_of(element);
  return !leaving->stays ? unmark : masquerades_now ? wait : add_now;
}

// Who reaches the virtual service goes on to reach it until the way is whole.
ElementTime ElementOrder::way_change(SetId set, const Element& element,
                                     const netlink::VirtualServiceKey& from) const {
  if (!actual_.services) return wait;
  if (!actual_.services->contains(from)) return add_now;
  // Another packet filter may send them on already, until ours keeps their destinations.
  if (!drops_outside(element)) return is_way_whole(from) ? add_now : let_in;
  const auto leaving = leaving_of(set, element);
  return (leaving && leaving->stays) || is_way_unread(from) ? wait : drop;
}

ElementTime ElementOrder::removal_of(SetKey set, const Element& element) const {
  const auto marking = marking_set(set.id);
  if (marking && desired_.sets.at({set.family, *marking}).contains(element)) return mark;
  if (is_of_localhost(set.id) && desired_.complete) return keep_here;
  const auto from = way_from(set.id, element);
  if (from && desired_.services.contains(*from)) {
    if (is_unread(set.id, element)) return wait;
    return drops_outside(element) ? let_in : keep_here;
  }
  if (!masquerades(set.id, element)) return remove;
  const auto leaving = leaving_of(set.id, element);
  return leaving && leaving->stays ? wait : remove;
}

// Of the virtual services that the element is about; nullopt: none leaves.
std::optional<ElementOrder::Leaving> ElementOrder::leaving_of(SetId set,
                                                              const Element& element) const {
  if (!actual_.services) return kUnread;
  const auto find = [](const auto& all, const auto& key) {
    const auto it = all.find(key);
    return it == all.end() ? std::nullopt : std::optional(it->second);
  };
  const auto guarded = guarded_by(set, element);
  if (guarded.service) return find(leaving_, *guarded.service);
  const auto protocol = protocol_of_ports(set);
  if (!protocol || !guarded.port) return std::nullopt;
  return find(leaving_node_ports_, std::pair(*protocol, *guarded.port));
}

bool ElementOrder::is_unread(SetId set, const Element& element) const {
  const auto leaving = leaving_of(set, element);
  return leaving && leaving->unread;
}

}  // namespace ipvsproxier::plan
