#include "cmd/ipvsctl/commands.h"

#include <optional>

#include "cmd/ipvsctl/explain/node_reading.h"
#include "netlink/conntrack/conntrack_kernel.h"
#include "netlink/kernel_module.h"

namespace ipvsproxier::ctl {

namespace {

netlink::Status read_connections(const Flow& flow, LiveFlows& live) {
  if (!netlink::module_present("ip_vs")) return {};
  netlink::ConnectionFile file("/proc/net/ip_vs_conn");
  return file.connections([&](const netlink::IpvsConnection& one) -> netlink::Status {
    if (is_of(one, flow)) live.connections.push_back(one);
    return {};
  });
}

netlink::Result<LiveFlows> read_live(const Flow& flow) {
  LiveFlows live;
  if (const auto read = read_connections(flow, live); !read) return read.error();
  const auto table = netlink::KernelConntrackTable::open();
  if (!table && table.error().kind == netlink::ErrorKind::missing) {
    live.unread = table.error().where;
    return live;
  }
  if (!table) return table.error();
  const auto tracked = (*table)->list_to(flow.protocol, {flow.destination, flow.port});
  if (!tracked) return tracked.error();
  for (const auto& one : *tracked)
    if (is_of(one, flow)) live.tracked.push_back(one);
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
    auto read = read_live(walk->flow);
    if (!read) return read.error();
    live = std::move(*read);
  }
  const auto* const now = live ? &*live : nullptr;
  const auto text = options.json ? walk_json(*walk, names, now) : walk_text(*walk, names, now);
  if (const auto written = sink(text); !written) return written.error();
  return gets_there(*walk);
}

}  // namespace ipvsproxier::ctl
