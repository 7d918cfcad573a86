#pragma once

// Node ports on localhost (nodePortAddresses: localhost), as far as planning goes: whether this
// node can have them, and the links and routes that they need. Pure; any thread.

#include <optional>
#include <string>
#include <vector>

#include "ipset/sets/set_catalog.h"
#include "netlink/ip_address.h"
#include "netlink/links/loop_types.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"
#include "proxier/plan/node_info.h"
#include "proxier/plan/planner.h"

namespace ipvsproxier::plan {

// Why node ports of this family are not on localhost, although they shall be; "" if they are.
std::string why_no_localhost(netlink::Family family, const NodeInfo& node,
                             const PlannerOptions& options);

// Whether the address is one by which packets to localhost travel.
bool is_of_localhost(const netlink::IpAddress& address);

// Why addresses of the Service are left out: they are loopback addresses or, with `localhost`,
// those by which packets to localhost travel. nullopt: it has none of them.
std::optional<api::Problem> loopback_problem(const api::Service& service, netlink::Family family,
                                             bool localhost, const PlannerOptions& options);

// Whether the options ask for elements of the set, which is made with its first
// (ipset::is_made_late()).
bool may_have_elements(ipset::SetId set, const PlannerOptions& options);

// The pair of links, for these families.
netlink::LoopSpec localhost_links(const std::vector<netlink::Family>& families);

}  // namespace ipvsproxier::plan
