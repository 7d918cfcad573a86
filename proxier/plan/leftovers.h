#pragma once

// Leftovers (desired_state.h): what of a kernel that was just read they are. Pure; any thread.
//
// An object that cannot be read, and never could be since we started, exists, and nobody can tell
// what it asks for. A Service may be the reason for any virtual service, address or element that no
// other asks for, but for elements about virtual services that another does ask for; a Node for
// those of node ports; an EndpointSlice for real servers of Services of its namespace, and for
// elements that name endpoints.

#include <functional>
#include <set>
#include <string>

#include "proxier/api/names.h"
#include "proxier/plan/actual_state.h"

namespace ipvsproxier::plan {

// What cannot be read.
struct Doubt {
  bool services = false;             // a Service or the Node
  bool slices = false;               // one without a name, so of any namespace
  std::set<std::string> namespaces;  // those of slices

  bool about_slices() const { return slices || !namespaces.empty(); }
  bool empty() const { return !services && !about_slices(); }
  friend bool operator==(const Doubt&, const Doubt&) = default;
};

// The Service that a virtual service belongs to, if any; nullptr: none.
using OwnerOf = std::function<const api::NamespacedName*(const netlink::VirtualServiceKey&)>;

// Each adds what there is of one part of the kernel; of virtual services ours.
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

// There is less doubt than there was.
void narrow(const Doubt& doubt, const OwnerOf& owner_of, Leftovers& leftovers);

// What of `asked` is desired now is no leftover any more, be it desired for ever or not; nor are
// elements about virtual services that are, which are added to `asked`.
void forget_leftovers(Scope& asked, DesiredState& desired);

}  // namespace ipvsproxier::plan
