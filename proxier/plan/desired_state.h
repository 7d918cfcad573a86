#pragma once

// DesiredState: what the kernel should hold, as a value. ActualState (actual_state.h) has the same
// shape. Ordered, so that differences are sorted merges and its text is stable. Any thread.

#include <compare>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "ipset/element_set.h"
#include "ipset/rule_catalog.h"
#include "ipset/set_catalog.h"
#include "ipset/sorted_chunks.h"
#include "netlink/ipvs_types.h"
#include "proxier/model/sorted_vector.h"
#include "proxier/plan/bindings.h"

namespace ipvsproxier::plan {

using model::SortedVector;

// How a virtual service exposes a service port.
enum class Facet : std::uint8_t { cluster_ip, external_ip, load_balancer, node_port };

std::string_view to_string(Facet facet);

struct PlannedService {
  netlink::VirtualService service;
  Facet facet = Facet::cluster_ip;
  bool first = false;  // programmed before the others: the API server and the cluster DNS
  SortedVector<netlink::RealServerKey> servers;  // each of weight 1, masqueraded

  friend auto operator<=>(const PlannedService&, const PlannedService&) = default;
};

struct SetKey {
  netlink::Family family = netlink::Family::ipv4;
  ipset::SetId id = ipset::SetId::loop_back;

  friend auto operator<=>(const SetKey&, const SetKey&) = default;
};

// What the kernel held before anything was planned, nobody asks for, and an object that cannot be
// read may be the reason for.
struct Leftovers {
  std::set<netlink::VirtualServiceKey> services;  // with their real servers
  std::set<std::pair<netlink::VirtualServiceKey, netlink::RealServerKey>> servers;  // of others
  std::set<netlink::IpAddress> addresses;
  std::map<SetKey, ipset::ElementSet> elements;

  bool empty() const {
    return services.empty() && servers.empty() && addresses.empty() && elements.empty();
  }
  friend bool operator==(const Leftovers&, const Leftovers&) = default;
};

struct DesiredState {
  std::map<netlink::VirtualServiceKey, PlannedService> services;
  AddressSet addresses;                                    // bound on this node
  std::map<SetKey, ipset::ElementSet> sets;                // every set of every planned family
  std::map<netlink::Family, ipset::RuleParameters> rules;  // one entry a planned family
  // Planned from everything there is: what is not here is to be removed. Otherwise nothing is.
  bool complete = true;
  Leftovers leftovers;                // not removed either
  bool sets_grow = true;              // beyond kube-proxy's maxelem
  Places places = Places::all_links;  // where `addresses` are bound
  // TCP connections of a virtual service that is not here may finish.
  bool drains_services = false;
  std::vector<netlink::IpPrefix> foreign;  // virtual services in these are not ours (excludeCIDRs)

  friend bool operator==(const DesiredState&, const DesiredState&) = default;
};

// One line an entry, sorted: virtual services with their servers, addresses, elements, rules.
std::string to_text(const DesiredState& state);

}  // namespace ipvsproxier::plan
