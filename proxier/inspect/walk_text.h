#pragma once

// The way of a packet for people and for programs. Pure, any thread.

#include <functional>
#include <string>

#include "proxier/inspect/cluster_names.h"
#include "proxier/inspect/live_flows.h"
#include "proxier/inspect/packet_walk.h"

namespace ipvsproxier::inspect {

// What the cluster calls things; "" for what it does not know. Either may be empty.
struct WalkNames {
  std::function<std::string(const netlink::VirtualServiceKey&)>
      service;                                                    // "shop/web:http, cluster IP"
  std::function<std::string(const netlink::IpAddress&)> address;  // "shop/web-1"
};

// Those of the cluster, which outlive these.
WalkNames walk_names(const ClusterNames& names);

// `live` is nullptr where nobody asked for it.

// A page: one step a line, a decisive one marked with '>', one that could not be judged with '?';
// then what comes of it.
std::string walk_text(const PacketWalk& walk, const WalkNames& names, const LiveFlows* live);

// One object, with its end of line.
std::string walk_json(const PacketWalk& walk, const WalkNames& names, const LiveFlows* live);

}  // namespace ipvsproxier::inspect
