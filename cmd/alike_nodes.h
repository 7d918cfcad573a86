#pragma once

// Nodes that may be this node under another name, for the case that no Node has its name. Pure; any
// thread.

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/ip_address.h"
#include "proxier/api/objects.h"
#include "proxier/model/changes.h"

namespace ipvsproxier::cmd {

// Whether one of two names is the other one with a domain, or they differ in case or domain alone:
// "n1" and "N1.example.internal". Addresses are never alike.
bool is_alike(std::string_view a, std::string_view b);

inline constexpr std::size_t kMostAlikeNodes = 3;

// Adds the names of nodes, other than this one, which endpoints name and which are alike, until
// there are kMostAlikeNodes: whoever writes EndpointSlices could name others without end.
void note_alike_names(std::string_view node_name, const model::Changes& changes,
                      std::set<std::string>& names);

// "n1.example.internal", "worker-7 (address 10.200.0.1)": kMostAlikeNodes at most, those that have
// an address of this host first. `named`: alike names, whose Nodes are not known.
std::vector<std::string> alike_nodes(std::string_view node_name,
                                     const std::set<netlink::IpAddress>& own,
                                     const std::vector<api::Node>& others,
                                     const std::set<std::string>& named);

}  // namespace ipvsproxier::cmd
