// Random clusters, random packets, both packet filters: what becomes of a packet is the same. A
// failure prints the seed and both ways.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include <catch2/catch.hpp>

#include <fmt/format.h>

#include "cmd/ipvsctl/explain/packet_walk.h"
#include "ipset/rules/rule_types.h"
#include "ipset/sets/set_catalog.h"
#include "test/support/cluster_builder.h"
#include "test/support/random_run.h"
#include "test/support/walked_cluster.h"

namespace ipvsproxier::ctl {
namespace {

using ipset::PacketFilter;
using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;
using netlink::VirtualServiceKey;

constexpr std::uint32_t kClusters = 280;
constexpr int kPackets = 200;

// How often each kind of packet, and each end, was there.
using Counts = std::map<std::string, int>;

// One node through one packet filter.
struct Side {
  Side(const test::WalkedCluster& world, PacketFilter filter)
      : reading(test::reading_of(world, filter)), host(world, reading) {}

  PacketWalk walk(const Flow& flow) { return walk_packet(flow, reading, host).value(); }

  NodeReading reading;
  test::WalkedHost host;
};

struct RandomPacket {
  Flow flow;
  std::string from;  // "pod"
  std::string to;    // "virtual service"
};

class Packets {
 public:
  Packets(test::RandomCluster& random, const test::WalkedCluster& world, const Side& side)
      : random_(random), world_(world) {
    for (const auto& [key, service] : side.reading.services) services_.push_back(&service);
  }

  RandomPacket next() {
    RandomPacket packet;
    auto& flow = packet.flow;
    family_ = random_.chance(60) ? Family::ipv4 : Family::ipv6;
    flow.protocol = any(std::vector{Protocol::tcp, Protocol::udp, Protocol::sctp});
    flow.established = random_.chance(25);
    flow.source_port = 40'000;
    servers_.clear();
    aim(packet);
    send(packet);
    return packet;
  }

 private:
  template <typename Values>
  typename Values::value_type any(const Values& values) {
    const auto last = static_cast<int>(values.size()) - 1;
    return *std::next(values.begin(), random_.number(0, last));
  }

  std::vector<IpAddress> of_family(const std::set<IpAddress>& addresses) const {
    std::vector<IpAddress> result;
    for (const auto& one : addresses)
      if (one.family() == family_) result.push_back(one);
    return result;
  }

  IpAddress either(const char* v4, const char* v6) const {
    return test::ip(family_ == Family::ipv4 ? v4 : v6);
  }

  // A VIP, or the node itself at a node port.
  void aim_at_service(RandomPacket& packet, const plan::ActualService& service) {
    const auto& key = service.service.key;
    packet.flow.destination = key.address;
    packet.flow.port = key.port;
    packet.flow.protocol = key.protocol;
    family_ = key.address.family();
    for (const auto& server : *service.servers) servers_.push_back(server.key.address);
    packet.to = key.port >= 30'000 && key.port <= 30'040 ? "node port" : "virtual service";
  }

  void aim(RandomPacket& packet) {
    auto& flow = packet.flow;
    const auto choice = random_.number(1, 100);
    if (!services_.empty() && choice <= 80) {
      const auto* service = any(services_);
      if (service->servers->empty()) service = any(services_);
      aim_at_service(packet, *service);
      if (choice <= 65) return;
      packet.to = "other port of it";
      flow.port = any(std::vector<std::uint16_t>{1, 2, 3, 22, 53, 4444, 30'001, 30'007});
      if (choice > 72 && !world_.health_ports.empty()) {
        packet.to = "health port of it";
        flow.port = any(world_.health_ports);
      }
      return;
    }
    flow.port = any(std::vector<std::uint16_t>{2, 22, 53, 8080, 30'003, 30'011});
    if (choice <= 88) {
      packet.to = "node";
      flow.destination = any(own_addresses());
    } else if (choice <= 94) {
      packet.to = "pod";
      flow.destination =
          any(of_family(random_.chance(50) ? world_.local_pods : world_.remote_pods));
    } else {
      packet.to = "elsewhere";
      flow.destination = either("8.8.8.8", "2001:db8::8");
    }
  }

  std::vector<IpAddress> own_addresses() const {
    std::vector<IpAddress> result{either("127.0.0.1", "::1")};
    for (const auto& one : world_.node.addresses)
      if (one.address.family() == family_ && !one.address.is_link_local())
        result.push_back(one.address);
    return result;
  }

  void send(RandomPacket& packet) {
    auto& flow = packet.flow;
    const auto choice = random_.number(1, 100);
    if (choice <= 10 && !servers_.empty()) {
      const auto server = any(servers_);
      packet.from = "server of it";
      flow.source = server;
    } else if (choice <= 35) {
      packet.from = "pod";
      flow.source = any(of_family(world_.local_pods));
    } else if (choice <= 45) {
      packet.from = "remote pod";
      flow.source = any(of_family(world_.remote_pods));
    } else if (choice <= 75) {
      packet.from = "outside";
      flow.source = outside();
    } else if (choice <= 88) {
      packet.from = "this node";
    } else {
      packet.from = "this node, bound";
      flow.source = any(own_addresses());
    }
    if (flow.source == flow.destination) flow.source.reset();
  }

  // Within source ranges, at times.
  IpAddress outside() {
    const auto near = random_.number(1, 3);
    const auto v4 = fmt::format("203.{}.0.{}", random_.number(0, 1), near);
    const auto v6 = fmt::format("fd00:{}::{}", random_.chance(50) ? "203" : "999", near);
    return random_.chance(20) ? either("10.9.9.9", "2001:db8::9") : either(v4.c_str(), v6.c_str());
  }

  test::RandomCluster& random_;
  const test::WalkedCluster& world_;
  std::vector<const plan::ActualService*> services_;
  Family family_ = Family::ipv4;
  std::vector<IpAddress> servers_;
};

std::string end_of(const Arrival& arrival, bool with_source) {
  auto text = fmt::format("{} {}", to_string(arrival.fate), to_string(arrival.notice));
  const bool lost = arrival.fate == Fate::refused || arrival.fate == Fate::dropped;
  if (with_source && !lost) text += " from " + arrival.source.to_string();
  return text;
}

// Verdict, endpoints, and the source that each sees. A packet that is dropped whichever endpoint
// was chosen is dropped.
std::string outcome_of(const PacketWalk& walk, bool with_source) {
  const bool sources = with_source && !walk.flow.established;
  if (walk.candidates.empty()) return end_of(walk.arrival, sources);
  if (std::ranges::all_of(walk.candidates,
                          [](const Candidate& one) { return one.arrival.fate == Fate::dropped; }))
    return end_of(walk.candidates.front().arrival, sources);
  std::string text;
  for (const auto& one : walk.candidates)
    text += fmt::format("{}: {}\n", to_string(one.server.key), end_of(one.arrival, sources));
  return text;
}

std::string way_of(const PacketWalk& walk) {
  std::string text;
  const auto add = [&](const std::vector<WalkStep>& steps) {
    for (const auto& step : steps)
      text += fmt::format("  {}: {} {} {}\n", step.stage, step.chain, step.text, step.found);
  };
  add(walk.steps);
  for (const auto& one : walk.candidates) {
    text += " " + to_string(one.server.key) + "\n";
    add(one.steps);
  }
  return text + outcome_of(walk, true);
}

bool has_end(const PacketWalk& walk, const char* why) {
  return std::ranges::all_of(walk.candidates, [why](const Candidate& one) {
    return one.arrival.why.find(why) != std::string::npos;
  });
}

void count(const RandomPacket& packet, const PacketWalk& walk, Counts& counts) {
  const auto& flow = packet.flow;
  const auto fate = std::string(to_string(walk.arrival.fate));
  ++counts["from " + packet.from];
  ++counts["to " + packet.to];
  ++counts[fate];
  ++counts[fmt::format("{} {}", to_lower_string(flow.protocol), fate)];
  ++counts[std::string(flow.established ? "established " : "new ") + fate];
  ++counts[fmt::format("{} {}", flow.destination.family() == Family::ipv4 ? "IPv4" : "IPv6", fate)];
  for (const auto& one : walk.candidates) {
    ++counts[fmt::format("from {}, {}", packet.from,
                         one.arrival.masqueraded ? "masqueraded" : "kept")];
    ++counts[std::string("server ") + std::string(to_string(one.arrival.fate))];
  }
  const auto is_outside = [](const WalkStep& step) {
    return step.decides && step.found.find("restricted has no range") != std::string::npos;
  };
  if (std::ranges::any_of(walk.steps, is_outside))
    ++counts[std::string(walk.sent_here ? "this node" : "client") + " outside of source ranges"];
  for (const auto& one : walk.candidates)
    if (one.arrival.source_because.find("local_endpoints") != std::string::npos)
      ++counts["hairpin"];
}

// Both sides of one cluster, and a packet's ways through them.
struct Pair {
  const test::WalkedCluster& world;
  Side& iptables;
  Side& nftables;
};
struct Ways {
  PacketWalk legacy;
  PacketWalk native;
};

bool is_in(const NodeReading& node, ipset::SetId id, const Flow& flow,
           const ipset::Element& element) {
  const auto set = node.sets.find(ipset::set_name(id, flow.destination.family()));
  return set != node.sets.end() && set->second.contains(element);
}

// The way through iptables if the packet's element were not in the set.
PacketWalk without(Side& side, ipset::SetId id, const Flow& flow, const ipset::Element& element) {
  auto& set = side.reading.sets.at(ipset::set_name(id, flow.destination.family()));
  auto taken = set.extract(element);
  auto walk = side.walk(flow);
  set.insert(std::move(taken));
  return walk;
}

// The way through iptables if this node's own packets had no source ranges behind IPVS.
PacketWalk without_out_filter(Side& side, const Flow& flow) {
  const plan::TableKey filter{flow.destination.family(), ipset::Table::filter};
  auto& rules = side.reading.tables.at(filter).chains.at(std::string(ipset::kUnorderedChain));
  auto kept = std::exchange(rules, {});
  auto walk = side.walk(flow);
  rules = std::move(kept);
  return walk;
}

// A Service's address alone, which no node port has.
bool is_vip_alone(const Pair& pair, const Flow& flow) {
  const bool is_own = std::ranges::any_of(
      pair.world.node.addresses, [&](const auto& own) { return own.address == flow.destination; });
  return !is_own && is_in(pair.nftables.reading, ipset::SetId::nft_vips, flow,
                          ipset::IpElement{flow.destination});
}

// The planned source ranges of the packet's virtual service.
struct PlannedRanges {
  bool exist = false;
  bool hold_source = false;
};

PlannedRanges planned_ranges(const NodeReading& node, const Flow& flow) {
  PlannedRanges ranges;
  const auto set =
      node.sets.find(ipset::set_name(ipset::SetId::nft_source_ranges, flow.destination.family()));
  if (set == node.sets.end()) return ranges;
  for (const auto& element : set->second) {
    const auto& one = std::get<ipset::RangesElement>(element);
    if (one.ip != flow.destination || one.protocol != flow.protocol || one.port != flow.port)
      continue;
    ranges.exist = true;
    for (const auto& range : one.ranges)
      if (range.contains(*flow.source)) ranges.hold_source = true;
  }
  return ranges;
}

// Of this node's own packets to a Service that has source ranges.
std::string exception_of_ranges(const Pair& pair, const Flow& flow, const Ways& ways) {
  const auto& [legacy, native] = ways;
  const auto ranges = planned_ranges(pair.nftables.reading, legacy.flow);
  if (!legacy.sent_here || !ranges.exist) return "";
  const bool chosen = legacy.flow.source != flow.destination;
  const auto& end = native.arrival;
  const bool native_drops =
      native.candidates.empty() && end.fate == Fate::dropped && end.notice == Notice::none;
  const bool has_servers = !legacy.candidates.empty();
  const bool cut = has_servers && !gets_there(legacy) && has_end(legacy, "KUBE-IPVS-OUT-FILTER");
  if (native_drops && !ranges.hold_source && !flow.established) {
    if (legacy.arrival.why.find("it has no real server") != std::string::npos)
      return "outside of source ranges, nothing serves";
    return chosen && has_servers && !cut ? "outside of source ranges, source chosen" : "";
  }
  if (!cut || outcome_of(without_out_filter(pair.iptables, flow), true) != outcome_of(native, true))
    return "";
  // With routes kube-proxy's rule sees any address of the node, also one that the ranges hold.
  const bool by_routes = pair.world.options.bind_by_routes && chosen;
  if (flow.established && (!ranges.hold_source || by_routes))
    return "outside of source ranges, established";
  return by_routes && ranges.hold_source ? "outside of source ranges, source chosen" : "";
}

// Why the outcomes may differ, if this is one of the exceptions (docs/differences.md, "Between the
// packet filters"), and nf_tables has just the outcome that the exception says; "" if not.
std::string exception_of(const Pair& pair, const Flow& flow, const Ways& ways) {
  using ipset::SetId;
  const bool tcp = flow.protocol == Protocol::tcp;
  const auto by_element = [&](SetId id, const ipset::Element& element) {
    return is_in(pair.iptables.reading, id, flow, element) &&
           outcome_of(without(pair.iptables, id, flow, element), true) ==
               outcome_of(ways.native, true);
  };
  const auto by_number = [&](SetId id) {
    return is_vip_alone(pair, flow) && by_element(id, ipset::PortElement{flow.port});
  };
  if (flow.protocol != Protocol::sctp &&
      by_number(tcp ? SetId::node_port_tcp : SetId::node_port_udp))
    return "number of a node port";
  if (!tcp && by_number(SetId::health_check_node_port)) return "number of a health port";
  if (flow.destination.is_loopback() && flow.source && !flow.source->is_loopback() &&
      by_element(SetId::node_port_sctp_hash,
                 ipset::IpPortElement{flow.destination, flow.protocol, flow.port}))
    return "SCTP to localhost, source chosen";
  // Such packets do not get to other nodes, whatever the rules.
  if (ways.legacy.sent_here && flow.source && flow.source->is_loopback() &&
      has_end(ways.native, "a loopback source does not leave this node"))
    return "loopback source";
  return exception_of_ranges(pair, flow, ways);
}

void compare(const RandomPacket& packet, const Pair& pair, Counts& counts) {
  const Ways ways{pair.iptables.walk(packet.flow), pair.nftables.walk(packet.flow)};
  const auto& [legacy, native] = ways;
  INFO(packet.from << " " << (legacy.flow.source ? legacy.flow.source->to_string() : "?") << " to "
                   << packet.to << " "
                   << netlink::to_string(packet.flow.destination, packet.flow.port) << "/"
                   << to_string(packet.flow.protocol)
                   << (packet.flow.established ? ", established" : ""));
  INFO("iptables\n" << way_of(legacy));
  INFO("nf_tables\n" << way_of(native));
  CHECK((is_certain(legacy) && is_certain(native)));
  count(packet, native, counts);
  // What only nf_tables does.
  if (pair.world.options.differences.in_cluster_clients || pair.world.options.node_port_localhost)
    return;
  if (outcome_of(legacy, true) == outcome_of(native, true)) return;
  const auto exception = exception_of(pair, packet.flow, ways);
  ++counts["exception: " + exception];
  if (exception.empty()) CHECK(outcome_of(legacy, true) == outcome_of(native, true));
}

const std::vector<std::string> kFates{"served", "delivered", "forwarded", "refused"};

// Each kind of packet was there.
void check_coverage(const Counts& counts) {
  std::vector<std::string> wanted{"exception: number of a node port",
                                  "exception: number of a health port",
                                  "exception: outside of source ranges, nothing serves",
                                  "exception: outside of source ranges, source chosen",
                                  "exception: outside of source ranges, established",
                                  "client outside of source ranges",
                                  "this node outside of source ranges",
                                  "hairpin",
                                  "dropped",
                                  "server served",
                                  "server delivered",
                                  "to virtual service",
                                  "to node port",
                                  "to other port of it",
                                  "to health port of it",
                                  "to node",
                                  "to pod",
                                  "to elsewhere"};
  for (const auto& fate : kFates)
    for (const auto* kind : {"tcp", "udp", "sctp", "new", "established", "IPv4", "IPv6"})
      wanted.push_back(fmt::format("{} {}", kind, fate));
  for (const auto* from : {"server of it", "pod", "remote pod", "outside", "this node"})
    for (const auto* source : {"masqueraded", "kept"})
      wanted.push_back(fmt::format("from {}, {}", from, source));
  for (const auto& one : wanted) {
    INFO(one);
    CHECK(counts.contains(one));
  }
}

TEST_CASE("random clusters, random packets: both packet filters do the same of what both have") {
  Counts counts;
  for (std::uint32_t seed = 0; seed < test::seeds(kClusters); ++seed) {
    INFO("seed " << seed);
    test::RandomCluster random(seed);
    auto world = test::walked_cluster(random, 30);
    if (seed % 4 != 0) {
      world.options.differences.in_cluster_clients = false;
      world.options.node_port_localhost = false;
    }
    Side iptables(world, PacketFilter::iptables);
    Side nftables(world, PacketFilter::nftables);
    Packets packets(random, world, iptables);
    for (int i = 0; i < kPackets; ++i) compare(packets.next(), {world, iptables, nftables}, counts);
  }
  if (const auto* const shown = std::getenv("IPVS_PROXIER_COUNTS"); shown != nullptr)
    for (const auto& [what, number] : counts) fmt::print("{} {}\n", number, what);
  check_coverage(counts);
}

}  // namespace
}  // namespace ipvsproxier::ctl
