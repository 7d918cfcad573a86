#pragma once

// The difference between two states as a transaction. Pure; any thread.
//
// The order of phases keeps every reachable VIP filtered and masqueraded:
//   weights lowered that would be costly beside new real servers (wrr_steps.h) -> sets created ->
//   rules of the old and the new state together -> elements added (those that let
//   traffic in and masquerade before those that shut traffic out) -> virtual services with their
//   real servers, then addresses; API server and cluster DNS first -> edits -> in-cluster clients
//   sent on, then all others dropped, then ways that are no longer wanted removed -> drains ->
//   addresses removed -> real servers and virtual services removed -> elements by which packets
//   keep their source -> elements removed -> rules of the new state alone.
// element_order.h says when an element changes that has to do with clients of policy Local.
// All additions come before any removal. A new virtual service whose scheduler builds a table of
// real servers gets the scheduler after its real servers; until then it accepts no connection, as
// without real servers.

#include "proxier/plan/actual_state.h"
#include "proxier/plan/transaction.h"

namespace ipvsproxier::plan {

// Compares the keys of `scope`, and sets that do not exist. A new VIP is added only together with
// the elements and rules that guard it. A scope that names a missing virtual service or address
// must therefore name everything that its Service asks for (Planner::scope_of), and the rules of
// its family unless they are known to be right.
//
// If `desired` is incomplete, nothing is removed but elements whose virtual service stays and
// changes (those of its policy), and no real server is drained. Leftovers, and the rules that guard
// them, are never removed. If a part of `actual` could not be read: a family with unknown sets or
// rules gets nothing new exposed; unknown virtual services or addresses are left alone.
//
// A real server that is no longer desired gets weight 0 and stays until it was seen without
// connections, if those of its protocol drain(); else it is removed. With
// `desired.drain_deleted_services` a virtual service of such a protocol also stays until its last
// real server is gone; meanwhile its address stays bound, and stays in the set that refuses new
// connections.
Transaction diff(const DesiredState& desired, const ActualState& actual, const Scope& scope);

// Leaves out the last phase, after which the rules are those of the new state alone: while keys of
// another scope wait to be compared, the kernel holds what needs the rules of the old state.
// Returns whether there was one.
bool keep_old_rules(Transaction& transaction);

// The difference over all keys.
Transaction diff(const DesiredState& desired, const ActualState& actual);

// The real servers of this virtual service that only finish their connections: weight 0 and not
// desired. None if `desired` is incomplete or the virtual service itself is being removed.
SortedVector<netlink::RealServerKey> draining(const DesiredState& desired,
                                              const ActualState& actual,
                                              const netlink::VirtualServiceKey& service);

// Whether a virtual service that is not desired should be removed: its family is proxied and it is
// not in an excluded range. Call for undesired services only; desired ones are ours anyway.
bool is_ours(const DesiredState& desired, const netlink::VirtualServiceKey& key);

// The scope of what may be removed together with a virtual service that is no longer desired.
Scope scope_of(const netlink::VirtualServiceKey& leaving);

}  // namespace ipvsproxier::plan
