#pragma once

// The difference of two states as a transaction. Pure; any thread.
//
// Order of the phases, which keeps every reachable VIP filtered and masqueraded:
//   sets made -> rules of the old and the new state together -> elements added (what lets in and
//   masquerades before what shuts out) -> virtual services with their real servers, then addresses;
//   the API server and the cluster DNS before the others -> edits and drains -> addresses removed
//   -> real servers, virtual services removed -> elements removed -> rules of the new state alone.
// So all adds come before any delete. A new virtual service whose scheduler builds a table of its
// real servers has none until they are there: until then it takes no connection, as without real
// servers.

#include <array>

#include "ipset/set_catalog.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/transaction.h"

namespace ipvsproxier::plan {

// Elements are added in this order, set by set, and removed in the opposite one. Sets that let
// traffic in come before sets that shut it out (source ranges before the firewall; every VIP's own
// set before the catch-all of the dummy link), and exemptions from masquerading before
// masquerading.
inline constexpr std::array<ipset::SetId, ipset::kSetIds.size()> kAddOrder = {
    ipset::SetId::loop_back,
    ipset::SetId::load_balancer_source_cidr,
    ipset::SetId::load_balancer_source_ip,
    ipset::SetId::load_balancer_local,
    ipset::SetId::load_balancer_fw,
    ipset::SetId::node_port_local_tcp,
    ipset::SetId::node_port_local_udp,
    ipset::SetId::node_port_local_sctp_hash,
    ipset::SetId::node_port_tcp,
    ipset::SetId::node_port_udp,
    ipset::SetId::node_port_sctp_hash,
    ipset::SetId::health_check_node_port,
    ipset::SetId::external_ip_local,
    ipset::SetId::external_ip,
    ipset::SetId::load_balancer,
    ipset::SetId::cluster_ip,
    ipset::SetId::ipvs_ips,
};

// Only the keys of `scope` are looked at, and the sets that are missing. A VIP that is new is added
// only with what guards it, so a scope that names a virtual service or an address that is missing
// names all that its Service asks for (Planner::scope_of), and the rules of its family unless they
// are known to be right.
//
// Where `desired` is incomplete nothing is removed, and no real server drained; its leftovers are
// not, nor the rules that guard them. Where a part of
// `actual` could not be read: of a family whose sets or rules are unknown nothing new is exposed;
// unknown virtual services or addresses are left alone. A TCP real server that leaves gets weight 0
// and stays, until somebody saw it without connections; of the other protocols it is removed. So
// does a TCP virtual service that leaves where `desired.drains_services`: it goes after its last
// real server, and until then its address stays bound and in the set that refuses new connections.
Transaction diff(const DesiredState& desired, const ActualState& actual, const Scope& scope);

// Everything.
Transaction diff(const DesiredState& desired, const ActualState& actual);

// The real servers of this virtual service that only finish their connections: weight 0, and not
// desired. None where `desired` is incomplete, nor of a virtual service that is just to be removed.
SortedVector<netlink::RealServerKey> draining(const DesiredState& desired,
                                              const ActualState& actual,
                                              const netlink::VirtualServiceKey& service);

// Whether a virtual service that is not desired is to go: its family is proxied, and it is not in
// an excluded range. Those that are desired are ours anyway.
bool is_ours(const DesiredState& desired, const netlink::VirtualServiceKey& key);

// What may go together with a virtual service that is no longer desired.
Scope scope_of(const netlink::VirtualServiceKey& leaving);

}  // namespace ipvsproxier::plan
