#include "cmd/ipvsctl/explain/packet_walk.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cmd/ipvsctl/explain/decisions.h"
#include "cmd/ipvsctl/explain/hook_pass.h"
#include "cmd/ipvsctl/explain/rule_walk.h"
#include "ipset/rules/localhost_rules.h"

namespace ipvsproxier::ctl {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Family;
using netlink::IpAddress;
using netlink::Result;
using netlink::Route;

namespace {

Error no_such_flow(std::string what) {
  return {.kind = ErrorKind::malformed, .where = std::move(what)};
}

class Walker {
 public:
  Walker(const Flow& flow, const NodeReading& node, netlink::HostReader& host)
      : node_(node),
        host_(host),
        hooks_(node, [this](const IpAddress& address) { return is_local(address); }) {
    walk_.flow = flow;
    packet_ = {.source_port = flow.source_port,
               .destination = flow.destination,
               .destination_port = flow.port,
               .protocol = flow.protocol,
               .tracking = Tracking::not_yet,
               .established = flow.established,
               .confirmed = flow.established};
  }

  Result<PacketWalk> walk() && {
    for (const auto& table : node_.nft_unread)
      walk_.steps.push_back({.stage = "nf_tables", .text = table, .unjudged = true});
    for (const auto& table : node_.nft_dormant)
      note_step(walk_.steps, "nf_tables",
                fmt::format("table {} is dormant: no packet meets its chains", table));
    for (const auto& flowtable : node_.nft_flowtables)
      walk_.steps.push_back({.stage = "nf_tables",
                             .text = "later packets of connections in flowtable " + flowtable +
                                     " may pass by all chains; those of Services " +
                                     (keeps_out_of_flowtables(node_, family())
                                          ? "are kept out of it by a rule of ours"
                                          : "stall there, as it does not translate them"),
                             .unjudged = packet_.established});
    if (const auto status = settle_origin(); !status) return status.error();
    comes_in_ = !walk_.sent_here;
    if (walk_.sent_here)
      send();
    else
      receive();
    return std::move(walk_);
  }

 private:
  using Steps = std::vector<WalkStep>;

  Family family() const { return packet_.destination.family(); }

  netlink::Status settle_origin() {
    auto& flow = walk_.flow;
    if (flow.source && flow.source->family() != family())
      return no_such_flow("source and destination are of two families");
    if (!flow.in_link.empty()) {
      if (!flow.source) return no_such_flow("what comes in by a link has a source");
      return settle_link(flow.in_link);
    }
    if (!flow.source || is_local(*flow.source)) {
      walk_.sent_here = true;
      return {};
    }
    if (flow.source == flow.destination)
      return no_such_flow("what a host sends to its own address does not leave it");
    const auto back = host_.route({.destination = *flow.source});
    if (!back) return back.error();
    return settle_link(link_name(node_, back->out_link));
  }

  // Packets that come in on a bridge port enter through the bridge.
  netlink::Status settle_link(const std::string& name) {
    const auto found = std::ranges::find(node_.links, name, &netlink::LinkRecord::name);
    if (found == node_.links.end()) return no_such_flow("there is no link " + name);
    const auto* link = &*found;
    const auto master = std::ranges::find(node_.links, link->master, &netlink::LinkRecord::index);
    if (link->master != 0 && master != node_.links.end()) link = &*master;
    in_index_ = link->index;
    walk_.flow.in_link = link->name;
    packet_.in_link = link->name;
    packet_.in_bridge_port = link->kind == "bridge" && node_.bridge_calls.count(family()) != 0;
    packet_.source = *walk_.flow.source;
    return {};
  }

  bool is_local(const IpAddress& address) const {
    const auto route = host_.route({.destination = address});
    return route && route->local;
  }

  // ---- from outside

  void receive() {
    auto& steps = walk_.steps;
    auto& arrival = walk_.arrival;
    arrival.source = packet_.source;
    if (is_switched()) {
      note_step(
          steps, "bridge",
          fmt::format("{} is behind {}, too: from port to port, {}",
                      packet_.destination.to_string(), walk_.flow.in_link,
                      packet_.in_bridge_port ? "the rules see it all the same"
                                             : "no rule sees it (net.bridge.bridge-nf-call-*)"));
      if (!packet_.in_bridge_port) return arrive(Fate::forwarded, walk_.flow.in_link, arrival);
    }
    const OnItsWay way{packet_, steps, arrival};
    if (!hooks_.prerouting(way)) return;
    const auto route = host_.route({.destination = packet_.destination,
                                    .source = packet_.source,
                                    .in_link = in_index_,
                                    .mark = packet_.mark});
    if (!route)
      return lose(steps, arrival, "route", failure_notice(node_, packet_, route.error()),
                  route_failure(route.error()));
    if (!route->local) return forward(*route);
    note_step(steps, "route", "to this node" + owner_of(packet_.destination));
    if (!hooks_.input(way)) return;
    if (choose_server()) return;
    if (!hooks_.input_rest(way)) return;
    deliver(packet_, steps, arrival);
  }

  void forward(const Route& route) {
    auto& steps = walk_.steps;
    const auto link = packet_.out_link = link_name(node_, route.out_link);
    note_step(steps, "route", fmt::format("not to this node: {} by {}", hop_of(route), link));
    if (family() == Family::ipv6 && !node_.forwards_ipv6)
      return lose(steps, walk_.arrival, "route", Notice::none,
                  "this node does not forward (net.ipv6.conf.all.forwarding)");
    if (!hooks_.forward({packet_, steps, walk_.arrival})) return;
    leave(route, packet_, steps, walk_.arrival, Fate::forwarded);
  }

  // Whether a bridge passes the packet on to another of its ports.
  bool is_switched() const {
    const auto link = std::ranges::find(node_.links, in_index_, &netlink::LinkRecord::index);
    if (link == node_.links.end() || link->kind != "bridge") return false;
    const auto route = host_.route({.destination = packet_.destination});
    return route && !route->local && !route->gateway && route->out_link == in_index_;
  }

  static void arrive(Fate fate, const std::string& link, Arrival& arrival) {
    arrival.fate = fate;
    arrival.out_link = link;
  }

  static std::string hop_of(const Route& route) {
    return route.gateway ? "to gateway " + route.gateway->to_string() : std::string("on-link");
  }

  // " (of kube-ipvs0)"
  std::string owner_of(const IpAddress& address) const {
    const auto found =
        std::ranges::find(node_.addresses, address, &netlink::AddressRecord::address);
    if (found == node_.addresses.end()) return "";
    return fmt::format(": {} is an address of {}", address.to_string(),
                       link_name(node_, found->link_index));
  }

  // ---- from this node

  // An SCTP socket with only loopback addresses reaches no other address: ENETUNREACH
  // (sctp_bind_addr_copy(); seen on 6.1.176).
  bool within_scope() const {
    return packet_.protocol != netlink::Protocol::sctp || !packet_.source.is_loopback() ||
           packet_.destination.is_loopback();
  }

  void send() {
    auto& steps = walk_.steps;
    auto& arrival = walk_.arrival;
    const auto& wanted = walk_.flow.source;
    auto route = host_.route({.destination = packet_.destination, .source = wanted});
    packet_.source = wanted.value_or(IpAddress::any(family()));
    if (!route)
      return lose(steps, arrival, "route", Notice::call_fails, route_failure(route.error()));
    if (!within_scope())
      return lose(steps, arrival, "route", Notice::call_fails,
                  "SCTP does not send from a loopback address to others");
    if (!wanted) packet_.source = route->source.value_or(packet_.source);
    walk_.flow.source = packet_.source;
    arrival.source = packet_.source;
    note_way(*route);
    const OnItsWay way{packet_, steps, arrival};
    if (!hooks_.output(way)) return;
    if (packet_.destination_translated) {
      route = host_.route({.destination = packet_.destination, .source = packet_.source});
      // TCP sends again and tells the sender nothing (tcp_connect() in net/ipv4/tcp_output.c).
      const bool tells = packet_.protocol != netlink::Protocol::tcp;
      if (!route)
        return lose(steps, arrival, "route", tells ? Notice::call_fails : Notice::none,
                    route_failure(route.error()));
      note_way(*route);
    }
    if (choose_server()) return;
    if (!hooks_.output_rest(way)) return;
    if (route->local)
      loop_back(*route, packet_, steps, arrival);
    else
      leave(*route, packet_, steps, arrival, Fate::forwarded);
  }

  // Notes the outgoing link of a packet that this node sends.
  void note_way(const Route& route) {
    packet_.out_link = link_name(node_, route.out_link);
    note_step(walk_.steps, "route",
              route.local ? "to this node" + owner_of(packet_.destination)
                          : fmt::format("{} by {}", hop_of(route), packet_.out_link));
  }

  // After OUTPUT: a packet from this node to itself, over lo.
  void loop_back(const Route& route, Packet packet, Steps& steps, Arrival& arrival) {
    if (!post_route(route, packet, steps, arrival)) return;
    packet.confirmed = packet.tracking == Tracking::tracked;
    packet.in_link = "lo";
    packet.out_link.clear();
    const OnItsWay way{packet, steps, arrival};
    if (!hooks_.prerouting_again(way)) return;
    if (!hooks_.input(way) || !hooks_.input_again(way)) return;
    deliver(packet, steps, arrival);
  }

  // ---- ends

  void deliver(const Packet& packet, Steps& steps, Arrival& arrival) const {
    arrival.out_link.clear();
    const auto where = netlink::to_string(packet.destination, packet.destination_port);
    const auto heard = is_heard(node_, packet);
    if (heard == false)
      return lose(steps, arrival, "socket", unheard_notice(packet),
                  "no socket of this node takes " + where);
    note_step(steps, "socket",
              fmt::format("{}a socket of this node takes {}",
                          heard ? "" : "it is not known whether ", where),
              true);
    arrival.fate = Fate::delivered;
  }

  // POSTROUTING: decides the source that the destination sees. False if the packet ended here.
  bool post_route(const Route& route, Packet& packet, Steps& steps, Arrival& arrival) {
    packet.in_link.clear();
    packet.out_link = link_name(node_, route.out_link);
    packet.in_bridge_port = false;
    const OnItsWay way{packet, steps, arrival};
    if (!hooks_.postrouting_before_nat(way)) return false;
    arrival.source = packet.source;
    return settle_source(route, way) && hooks_.postrouting_rest(way);
  }

  bool settle_source(const Route& route, OnItsWay way) {
    auto& [packet, steps, arrival] = way;
    if (packet.connection && !node_.tracks_ipvs) {
      arrival.source_because = "connections of IPVS are not tracked (net.ipv4.vs.conntrack is 0)";
      note_step(steps, "nat POSTROUTING", "not met: " + arrival.source_because);
      return true;
    }
    if (packet.established) {
      arrival.source_because = "as for the first packet of its connection";
      return true;
    }
    if (packet.tracking == Tracking::never) {
      arrival.source_because = "connection tracking does not see it (NOTRACK)";
      return true;
    }
    const auto first = steps.size();
    if (!hooks_.postrouting_nat(way)) return false;
    const auto end = hooks_.nat_end();
    if (end == ChainEnd::translated) return true;
    if (end != ChainEnd::masqueraded) {
      arrival.source_because = steps.size() > first && !steps.back().unjudged
                                   ? fmt::format("{} {}", steps.back().chain, steps.back().text)
                                   : "no rule masquerades it";
      return true;
    }
    return masquerade(route, packet, steps, arrival);
  }

  bool masquerade(const Route& route, Packet& packet, Steps& steps, Arrival& arrival) {
    const auto source = masquerade_address(route, packet);
    const auto stage = steps.back().stage;  // "nat POSTROUTING", "kube-ipvs postrouting"
    if (!source) {
      lose(steps, arrival, stage.c_str(), Notice::none, "no address to masquerade with");
      return false;
    }
    const auto& rule = steps.back();
    arrival.masqueraded = true;
    arrival.source_because = rule.found.empty() && !hooks_.marked_because().empty()
                                 ? "marked by " + hooks_.marked_because()
                                 : fmt::format("{} {}{}{}", rule.chain, rule.text,
                                               rule.found.empty() ? "" : ": ", rule.found);
    packet.source = *source;
    arrival.source = *source;
    note_step(steps, stage, "source becomes " + source->to_string());
    return true;
  }

  std::optional<IpAddress> masquerade_address(const Route& route, const Packet& packet) const {
    if (family() == Family::ipv4)
      return select_address(node_, route.out_link, route.gateway.value_or(packet.destination));
    // The route lookup returns ipv6_dev_get_saddr()'s source for link and destination, which is
    // also MASQUERADE's.
    const auto again = host_.route({.destination = packet.destination});
    return again ? again->source : std::nullopt;
  }

  // Over the links of node ports on localhost the packet comes back, as one that connection
  // tracking does not know.
  void come_back(const Packet& packet, Steps& steps, Arrival& arrival) {
    const auto second =
        std::ranges::find(node_.links, ipset::kSecondLoopLink, &netlink::LinkRecord::name);
    note_step(steps, "link",
              fmt::format("leaves by {} as {} -> {}, and comes back by {}", ipset::kFirstLoopLink,
                          packet.source.to_string(),
                          netlink::to_string(packet.destination, packet.destination_port),
                          ipset::kSecondLoopLink));
    arrival = {};
    in_index_ = second->index;
    comes_in_ = true;
    packet_ = {.source = packet.source,
               .source_port = packet.source_port,
               .destination = packet.destination,
               .destination_port = packet.destination_port,
               .protocol = packet.protocol,
               .mark = packet.mark,
               .tracking = Tracking::not_yet,
               .established = packet.established,
               .confirmed = packet.established,
               .in_link = second->name};
    receive();
  }

  bool goes_around(const Route& route) const {
    const auto has = [&](std::string_view name) {
      return std::ranges::find(node_.links, name, &netlink::LinkRecord::name) != node_.links.end();
    };
    return link_name(node_, route.out_link) == ipset::kFirstLoopLink &&
           has(ipset::kSecondLoopLink) && !comes_in_;
  }

  void leave(const Route& route, Packet packet, Steps& steps, Arrival& arrival, Fate fate) {
    if (!post_route(route, packet, steps, arrival)) return;
    if (goes_around(route)) return come_back(packet, steps, arrival);
    arrive(fate, link_name(node_, route.out_link), arrival);
    const auto to = packet.destination.to_string();
    note_step(steps, "link",
              fmt::format("leaves by {} as {} -> {}", arrival.out_link, arrival.source.to_string(),
                          netlink::to_string(packet.destination, packet.destination_port)),
              true);
    if (fate == Fate::served && !arrival.masqueraded && !walk_.sent_here)
      add_cautions(route, to, arrival);
  }

  void add_cautions(const Route& route, const std::string& server, Arrival& arrival) const {
    const auto source = arrival.source.to_string();
    const auto back = host_.route({.destination = arrival.source});
    const bool only_by_us = back && !back->gateway && back->out_link != route.out_link;
    if (route.gateway && !only_by_us)
      arrival.cautions.push_back(fmt::format(
          "{} answers to {} itself: unless those answers pass this node, the sender does not "
          "know them",
          server, source));
    else if (route.out_link == in_index_ && !packet_.in_bridge_port)
      arrival.cautions.push_back(
          fmt::format("{} and {} are both behind {}: answers do not pass this node, and the "
                      "sender does not know them",
                      source, server, walk_.flow.in_link));
  }

  // ---- IPVS

  // True if a virtual service took the packet.
  bool choose_server() {
    auto& steps = walk_.steps;
    const auto choice = choose_service(node_, packet_);
    if (!choice.service) {
      note_step(steps, "IPVS", "no virtual service for it");
      return false;
    }
    walk_.service = choice.service->service;
    walk_.passed_over = choice.passed_over;
    note_step(steps, "IPVS", choice.text);
    if (choice.candidates.empty()) {
      if (choice.passes) {
        note_step(steps, "IPVS", "not one of its ports: it passes");
        return false;
      }
      lose(steps, walk_.arrival, "IPVS", Notice::port_unreachable, choice.why_none);
      return true;
    }
    packet_.connection = choice.service->service.key;
    for (const auto& server : choice.candidates) {
      walk_.candidates.push_back(try_server(server));
      if (packet_.tracking == Tracking::never)
        add_cautions_of_untracked(walk_.candidates.back().arrival);
    }
    walk_.arrival.fate = Fate::served;
    return true;
  }

  Candidate try_server(const netlink::RealServer& server) {
    Candidate candidate{.server = server, .steps = {}, .arrival = {}};
    auto& steps = candidate.steps;
    auto& arrival = candidate.arrival;
    auto packet = packet_;
    arrival.source = packet.source;
    if (server.method == netlink::ForwardMethod::masquerade) {
      packet.destination = server.key.address;
      packet.destination_port = server.key.port != 0 ? server.key.port : packet_.destination_port;
    }
    const auto route = host_.route({.destination = server.key.address, .mark = packet.mark});
    // ip_vs_xmit.c, __ip_vs_get_out_rt(): dst_link_failure() tells the sender.
    if (!route) {
      lose(steps, arrival, "IPVS", Notice::host_unreachable,
           fmt::format("{}: {}", server.key.address.to_string(), route_failure(route.error())));
      return candidate;
    }
    // crosses_local_route_boundary()
    if (!route->local && packet.source.is_loopback()) {
      lose(steps, arrival, "IPVS", Notice::none, "a loopback source does not leave this node");
      return candidate;
    }
    if (route->local && comes_in_) {
      if (hooks_.input_rest({packet, steps, arrival})) deliver(packet, steps, arrival);
      if (arrival.source_because.empty())
        arrival.source_because = "the server is this node: nothing is masqueraded";
      return candidate;
    }
    packet.in_link.clear();
    packet.out_link = link_name(node_, route->out_link);
    packet.in_bridge_port = false;
    const OnItsWay way{packet, steps, arrival};
    if (!(route->local ? hooks_.output_rest(way) : hooks_.output_of_ipvs(way))) return candidate;
    if (route->local)
      loop_back(*route, packet, steps, arrival);
    else
      leave(*route, packet, steps, arrival, Fate::served);
    return candidate;
  }

  // IPVS takes packets that connection tracking does not see, and so nothing knows their answers.
  void add_cautions_of_untracked(Arrival& arrival) const {
    const auto& source = packet_.source;
    const bool is_vip = std::ranges::any_of(
        node_.services, [&](const auto& service) { return service.first.address == source; });
    arrival.cautions.push_back(fmt::format(
        "connection tracking does not see it (NOTRACK): nothing masquerades it, and its answer "
        "counts as a new connection to {}{}",
        source.to_string(), is_vip ? ", which is refused at an address of a Service" : ""));
    if (!walk_.sent_here) return;
    const auto route = host_.route({.destination = packet_.destination});
    if (route && route->source && *route->source != source)
      arrival.cautions.push_back(
          fmt::format("this node sends it from {} unless its program chooses another source",
                      route->source->to_string()));
  }

  const NodeReading& node_;
  netlink::HostReader& host_;
  std::int32_t in_index_ = 0;
  bool comes_in_ = false;  // by a link, and no longer by lo
  Packet packet_;
  HookPass hooks_;
  PacketWalk walk_;
};

}  // namespace

Result<PacketWalk> walk_packet(const Flow& flow, const NodeReading& node,
                               netlink::HostReader& host) {
  return Walker(flow, node, host).walk();
}

}  // namespace ipvsproxier::ctl
