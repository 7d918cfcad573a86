#pragma once

// Ownership: which virtual services of the kernel are ours. IPVS keeps no note of who made an
// entry, so traces tell it: what this process or an earlier one (kube-proxy, too) keeps beside each
// of its virtual services. Pure; any thread.
//
// An address of a Service with a foreign virtual service is not programmed, nor is a node port of
// the same number (Foreign). So the addresses and elements that are traces never exist for a
// foreign one, and a restart judges as before.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "netlink/ipvs/ipvs_types.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/desired_state.h"
#include "proxier/plan/transaction.h"

namespace ipvsproxier::plan {

enum class Ownership : std::uint8_t {
  ours,
  foreign,
  unknown,  // the sets of its family could not be read: left alone
};

// Whose virtual service this is, which the kernel holds. Ours are
// - those that the state knows as ours, or knew before they could not be read;
// - those on an address that is bound on our dummy links or by our local routes, is in the set of
//   Service addresses, or is the cluster IP of a Service;
// - those of which one of our sets has address, protocol and port, or the node port;
// - those on an address of kube-router's link and, while it has one, those of node ports that
//   Services ask for.
// All others of a planned family are foreign; with `keep_foreign_services` false none is.
Ownership owner_of(const netlink::VirtualServiceKey& key, const DesiredState& desired,
                   const ActualState& actual);

// Whether a desired element guards nothing, or what is ours in any case: a virtual service that
// this process knows, or a cluster IP.
bool belongs_to_ours(SetKey set, const ipset::Element& element, const DesiredState& desired,
                     const ActualState& actual);

// Whether the set is known to hold the element.
bool has_element(const ActualState& actual, SetKey set, const ipset::Element& element);

// Virtual services that `transaction` was to add and that turned out to exist: which of them are
// foreign. The elements and addresses that the transaction itself added are
// no traces.
std::set<netlink::VirtualServiceKey> foreign_among(
    const std::set<netlink::VirtualServiceKey>& existing, const Transaction& transaction,
    const DesiredState& desired, ActualState actual);

// Whether all sets of the family could be read. Those that are made with their first element need
// not be while none is wanted: another program may have a set of such a name.
bool knows_sets(netlink::Family family, const DesiredState& desired, const ActualState& actual);

// What Services do not get because of foreign virtual services, one of which is named.
struct Foreign {
  using NodePort = std::pair<netlink::Protocol, std::uint16_t>;

  std::set<netlink::VirtualServiceKey> keys;
  std::map<netlink::IpAddress, netlink::VirtualServiceKey> addresses;
  std::map<NodePort, netlink::VirtualServiceKey> ports;

  void insert(const netlink::VirtualServiceKey& key) {
    keys.insert(key);
    addresses.emplace(key.address, key);
    ports.emplace(NodePort{key.protocol, key.port}, key);
  }
  // The foreign virtual service for which this one is not programmed; nullptr: none. Cluster IPs
  // are given by the API server, so a virtual service on one of them is never foreign.
  // `alone`: a node port whose traces name its address, so that it is refused for the same alone.
  // Of any other address all ports are refused: whoever may write a Service could else take the
  // next port of a neighbour's address.
  const netlink::VirtualServiceKey* refuses(const netlink::VirtualServiceKey& key, Facet facet,
                                            bool alone) const;

  friend bool operator==(const Foreign&, const Foreign&) = default;
};

}  // namespace ipvsproxier::plan
