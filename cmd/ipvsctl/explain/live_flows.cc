#include "cmd/ipvsctl/explain/live_flows.h"

#include <fmt/format.h>

#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

using netlink::IpvsConnection;
using netlink::TrackedFlow;

namespace {

bool is_source(const Flow& flow, const netlink::IpAddress& address, std::uint16_t port) {
  return flow.source == address && (flow.source_port == 0 || flow.source_port == port);
}

bool goes_to(const IpvsConnection& connection, const netlink::VirtualServiceKey& service) {
  return connection.protocol == to_string(service.protocol) &&
         connection.virtual_address == service.address && connection.virtual_port == service.port;
}

std::string end(const netlink::FlowEnd& end) {
  return netlink::to_string(end.address, end.port);
}

std::string line(const IpvsConnection& one) {
  const auto way =
      fmt::format("{} -> {}", netlink::to_string(one.virtual_address, one.virtual_port),
                  netlink::to_string(one.server_address, one.server_port));
  if (one.client_port == 0)
    return fmt::format("  IPVS       {} {} stays: {}  {} s\n", one.protocol,
                       one.client_address.to_string(), way, one.expires);
  return fmt::format("  IPVS       {} {} -> {}  {}  {} s\n", one.protocol,
                     netlink::to_string(one.client_address, one.client_port), way, one.state,
                     one.expires);
}

std::string line(const TrackedFlow& one) {
  return fmt::format("  conntrack  {} {} -> {}, {} {} -> {}  {}{}{} s\n", to_string(one.protocol),
                     end(one.source), end(one.destination),
                     one.answered ? "answered" : "not answered, expected", end(one.server),
                     end(one.seen), one.state, one.state.empty() ? "" : "  ", one.expires);
}

}  // namespace

bool is_of(const IpvsConnection& connection, const Flow& flow) {
  const bool is_template = connection.client_port == 0 && flow.source == connection.client_address;
  return goes_to(connection, {flow.destination, flow.protocol, flow.port}) &&
         (is_template || is_source(flow, connection.client_address, connection.client_port));
}

bool is_of(const TrackedFlow& tracked, const Flow& flow) {
  return tracked.protocol == flow.protocol &&
         tracked.destination == netlink::FlowEnd{flow.destination, flow.port} &&
         is_source(flow, tracked.source.address, tracked.source.port);
}

bool is_at(const IpvsConnection& connection, const netlink::VirtualServiceKey& service,
           const std::set<netlink::FlowEnd>& sources) {
  if (!goes_to(connection, service)) return false;
  const netlink::FlowEnd client{connection.client_address, connection.client_port};
  const auto found = sources.lower_bound(client);  // port 0 is the first of an address
  const bool is_template = client.port == 0;
  return found != sources.end() &&
         (is_template ? found->address == client.address : *found == client);
}

std::string live_text(const LiveFlows& live) {
  std::string text = "\nNow:\n";
  for (const auto& one : live.connections) text += line(one);
  for (const auto& one : live.tracked) text += line(one);
  if (!live.unread.empty())
    text += fmt::format("  conntrack  not known: {}\n", api::visible(live.unread));
  if (live.connections.empty() && live.tracked.empty() && live.unread.empty())
    text += "  no connection of it\n";
  return text;
}

}  // namespace ipvsproxier::ctl
