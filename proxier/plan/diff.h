#pragma once

// The difference of two states as a transaction. Pure; any thread.
//
// Order of the phases, which keeps every reachable VIP filtered and masqueraded:
//   sets made -> rules of the old and the new state together -> elements added (what lets in and
//   masquerades before what shuts out) -> virtual services with their real servers, then addresses;
//   the API server and the cluster DNS before the others -> edits and drains -> addresses removed
//   -> real servers, virtual services removed -> elements removed -> rules of the new state alone.
// So all adds come before any delete.

#include "proxier/plan/actual_state.h"
#include "proxier/plan/transaction.h"

namespace ipvsproxier::plan {

// Where `desired` is incomplete nothing is removed, and no real server drained.
//
// What `actual` lacks of `desired`, and has too much of. Where a part of `actual` could not be
// read: of a family whose sets or rules are unknown nothing new is exposed; unknown virtual
// services or addresses are left alone. A TCP real server that leaves while it has connections gets
// weight 0 and stays; without connections, and for the other protocols, it is removed.
Transaction diff(const DesiredState& desired, const ActualState& actual);

}  // namespace ipvsproxier::plan
