#pragma once

// Refusal: an answer of the kernel that is caused by one object, not by this node. An address that
// no host can have (an endpoint 239.1.1.1, an external IP ff0e::1, the broadcast address of the
// node's subnet) is refused because of its value, whatever the node's state: only the object that
// names it is affected. A missing module or privilege, lack of memory, and a missing answer are
// faults of the node. Values; sync thread only.

#include <cstdint>
#include <utility>
#include <variant>

#include "netlink/result.h"
#include "proxier/plan/scope.h"

namespace ipvsproxier::sync {

// Whether an object or the node is the reason that an entry is not in the kernel.
enum class Cause : std::uint8_t { object, node };

// The subject of an operation. A real server counts as its virtual service.
using SetElement = std::pair<plan::SetKey, ipset::Element>;
using Thing = std::variant<netlink::VirtualServiceKey, netlink::IpAddress, SetElement>;

struct Refusal {
  Thing thing;
  netlink::Error error;  // names the operation
};

// The cause of this answer. Only an addition or edit can be refused because of a value: EINVAL,
// ERANGE and, for addresses, EADDRNOTAVAIL (`malformed` in netlink/result.h), but not an unreadable
// answer of the kernel.
Cause cause_of(bool adds, const netlink::Error& error);

netlink::Family family_of(const Thing& thing);
bool contains(const plan::Scope& scope, const Thing& thing);
void insert(plan::Scope& scope, const Thing& thing);

}  // namespace ipvsproxier::sync
