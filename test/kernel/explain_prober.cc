#include "test/kernel/explain_prober.h"

#include <net/if.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "cmd/ipvsctl/explain/node_reading.h"
#include "cmd/ipvsctl/explain/walk_text.h"
#include "test/kernel/traffic.h"
#include "test/support/require.h"

namespace ipvsproxier::test {
namespace {

constexpr int kUntilRefused = 20;  // ms

using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;

std::string seen_at(const IpAddress& address, std::uint16_t port, const IpAddress& source) {
  return netlink::to_string(address, port) + " sees " + source.to_string();
}

// How a chain would end the packet of which only the kernel knows whether it is the first one.
std::set<Outcome> said_otherwise(const ctl::PacketWalk& walk) {
  constexpr std::string_view kWould = "the newer one is first; this one would ";
  std::set<Outcome> outcomes;
  for (const auto& step : walk.steps) {
    const auto at = step.text.find(kWould);
    if (at == std::string::npos) continue;
    const auto end = step.text.substr(at + kWould.size());
    const auto notice = end.find('(');
    outcomes.insert(notice == std::string::npos
                        ? "lost"
                        : "refused: " + end.substr(notice + 1, end.size() - notice - 2));
  }
  return outcomes;
}

std::set<Outcome> said(const ctl::PacketWalk& walk) {
  std::set<Outcome> outcomes;
  const auto add = [&](const ctl::Arrival& arrival, const IpAddress& address, std::uint16_t port) {
    switch (arrival.fate) {
      case ctl::Fate::served:
        outcomes.insert(seen_at(address, port, arrival.source));
        break;
      case ctl::Fate::delivered:
        outcomes.insert("host sees " + arrival.source.to_string());
        break;
      case ctl::Fate::forwarded:
        outcomes.insert("leaves by " + arrival.out_link + ": " +
                        (arrival.translated_to.empty()
                             ? seen_at(address, port, arrival.source)
                             : arrival.translated_to + " sees " + arrival.source.to_string()));
        break;
      case ctl::Fate::refused:
        outcomes.insert("refused: " + std::string(to_string(arrival.notice)));
        break;
      case ctl::Fate::dropped:
        outcomes.insert("lost");
        break;
    }
  };
  if (walk.candidates.empty()) add(walk.arrival, walk.flow.destination, walk.flow.port);
  for (const auto& candidate : walk.candidates)
    add(candidate.arrival, candidate.server.key.address,
        candidate.server.key.port != 0 ? candidate.server.key.port : walk.flow.port);
  return outcomes;
}

bool is_probe(const SeenPacket& packet, const Probe& probe, std::uint16_t source_port) {
  if (packet.protocol != static_cast<std::uint8_t>(probe.protocol)) return false;
  return probe.protocol == Protocol::udp ? packet.destination_port != source_port : packet.opens;
}

// A notice counts if it reaches the sender's socket. That of SCTP does not listen to ICMP; a packet
// of the node itself is refused in the call already.
bool is_noticed(const Probe& probe, const netlink::Result<EchoAnswer>& answer) {
  if (probe.protocol == Protocol::sctp) return true;
  if (answer) return false;
  const auto code = answer.error().sys_errno;
  return code == ECONNREFUSED || (probe.sender.on_node && code == EPERM);
}

}  // namespace

std::string kind_of(const Outcome& outcome) {
  const auto word = outcome.substr(0, outcome.find_first_of(" :"));
  for (const char* kind : {"host", "leaves", "refused", "lost"})
    if (word == kind) return kind;
  return "served";
}

bool is_bridge_address(const IpAddress& address) {
  return address == ip("10.244.0.1") || address == ip("fd00:244::1");
}

bool is_pod_address(const IpAddress& address) {
  const auto range = *netlink::IpPrefix::parse(address.family() == Family::ipv4 ? "10.244.0.0/16"
                                                                                : "fd00:244::/48");
  return range.contains(address) && !is_bridge_address(address);
}

Prober::Prober(const Cluster& cluster)
    : cluster_(cluster),
      n2_{"n2", cluster.remote(1).netns, ip("10.200.0.3"), ip("fd00:200::3")},
      node_sniffer_(cluster.netns()) {
  for (const auto* host :
       std::initializer_list<const Host*>{&cluster.client(), &cluster.stranger(), &n2_,
                                          &cluster.local(1), &cluster.local(2), &cluster.local(3)})
    sniffers_.emplace(host->netns, *host->netns);
}

std::string Prober::link_name(std::int32_t index) const {
  return cluster_.netns().inside([&] {
    std::array<char, IF_NAMESIZE> name{};
    return std::string(::if_indextoname(static_cast<unsigned>(index), name.data()));
  });
}

// The packet came to n1, through the link of which explain speaks.
bool Prober::came(const Probe& probe, const ctl::PacketWalk& walk, std::uint16_t port,
                  const std::vector<SeenPacket>& at_node) const {
  return std::ranges::any_of(at_node, [&](const SeenPacket& packet) {
    // What the bridge takes from one pod to another is seen on their ports alone.
    const auto link = link_name(packet.link);
    const bool in_link =
        link == walk.flow.in_link || (walk.flow.in_link == "cni0" && link.starts_with("local-"));
    return !packet.outgoing && is_probe(packet, probe, port) && packet.source_port == port &&
           packet.destination == probe.destination && in_link;
  });
}

Outcome Prober::happened(const Probe& probe, const ctl::PacketWalk& walk, int wait) {
  const auto& host = *probe.sender.host;
  node_sniffer_.take();
  for (auto& [_, sniffer] : sniffers_) sniffer.take();
  const auto port = source_port_++;
  const auto answer =
      host.ask(probe.protocol, probe.destination, probe.port,
               {.source = probe.sender.source, .source_port = port, .timeout_ms = wait});
  // The call fails before what refuses the packet has come back.
  if (!answer && answer.error().sys_errno == EPERM) ::poll(nullptr, 0, kUntilRefused);

  heard_ = test::outcome(answer);
  const auto at_node = node_sniffer_.take();
  std::map<const Netns*, std::vector<SeenPacket>> seen;
  for (auto& [netns, sniffer] : sniffers_) seen[netns] = sniffer.take();
  if (!probe.sender.on_node) {
    std::string passed;
    for (const auto& one : at_node)
      passed += fmt::format("{} {} {} -> {}\n", link_name(one.link), one.outgoing ? "out" : "in",
                            netlink::to_string(one.source, one.source_port),
                            netlink::to_string(one.destination, one.destination_port));
    INFO("sender: " << heard_ << "; n1 saw\n" << passed);
    CHECK(came(probe, walk, port, at_node));
  }

  if (answer && answer->server == "host") return "host sees " + answer->client.to_string();
  for (const auto& [netns, packets] : seen)
    for (const auto& packet : packets)
      if (!packet.outgoing && is_probe(packet, probe, port) && is_pod_address(packet.destination)) {
        const auto at = seen_at(packet.destination, packet.destination_port, packet.source);
        // Whom the server sees is whom it tells of.
        if (answer) CHECK(answer->client == packet.source);
        return walk.arrival.fate == ctl::Fate::forwarded
                   ? "leaves by " + walk.arrival.out_link + ": " + at
                   : at;
      }
  // What comes of it behind the next hop is not explain's, and may be told late.
  for (const auto& packet : at_node)
    if (packet.outgoing && is_probe(packet, probe, port) &&
        packet.destination == probe.destination && packet.destination_port == probe.port) {
      const auto name = link_name(packet.link);
      if (name == "lo") continue;
      return "leaves by " + name + ": " +
             seen_at(packet.destination, packet.destination_port, packet.source);
    }
  const auto& around = probe.sender.on_node ? at_node : seen[host.netns];
  for (const auto& packet : around) {
    if (packet.outgoing) continue;
    if (packet.resets && packet.destination_port == port) {
      CHECK(is_noticed(probe, answer));
      return "refused: TCP reset";
    }
    // Of an earlier probe it may be told late.
    if (packet.about_port >= kFirstPort && packet.about_port < port) continue;
    if (packet.port_unreachable) {
      CHECK(is_noticed(probe, answer));
      return "refused: ICMP port unreachable";
    }
    if (packet.host_unreachable) return "refused: ICMP host unreachable";
    if (packet.prohibited) return "refused: ICMP prohibited";
  }
  if (!answer && (answer.error().sys_errno == EINVAL || answer.error().sys_errno == ENETUNREACH))
    return "refused: the sender's call fails";
  return "lost";
}

Outcome Prober::check(const Probe& probe) {
  const auto& host = *probe.sender.host;
  const auto family = probe.destination.family();
  const ctl::Flow flow{
      .source = probe.sender.on_node ? probe.sender.source : std::optional(host.address(family)),
      .destination = probe.destination,
      .port = probe.port,
      .protocol = probe.protocol,
      .in_link = probe.in_link};
  INFO(probe.facet << ": " << host.name << " " << (flow.source ? flow.source->to_string() : "any")
                   << " -> " << netlink::to_string(probe.destination, probe.port) << "/"
                   << netlink::to_string(probe.protocol));
  const auto walk = cluster_.netns().inside([&] {
    auto tables = require(ctl::open_node_tables());
    const auto node = require(ctl::read_node(tables, probe.destination));
    return require(ctl::walk_packet(flow, node, *tables.host));
  });
  auto expected = said(walk);
  expected.merge(said_otherwise(walk));
  const bool quiet = std::ranges::all_of(expected, [](const Outcome& outcome) {
    return outcome == "lost" || outcome.starts_with("leaves by eth0");
  });
  const bool cautious = std::ranges::any_of(
      walk.candidates, [](const ctl::Candidate& one) { return !one.arrival.cautions.empty(); });
  const auto outcome = happened(probe, walk, quiet || cautious ? kShortWait : 5000);
  INFO("sender: " << heard_ << "\n" << ctl::walk_text(walk, {}, nullptr));
  CHECK(expected == (expected.count(outcome) != 0 ? expected : std::set{outcome}));
  return outcome;
}

}  // namespace ipvsproxier::test
