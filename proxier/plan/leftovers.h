#pragma once

// Finds the leftovers (desired_state.h) in a freshly read kernel state. Pure; any thread.
//
// An object that exists but was unreadable ever since our start may ask for anything. An unreadable
// Service may be the reason for every virtual service, address or element that no readable object
// asks for, except for elements of virtual services that a readable one asks for; an unreadable
// Node for those of node ports; an unreadable EndpointSlice for real servers of Services in its
// namespace, and for elements that name endpoints.

#include <functional>
#include <set>
#include <string>

#include "proxier/api/names.h"
#include "proxier/plan/actual_state.h"

namespace ipvsproxier::plan {

// The kinds of objects that cannot be read.
struct Doubt {
  bool services = false;             // a Service or the Node
  bool slices = false;               // a slice of unknown namespace
  std::set<std::string> namespaces;  // namespaces of unreadable slices

  bool about_slices() const { return slices || !namespaces.empty(); }
  bool empty() const { return !services && !about_slices(); }
  friend bool operator==(const Doubt&, const Doubt&) = default;
};

// Returns the Service that owns a virtual service; nullptr: none.
using OwnerOf = std::function<const api::NamespacedName*(const netlink::VirtualServiceKey&)>;

// Each adds the leftovers of one part of the kernel state; virtual services only if they are ours.
void add_leftover_services(const DesiredState& desired,
                           const std::map<netlink::VirtualServiceKey, ActualService>& services,
                           const Doubt& doubt, Leftovers& leftovers);
void add_leftover_servers(const DesiredState& desired, const netlink::VirtualServiceKey& key,
                          const RealServers& servers, const Doubt& doubt, const OwnerOf& owner_of,
                          Leftovers& leftovers);
void add_leftover_addresses(const DesiredState& desired, const Bindings& addresses,
                            const Doubt& doubt, Leftovers& leftovers);
void add_leftover_elements(const DesiredState& desired, const SetKey& set,
                           const ipset::ElementSet& elements, const Doubt& doubt,
                           Leftovers& leftovers);

// Drops leftovers that the remaining doubt no longer explains.
void narrow(const Doubt& doubt, const OwnerOf& owner_of, Leftovers& leftovers);

// Drops leftovers that are desired now, among the keys of `asked`. Also drops the elements of
// virtual services that are desired now, and adds these elements to `asked`, so that the next
// difference handles them.
void forget_leftovers(Scope& asked, DesiredState& desired);

}  // namespace ipvsproxier::plan
