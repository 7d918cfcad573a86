#include "cmd/ipvsctl/commands.h"

#include <optional>
#include <set>
#include <utility>

#include "cmd/ipvsctl/explain/node_reading.h"
#include "netlink/conntrack/conntrack_kernel.h"
#include "netlink/kernel_module.h"

namespace ipvsproxier::ctl {

namespace {

netlink::Status read_connections(const PacketWalk& walk, LiveFlows& live) {
  const auto has_ipvs = netlink::kernel_has_module("ip_vs");
  if (!has_ipvs) return has_ipvs.error();
  if (!*has_ipvs) return {};
  std::set<netlink::FlowEnd> sources;
  if (walk.service)
    for (const auto& one : live.tracked) sources.insert(one.source);
  netlink::ConnectionFile file("/proc/net/ip_vs_conn");
  return file.connections([&](const netlink::IpvsConnection& one) -> netlink::Status {
    if (is_of(one, walk.flow) || (walk.service && is_at(one, walk.service->key, sources)))
      live.connections.push_back(one);
    return {};
  });
}

// What became of the tracked flows, behind the loop.
netlink::Status track_again(netlink::KernelConntrackTable& table, LiveFlows& live) {
  std::set<netlink::FlowEnd> destinations;
  std::set<std::pair<netlink::FlowEnd, netlink::FlowEnd>> expected;
  for (const auto& one : live.tracked) {
    if (one.server == one.destination) continue;  // at its end
    destinations.insert(one.server);
    expected.emplace(one.seen, one.server);
  }
  for (const auto& destination : destinations) {
    const auto tracked = table.list_to(live.tracked.front().protocol, destination);
    if (!tracked) return tracked.error();
    for (const auto& one : *tracked)
      if (expected.contains({one.source, one.destination})) live.tracked.push_back(one);
  }
  return {};
}

netlink::Status read_tracked(const Flow& flow, LiveFlows& live) {
  const auto table = netlink::KernelConntrackTable::open();
  if (!table && table.error().kind == netlink::ErrorKind::missing) {
    live.unread = table.error().where;
    return {};
  }
  if (!table) return table.error();
  const auto tracked = (*table)->list_to(flow.protocol, {flow.destination, flow.port});
  if (!tracked) return tracked.error();
  for (const auto& one : *tracked)
    if (is_of(one, flow)) live.tracked.push_back(one);
  return flow.destination.is_loopback() ? track_again(**table, live) : netlink::Status{};
}

netlink::Result<LiveFlows> read_live(const PacketWalk& walk) {
  LiveFlows live;
  if (const auto read = read_tracked(walk.flow, live); !read) return read.error();
  if (const auto read = read_connections(walk, live); !read) return read.error();
  return live;
}

}  // namespace

netlink::Result<bool> run_explain(const ExplainOptions& options, const WalkNames& names,
                                  const TextSink& sink) {
  auto tables = open_node_tables();
  if (!tables) return tables.error();
  const auto node = read_node(*tables, options.flow.destination);
  if (!node) return node.error();
  const auto walk = walk_packet(options.flow, *node, *tables->host);
  if (!walk) return walk.error();
  std::optional<LiveFlows> live;
  if (options.live) {
    auto read = read_live(*walk);
    if (!read) return read.error();
    live = std::move(*read);
  }
  const auto* const now = live ? &*live : nullptr;
  const auto text = options.json ? walk_json(*walk, names, now) : walk_text(*walk, names, now);
  if (const auto written = sink(text); !written) return written.error();
  return gets_there(*walk);
}

}  // namespace ipvsproxier::ctl
