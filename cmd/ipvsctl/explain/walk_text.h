#pragma once

// Prints the way of a packet as text and as JSON. Pure, any thread.

#include <functional>
#include <string>

#include "cmd/ipvsctl/explain/live_flows.h"
#include "cmd/ipvsctl/explain/packet_walk.h"
#include "cmd/ipvsctl/names/cluster_names.h"

namespace ipvsproxier::ctl {

// Looks up the cluster's names; "" for unknown entries. Either function may be empty.
struct WalkNames {
  std::function<std::string(const netlink::VirtualServiceKey&)>
      service;                                                    // "shop/web:http, cluster IP"
  std::function<std::string(const netlink::IpAddress&)> address;  // "shop/web-1"
};

// Names from the cluster; `names` must outlive the result.
WalkNames walk_names(const ClusterNames& names);

// `live` is nullptr if live flows were not requested.

// A page with one step on each line, '>' for a decisive step, '?' for a rule that could not be
// judged; then the result.
std::string walk_text(const PacketWalk& walk, const WalkNames& names, const LiveFlows* live);

// One JSON object with a final newline.
std::string walk_json(const PacketWalk& walk, const WalkNames& names, const LiveFlows* live);

}  // namespace ipvsproxier::ctl
