#pragma once

// Guarded: what a set element filters or masquerades. Pure; any thread.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ipset/sets/element_set.h"
#include "ipset/sets/set_catalog.h"
#include "ipset/sets/set_types.h"
#include "netlink/ipvs/ipvs_types.h"

namespace ipvsproxier::plan {

struct Guarded {
  std::optional<netlink::VirtualServiceKey> service;
  std::optional<netlink::IpAddress> address;
  std::optional<std::uint16_t> port;  // on all addresses

  void operator()(const ipset::IpElement& element) { address = element.ip; }
  void operator()(const ipset::PortElement& element) { port = element.port; }
  template <typename Element>
  void operator()(const Element& element) {
    service = netlink::VirtualServiceKey{element.ip, element.protocol, element.port};
  }
};

// The set of endpoints whose invalid packets are dropped.
bool is_of_other_endpoints(ipset::SetId set);

// Whether the set's elements name endpoints, which guard no virtual service and no address.
bool names_endpoints(ipset::SetId set);

// The set of load balancers' addresses at which our health server answers. They guard nothing.
bool is_of_healthz(ipset::SetId set);

Guarded guarded_by(ipset::SetId set, const ipset::Element& element);

// The elements by which the filter knows this virtual service: it has at least one of them,
// whatever its facet. Elements of addresses and of source ranges are not among them.
std::vector<std::pair<ipset::SetId, ipset::Element>> elements_of(
    const netlink::VirtualServiceKey& service);

// Whether adding the element to a set that has these lets in packets to a virtual service that are
// dropped until then: without an endpoint they would be refused.
bool lets_in(const ipset::ElementSet& has, const ipset::Element& element);

// Whether its elements lead packets to localhost into the loop (ipset/rules/localhost_rules.h).
bool is_of_localhost(ipset::SetId set);

// Whether the element drops the packets of all clients that are not sent on.
bool drops_outside(const ipset::Element& element);

// The virtual service whose clients the element has to do with: in-cluster clients are sent on from
// it, or all others are dropped.
std::optional<netlink::VirtualServiceKey> way_from(ipset::SetId set, const ipset::Element& element);

// Whether packets from outside keep their source by this element.
bool keeps_source(ipset::SetId set, const ipset::Element& element);
// Whether packets from outside are masqueraded by this element, whatever other sets have.
bool masquerades(ipset::SetId set, const ipset::Element& element);
// The set whose packets are masqueraded, but for those of this one; nullopt: there is none.
std::optional<ipset::SetId> marking_set(ipset::SetId set);

// The protocol of a set of node ports whose elements hold ports only.
std::optional<netlink::Protocol> protocol_of_ports(ipset::SetId set);

}  // namespace ipvsproxier::plan
