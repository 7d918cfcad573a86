#pragma once

// Refusal: an answer of the kernel that is about one object, not about this node. An address that
// no host can have (an endpoint 239.1.1.1, an external IP ff0e::1, the broadcast address of the
// node's subnet) is refused for its value, whatever else is done: that harms nobody but the object
// that names it. A missing module or privilege, no memory, no answer are the node's. Values; sync
// thread only.

#include <cstdint>
#include <utility>
#include <variant>

#include "netlink/result.h"
#include "proxier/plan/scope.h"

namespace ipvsproxier::sync {

// Whose fault it is that something is not in the kernel.
enum class Cause : std::uint8_t { object, node };

// What an operation is about. Of a virtual service: it, or one of its real servers.
using SetElement = std::pair<plan::SetKey, ipset::Element>;
using Thing = std::variant<netlink::VirtualServiceKey, netlink::IpAddress, SetElement>;

struct Refusal {
  Thing thing;
  netlink::Error error;  // names the operation
};

// Whose fault this answer is. Only what is added or changed can be refused for its value: EINVAL,
// ERANGE and, of addresses, EADDRNOTAVAIL (netlink/result.h, malformed), not an answer that makes
// no sense.
Cause cause_of(bool adds, const netlink::Error& error);

netlink::Family family_of(const Thing& thing);
bool contains(const plan::Scope& scope, const Thing& thing);
void insert(plan::Scope& scope, const Thing& thing);

}  // namespace ipvsproxier::sync
