#include "cmd/ipvsctl/explain/packet_walk.h"

#include <algorithm>

#include <fmt/format.h>

#include "cmd/ipvsctl/explain/decisions.h"
#include "cmd/ipvsctl/explain/rule_walk.h"

namespace ipvsproxier::ctl {

using ipset::Table;
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
      : node_(node), host_(host) {
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
    if (const auto status = settle_origin(); !status) return status.error();
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

  // ---- rules

  // Connection tracking comes after raw.
  bool enter(const char* chain, Packet& packet, Steps& steps, Arrival& arrival) {
    if (!pass(Table::raw, chain, packet, steps, arrival)) return false;
    if (packet.tracking == Tracking::not_yet) packet.tracking = Tracking::tracked;
    return pass(Table::mangle, chain, packet, steps, arrival);
  }

  // Chains of type nat: ours of nf_tables comes first. What it settles is settled.
  bool pass_nat(const char* ours, const char* chain, Packet& packet, Steps& steps,
                Arrival& arrival) {
    if (!pass(Table::kube_ipvs, ours, packet, steps, arrival)) return false;
    if (packet.destination_settled || last_end_ == ChainEnd::masqueraded) return true;
    return pass(Table::nat, chain, packet, steps, arrival);
  }

  // Chains of type filter: ours of nf_tables comes first.
  bool pass_filter_input(Packet& packet, Steps& steps, Arrival& arrival) {
    return pass(Table::mangle, "INPUT", packet, steps, arrival) &&
           pass(Table::kube_ipvs, "input", packet, steps, arrival) &&
           pass(Table::filter, "INPUT", packet, steps, arrival);
  }

  // False if the packet ended here; `arrival` then has the result. Untracked packets, and later
  // ones of a connection, skip nat.
  bool pass(Table table, const char* chain, Packet& packet, Steps& steps, Arrival& arrival) {
    last_end_ = ChainEnd::accepted;
    const bool in_nat = packet.tracking != Tracking::never && !packet.established;
    if (!in_nat && is_nat(table, chain)) return true;
    const auto stage = fmt::format("{} {}", to_string(table), chain);
    auto result = walk_chain(node_, {family(), table}, chain, packet,
                             [this](const IpAddress& address) { return is_local(address); });
    for (auto& hit : result.hits)
      steps.push_back({.stage = stage,
                       .chain = hit.chain,
                       .text = std::move(hit.rule),
                       .found = std::move(hit.found),
                       .unjudged = hit.unjudged});
    if (!result.marked_because.empty()) marked_because_ = std::move(result.marked_because);
    last_end_ = result.end;
    if (result.end == ChainEnd::translated) translate(result.translation, packet, steps, arrival);
    if (result.end != ChainEnd::dropped && result.end != ChainEnd::rejected) return true;
    const auto rule = fmt::format("{} {}", steps.back().chain, steps.back().text);
    steps.back().decides = true;
    const bool rejected = result.end == ChainEnd::rejected;
    arrival.fate = rejected ? Fate::refused : Fate::dropped;
    arrival.notice = rejected ? notice_of(result.rejected_as) : Notice::none;
    arrival.why = stage + ": " + rule;
    return false;
  }

  static Notice notice_of(std::optional<ipset::RejectAction::Way> way) {
    if (!way) return Notice::port_unreachable;
    if (*way == ipset::RejectAction::Way::reset) return Notice::reset;
    return *way == ipset::RejectAction::Way::prohibited ? Notice::prohibited
                                                        : Notice::host_unreachable;
  }

  // Carries out the translation of the last rule in `steps`.
  void translate(const ipset::TranslateAction& action, Packet& packet, Steps& steps,
                 Arrival& arrival) const {
    const auto& rule = steps.back();
    const auto stage = rule.stage;
    if (action.direction == ipset::Direction::src) {
      arrival.masqueraded = true;
      arrival.source_because = fmt::format("{} {}", rule.chain, rule.text);
      arrival.source = packet.source = action.address.value_or(packet.source);
      packet.source_translated = true;
      return note(steps, stage, "source becomes " + packet.source.to_string());
    }
    packet.destination = action.to_here ? redirect_address(node_, packet)
                                        : action.address.value_or(packet.destination);
    if (action.port != 0) packet.destination_port = action.port;
    packet.destination_translated = true;
    arrival.translated_to = netlink::to_string(packet.destination, packet.destination_port);
    note(steps, stage, "destination becomes " + arrival.translated_to);
  }

  static void note(Steps& steps, std::string stage, std::string text, bool decides = false) {
    steps.push_back({.stage = std::move(stage), .text = std::move(text), .decides = decides});
  }

  // Ends the packet's way here.
  static void lose(Steps& steps, Arrival& arrival, const char* stage, Notice notice,
                   const std::string& why) {
    note(steps, stage, why, true);
    arrival.fate = notice == Notice::none ? Fate::dropped : Fate::refused;
    arrival.notice = notice;
    arrival.why = fmt::format("{}: {}", stage, why);
  }

  // ---- from outside

  void receive() {
    auto& steps = walk_.steps;
    auto& arrival = walk_.arrival;
    arrival.source = packet_.source;
    if (is_switched()) {
      note(steps, "bridge",
           fmt::format("{} is behind {}, too: from port to port, {}",
                       packet_.destination.to_string(), walk_.flow.in_link,
                       packet_.in_bridge_port ? "the rules see it all the same"
                                              : "no rule sees it (net.bridge.bridge-nf-call-*)"));
      if (!packet_.in_bridge_port) return arrive(Fate::forwarded, walk_.flow.in_link, arrival);
    }
    if (!enter("PREROUTING", packet_, steps, arrival)) return;
    if (!pass_nat("prerouting", "PREROUTING", packet_, steps, arrival)) return;
    const auto route = host_.route({.destination = packet_.destination,
                                    .source = packet_.source,
                                    .in_link = in_index_,
                                    .mark = packet_.mark});
    if (!route)
      return lose(steps, arrival, "route", failure_notice(node_, packet_, route.error()),
                  route_failure(route.error()));
    if (!route->local) return forward(*route);
    note(steps, "route", "to this node" + owner_of(packet_.destination));
    if (!pass_filter_input(packet_, steps, arrival)) return;
    if (choose_server()) return;
    if (!pass(Table::nat, "INPUT", packet_, steps, arrival)) return;
    deliver(packet_, steps, arrival);
  }

  void forward(const Route& route) {
    auto& steps = walk_.steps;
    const auto link = packet_.out_link = link_name(node_, route.out_link);
    note(steps, "route", fmt::format("not to this node: {} by {}", hop_of(route), link));
    if (family() == Family::ipv6 && !node_.forwards_ipv6)
      return lose(steps, walk_.arrival, "route", Notice::none,
                  "this node does not forward (net.ipv6.conf.all.forwarding)");
    if (!pass(Table::mangle, "FORWARD", packet_, steps, walk_.arrival)) return;
    if (!pass(Table::filter, "FORWARD", packet_, steps, walk_.arrival)) return;
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
    if (!enter("OUTPUT", packet_, steps, arrival)) return;
    if (!pass_nat("output", "OUTPUT", packet_, steps, arrival)) return;
    if (packet_.destination_translated) {
      route = host_.route({.destination = packet_.destination, .source = packet_.source});
      if (!route)
        return lose(steps, arrival, "route", Notice::call_fails, route_failure(route.error()));
      note_way(*route);
    }
    if (choose_server()) return;
    if (!pass(Table::filter, "OUTPUT", packet_, steps, arrival)) return;
    if (route->local)
      loop_back(*route, packet_, steps, arrival);
    else
      leave(*route, packet_, steps, arrival, Fate::forwarded);
  }

  // Notes the outgoing link of a packet that this node sends.
  void note_way(const Route& route) {
    packet_.out_link = link_name(node_, route.out_link);
    note(walk_.steps, "route",
         route.local ? "to this node" + owner_of(packet_.destination)
                     : fmt::format("{} by {}", hop_of(route), packet_.out_link));
  }

  // After OUTPUT: a packet from this node to itself, over lo.
  void loop_back(const Route& route, Packet packet, Steps& steps, Arrival& arrival) {
    if (!post_route(route, packet, steps, arrival)) return;
    packet.confirmed = packet.tracking == Tracking::tracked;
    packet.in_link = "lo";
    packet.out_link.clear();
    if (!enter("PREROUTING", packet, steps, arrival)) return;
    if (!pass_filter_input(packet, steps, arrival)) return;
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
    note(steps, "socket",
         fmt::format("{}a socket of this node takes {}", heard ? "" : "it is not known whether ",
                     where),
         true);
    arrival.fate = Fate::delivered;
  }

  // POSTROUTING: decides the source that the destination sees. False if the packet ended here.
  bool post_route(const Route& route, Packet& packet, Steps& steps, Arrival& arrival) {
    packet.in_link.clear();
    packet.out_link = link_name(node_, route.out_link);
    packet.in_bridge_port = false;
    if (!pass(Table::mangle, "POSTROUTING", packet, steps, arrival)) return false;
    arrival.source = packet.source;
    if (packet.connection && !node_.tracks_ipvs) {
      arrival.source_because = "connections of IPVS are not tracked (net.ipv4.vs.conntrack is 0)";
      note(steps, "nat POSTROUTING", "not met: " + arrival.source_because);
      return true;
    }
    if (packet.established) {
      arrival.source_because = "as for the first packet of its connection";
      return true;
    }
    packet.destination_settled = false;
    const auto first = steps.size();
    if (!pass_nat("postrouting", "POSTROUTING", packet, steps, arrival)) return false;
    if (last_end_ == ChainEnd::translated) return true;
    if (last_end_ != ChainEnd::masqueraded) {
      arrival.source_because = steps.size() > first && !steps.back().unjudged
                                   ? fmt::format("{} {}", steps.back().chain, steps.back().text)
                                   : "no rule masquerades it";
      return true;
    }
    return masquerade(route, packet, steps, arrival);
  }

  bool masquerade(const Route& route, Packet& packet, Steps& steps, Arrival& arrival) {
    const auto source = masquerade_address(route, packet);
    if (!source) {
      lose(steps, arrival, "nat POSTROUTING", Notice::none, "no address to masquerade with");
      return false;
    }
    const auto& rule = steps.back();
    arrival.masqueraded = true;
    arrival.source_because = rule.found.empty() && !marked_because_.empty()
                                 ? "marked by " + marked_because_
                                 : fmt::format("{} {}{}{}", rule.chain, rule.text,
                                               rule.found.empty() ? "" : ": ", rule.found);
    packet.source = *source;
    arrival.source = *source;
    note(steps, "nat POSTROUTING", "source becomes " + source->to_string());
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

  void leave(const Route& route, Packet packet, Steps& steps, Arrival& arrival, Fate fate) {
    if (!post_route(route, packet, steps, arrival)) return;
    arrive(fate, link_name(node_, route.out_link), arrival);
    const auto to = packet.destination.to_string();
    note(steps, "link",
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
      note(steps, "IPVS", "no virtual service for it");
      return false;
    }
    walk_.service = choice.service->service;
    walk_.passed_over = choice.passed_over;
    note(steps, "IPVS", choice.text);
    if (choice.candidates.empty()) {
      if (choice.passes) {
        note(steps, "IPVS", "not one of its ports: it passes");
        return false;
      }
      lose(steps, walk_.arrival, "IPVS", Notice::port_unreachable, choice.why_none);
      return true;
    }
    packet_.connection = choice.service->service.key;
    for (const auto& server : choice.candidates) walk_.candidates.push_back(try_server(server));
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
    if (route->local && !walk_.sent_here) {
      if (pass(Table::nat, "INPUT", packet, steps, arrival)) deliver(packet, steps, arrival);
      if (arrival.source_because.empty())
        arrival.source_because = "the server is this node: nothing is masqueraded";
      return candidate;
    }
    packet.in_link.clear();
    packet.out_link = link_name(node_, route->out_link);
    packet.in_bridge_port = false;
    if (!route->local && !enter("OUTPUT", packet, steps, arrival)) return candidate;
    if (!pass(Table::filter, "OUTPUT", packet, steps, arrival)) return candidate;
    if (route->local)
      loop_back(*route, packet, steps, arrival);
    else
      leave(*route, packet, steps, arrival, Fate::served);
    return candidate;
  }

  const NodeReading& node_;
  netlink::HostReader& host_;
  std::int32_t in_index_ = 0;
  Packet packet_;
  ChainEnd last_end_ = ChainEnd::accepted;
  std::string marked_because_;
  PacketWalk walk_;
};

}  // namespace

Result<PacketWalk> walk_packet(const Flow& flow, const NodeReading& node,
                               netlink::HostReader& host) {
  return Walker(flow, node, host).walk();
}

}  // namespace ipvsproxier::ctl
