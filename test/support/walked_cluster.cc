#include "test/support/walked_cluster.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ipset/rules/localhost_rules.h"
#include "proxier/model/cluster_state.h"
#include "test/support/cluster_builder.h"
#include "test/support/ip.h"
#include "test/support/whole_table.h"

namespace ipvsproxier::test {

using ctl::NodeReading;
using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;

namespace {

constexpr std::int32_t kLo = 1;
constexpr std::int32_t kEth0 = 2;
constexpr std::int32_t kCni0 = 3;
constexpr std::int32_t kDummy = 4;
constexpr std::int32_t kEth1 = 6;
constexpr std::int32_t kFirstOfLoop = 7;
constexpr std::int32_t kSecondOfLoop = 8;

std::int32_t link_of(const std::string& name) {
  if (name == "lo") return kLo;
  if (name == "cni0") return kCni0;
  return name == "eth1" ? kEth1 : kEth0;
}

IpAddress node_address(Family family) {
  return ip(family == Family::ipv4 ? "10.0.0.1" : "fd00:1::1");
}

// Every third address is of a pod of this node.
bool is_here(const IpAddress& address) {
  return address.bytes().back() % 3 == 0;
}

void settle(api::Endpoint& endpoint, RandomCluster& random, WalkedCluster& world) {
  const bool here = is_here(endpoint.address);
  endpoint.node_name = here ? "n1" : "n2";
  if (here && random.chance(10))
    endpoint.address = node_address(endpoint.address.family());
  else
    (here ? world.local_pods : world.remote_pods).insert(endpoint.address);
}

void settle(model::SlicesByName& slices, RandomCluster& random, WalkedCluster& world) {
  for (auto slice : model::SlicesByName(slices)) {
    auto endpoints = slice.endpoints.unpack();
    for (auto& endpoint : endpoints) settle(endpoint, random, world);
    slice.endpoints = endpoints;
    slices.insert_or_assign(slice);
  }
}

void add_sockets(const WalkedCluster& world, NodeReading& node) {
  node.listeners.emplace();
  const auto add = [&](Protocol protocol, std::uint16_t port) {
    node.listeners->push_back({protocol, ip("::"), port, true});
  };
  add(Protocol::tcp, 2);
  add(Protocol::tcp, 22);
  add(Protocol::udp, 53);
  for (const auto port : world.health_ports) add(Protocol::tcp, port);
}

void add_links(const WalkedCluster& world, const plan::DesiredState& desired, NodeReading& node) {
  node.links = {{kLo, "lo", ""},
                {kEth0, "eth0", ""},
                {kCni0, "cni0", "bridge"},
                {kDummy, "kube-ipvs0", "dummy"},
                {5, "veth1", "veth", kCni0},
                {kEth1, "eth1", ""}};
  if (world.options.node_port_localhost) {
    node.links.push_back({kFirstOfLoop, std::string(ipset::kFirstLoopLink), "veth"});
    node.links.push_back({kSecondOfLoop, std::string(ipset::kSecondLoopLink), "veth"});
  }
  for (const auto& one : world.node.addresses) {
    const bool global = !one.address.is_loopback() && !one.address.is_link_local();
    node.addresses.push_back({link_of(one.link), one.address, one.prefix_length, global});
  }
  if (desired.places == plan::Places::local_table) return;
  for (const auto& address : desired.addresses)
    node.addresses.push_back({kDummy, address, netlink::address_bits(address.family())});
}

}  // namespace

WalkedCluster walked_cluster(RandomCluster& random, int services) {
  WalkedCluster world{.cluster = random.cluster(services),
                      .node = random.node(),
                      .options = random.options(),
                      .local_pods = {ip("10.244.0.250"), ip("fd00:244::fa")},
                      .remote_pods = {ip("10.244.9.9"), ip("fd00:244:9::9")},
                      .health_ports = {},
                      .bridge_calls = {}};
  for (auto& [name, slices] : world.cluster.slices) settle(slices, random, world);
  std::uint16_t node_port = 80;
  for (auto& [name, service] : world.cluster.services) {
    if (service.health_check_node_port != 0)
      world.health_ports.insert(service.health_check_node_port);
    // A port may have the number of another Service's node port.
    for (auto& port : service.ports) {
      if (random.chance(20)) port.port = node_port;
      if (port.node_port != 0) node_port = port.node_port;
    }
  }
  world.options.bind_by_routes = random.chance(20);
  // Packets of pods come from the bridge.
  if (random.chance(70)) world.options.interface_prefix = "cni";
  if (random.chance(50)) world.bridge_calls = {Family::ipv4, Family::ipv6};
  world.options.differences.in_cluster_clients = random.chance(50);
  world.options.node_port_localhost = random.chance(30);
  world.options.in_cluster_ranges = {prefix("240.0.0.0/4"), prefix("fd69:7076:7300::/64")};
  return world;
}

NodeReading reading_of(const WalkedCluster& world, ipset::PacketFilter filter) {
  auto options = world.options;
  options.packet_filter = filter;
  const auto desired = plan::plan(world.cluster, world.node, options).state;
  NodeReading node;
  for (const auto& [key, planned] : desired.services) {
    auto& service = node.services[key];
    service.service = planned.service;
    service.servers.emplace();
    for (const auto& server : planned.servers)
      service.servers->insert_or_assign(netlink::RealServer{.key = server});
  }
  for (const auto& [key, elements] : desired.sets) {
    auto& set = node.sets[ipset::set_name(key.id, key.family)];
    for (const auto& element : elements) set.insert(element);
  }
  for (const auto& [family, parameters] : desired.rules)
    for (const auto& rules : ipset::rules_for(filter, family, parameters))
      node.tables.emplace(plan::TableKey{family, rules.table}, whole_table(rules));
  add_links(world, desired, node);
  for (const auto& link : node.links) node.forwards_ipv4.insert(link.name);
  node.bridge_calls = world.bridge_calls;
  add_sockets(world, node);
  return node;
}

WalkedHost::WalkedHost(const WalkedCluster& world, const NodeReading& reading)
    : world_(world), reading_(reading) {
  for (const auto& one : reading.addresses) own_.insert(one.address);
  for (const auto& [key, service] : reading.services) own_.insert(key.address);
}

netlink::Result<std::vector<netlink::LinkRecord>> WalkedHost::links() {
  return reading_.links;
}
netlink::Result<std::vector<netlink::AddressRecord>> WalkedHost::addresses() {
  return reading_.addresses;
}
netlink::Result<std::vector<netlink::Listener>> WalkedHost::listeners() {
  return *reading_.listeners;
}

netlink::Result<netlink::Route> WalkedHost::route(const netlink::RouteQuestion& question) {
  const auto& to = question.destination;
  const auto family = to.family();
  const bool on_link =
      std::ranges::count(reading_.addresses, to, &netlink::AddressRecord::address) != 0;
  // Of an address in the table "local" alone the kernel makes no source.
  if (own_.contains(to) || to.is_loopback())
    return netlink::Route{.local = true,
                          .out_link = kLo,
                          .gateway = {},
                          .source = on_link || to.is_loopback() ? to : node_address(family)};
  const auto& loop = ipset::localhost_loop(family);
  const bool on_localhost = world_.options.node_port_localhost;
  if (on_localhost && (to == loop.near || to == loop.far))
    return netlink::Route{.out_link = to == loop.near ? kFirstOfLoop : kSecondOfLoop,
                          .gateway = {},
                          .source = node_address(family)};
  if (world_.local_pods.contains(to))
    return netlink::Route{.out_link = kCni0,
                          .gateway = {},
                          .source = ip(family == Family::ipv4 ? "10.244.0.1" : "fd00:244::1")};
  return netlink::Route{.out_link = kEth0,
                        .gateway = ip(family == Family::ipv4 ? "10.0.0.254" : "fd00:1::fe"),
                        .source = node_address(family)};
}

}  // namespace ipvsproxier::test
