// Reconciler: the bindings of VIPs, and this node's addresses.

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "ipset/rules/localhost_rules.h"
#include "proxier/plan/node_ports.h"
#include "proxier/sync/reconciler.h"

namespace ipvsproxier::sync {

using netlink::Family;

namespace {

constexpr std::size_t kLostNamed = 20;  // addresses named in one log line

std::string names_of(const std::set<plan::Place>& places) {
  std::string names;
  for (const auto place : places) names += (names.empty() ? "" : ", ") + plan::place_name(place);
  return names;
}

}  // namespace

bool Reconciler::ensure_dummy(Pass& pass) {
  auto created = kernel_.links.ensure_dummy(plan::kDummyLink);
  if (created) {
    pass.written.links += *created ? 1 : 0;
    if (*created && has_mirror())
      logger_.warn("others removed link {}: made it again", plan::kDummyLink);
    return true;
  }
  pass.suspect = true;
  pass.failures.push_back({std::string("make link ") + plan::kDummyLink, created.error()});
  return false;
}

// If the Node names no IP at the start of the process, node ports that need one stay at the address
// where the earlier process had them.
plan::NodeInfo Reconciler::known_node(std::vector<netlink::InterfaceAddress> addresses) {
  const auto& options = settings_.options;
  node_ips_.take(cluster_.node);
  auto node = plan::node_info(settings_.node_name, cluster_.node, node_ips_, std::move(addresses));
  if (!options.node_port_primary || !options.differences.follow_node_ip) return node;
  const auto is_known = [&](Family family) { return node_ips_.knows(family); };
  if (!has_mirror() && !std::all_of(options.families.begin(), options.families.end(), is_known)) {
    // A failed listing is reported where the services are read.
    const auto left = kernel_.ipvs.list_services();
    for (const auto family : options.families) {
      if (!left || is_known(family)) continue;
      if (const auto ip = plan::left_node_port_address(*left, cluster_, node, family, options))
        node_ips_.recall(*ip);
      node.ips[family] = node_ips_.of(family);
    }
  }
  return node;
}

void Reconciler::tell_node_ips(TimePoint now) {
  const auto& options = settings_.options;
  if (!options.node_port_primary || !options.differences.follow_node_ip) return;
  std::string text;
  for (const auto family : options.families) {
    if (node_ips_.is_current(family)) continue;
    text += fmt::format("; the Node names no {} address, so its node ports ", to_string(family));
    text += node_ips_.knows(family) ? "stay at " + node_ips_.of(family).to_string()
                                    : "wait until it does";
  }
  if (text != std::exchange(told_node_ips_, text) && !text.empty())
    log_.objects().log(spdlog::level::warn, "nodePortAddresses [primary]" + text, now);
}

// nullopt: the addresses could not be listed. `anew`: what could be another without an event.
std::optional<BoundAddresses> Reconciler::refresh_node(Pass& pass, bool anew) {
  auto bound = list_bound(kernel_.links);
  if (!bound) {
    pass.suspect = true;
    pass.failures.push_back({"list this node's addresses", std::move(bound.error())});
    return std::nullopt;
  }
  refusals_.set_links(bound->addresses);
  // Our dummy links may hold ten thousand addresses, which are not needed here.
  std::vector<netlink::InterfaceAddress> others;
  std::copy_if(bound->addresses.begin(), bound->addresses.end(), std::back_inserter(others),
               [](const auto& one) { return !plan::dummy_number(one.link); });
  auto node = known_node(std::move(others));
  keep_loop(node, pass);
  untracked_.look(node, anew);
  planner_.set_node(node);
  health_.see_node(node, settings_.options);
  host_.see_node(node);
  node_touched_ = false;
  return *std::move(bound);
}

void Reconciler::keep_loop(plan::NodeInfo& node, Pass& pass) {
  auto kept = loop_.keep(kernel_, pass.dry);
  node.no_localhost = std::move(kept.lacking);
  std::move(kept.failures.begin(), kept.failures.end(), std::back_inserter(pass.failures));
  if (pass.dry) return;
  pass.written.links += kept.written.size();
  if (has_mirror()) pass.repairs += kept.written.size();
}

// Rules that lead there would let packets out by other links.
void Reconciler::leave_loop(Pass& pass) {
  if (!pass.rules_failed.empty()) return;
  const auto& rules = mirror_.state().rules;
  for (const auto family : settings_.options.families)
    for (const auto table : ipset::tables_of(settings_.options.packet_filter)) {
      const auto known = rules.find({family, table});
      if (known == rules.end() || ipset::is_about_loop(known->second)) return;
    }
  pass.written.links += loop_.leave(kernel_.links, pass.warnings);
}

// After link events, and at each reading of the kernel: reads the addresses that may have changed.
// Most events are echoes of our own writes.
plan::Scope Reconciler::repair_links(Pass& pass, bool look) {
  const auto events = std::exchange(link_events_, {});
  const auto& desired = planner_.desired();
  const bool lost_wanted =
      std::any_of(events.lost.begin(), events.lost.end(),
                  [&](const auto& address) { return desired.addresses.contains(address); });
  // A failed reading is repeated at the next reading of the kernel, which is soon.
  const bool node_changed = node_touched_ && !links_failed_;
  if (!look && !events.link_lost && !events.overrun && !events.others_changed && !node_changed &&
      !lost_wanted)
    return {};
  const bool dummy_usable = ensure_dummy(pass);
  const auto bound = refresh_node(pass, look);
  links_failed_ = !bound || !dummy_usable;
  if (!bound) return {};
  plan::ActualState found;
  if (dummy_usable) take_bindings(*bound, settings_.options.differences, found);
  return take_addresses(std::move(found), events.lost, pass);
}

// Returns the addresses whose bindings differ from the mirror.
plan::Scope Reconciler::take_addresses(plan::ActualState found,
                                       const std::set<netlink::IpAddress>& told_lost, Pass& pass) {
  const bool was_known = mirror_.state().addresses.has_value();
  look_at_all_ = look_at_all_ || (found.addresses && !was_known);
  plan::Scope scope;
  if (found.addresses && was_known) {
    scope.addresses = mirror_.bound_otherwise(found);
    if (scope.addresses.empty()) return scope;
    pass.repairs += tell_lost(scope.addresses, *found.addresses, told_lost);
  }
  pass.repairs += drift_.take(
      planner_.desired(), scope,
      [&found](plan::ActualState& state) {
        state.addresses = std::move(found.addresses);
        state.fixed_addresses = std::move(found.fixed_addresses);
      },
      mirror_);
  drift_.end();
  return scope;
}

// Names the lost addresses of link events in one line. Returns their number.
std::size_t Reconciler::tell_lost(const plan::AddressSet& differing, const plan::Bindings& found,
                                  const std::set<netlink::IpAddress>& told_lost) {
  std::string gone;
  std::size_t count = 0;
  std::set<plan::Place> places;
  for (const auto& address : differing) {
    if (found.contains(address) || !told_lost.contains(address) ||
        !planner_.desired().addresses.contains(address))
      continue;
    for (const auto place : mirror_.state().addresses->places(address)) {
      places.insert(place);
      mirror_.take([&](plan::ActualState& state) { state.addresses->erase({address, place}); });
    }
    if (count++ < kLostNamed) gone += (gone.empty() ? "" : ", ") + address.to_string();
  }
  if (count > kLostNamed) gone += fmt::format(" and {} more", count - kLostNamed);
  if (count > 0)
    logger_.warn("others removed address {} from {}: adding it again", gone, names_of(places));
  return count;
}

}  // namespace ipvsproxier::sync
