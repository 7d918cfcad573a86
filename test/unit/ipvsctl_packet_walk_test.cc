// Ways of packets through the rules, sets and virtual services that kube-proxy left for the shop.

#include "cmd/ipvsctl/explain/packet_walk.h"

#include <algorithm>
#include <cerrno>
#include <sstream>

#include <catch2/catch.hpp>

#include "test/reference_rules.h"
#include "test/support/files.h"
#include "test/support/ip.h"
#include "test/support/paths.h"
#include "test/support/whole_table.h"

namespace ipvsproxier::ctl {
namespace {

using netlink::IpAddress;
using netlink::Protocol;
using test::ip;

// A node 10.200.0.2 with its pods behind cni0; all else is behind eth0's gateway.
class ShopHost final : public netlink::HostReader {
 public:
  explicit ShopHost(const NodeReading& node) : node_(node) {}

  netlink::Result<std::vector<netlink::LinkRecord>> links() override { return node_.links; }
  netlink::Result<std::vector<netlink::AddressRecord>> addresses() override {
    return node_.addresses;
  }
  netlink::Result<std::vector<netlink::Listener>> listeners() override { return *node_.listeners; }
  netlink::Result<netlink::Route> route(const netlink::RouteQuestion& question) override {
    const auto& to = question.destination;
    const bool own = to.is_loopback() ||
                     std::ranges::count(node_.addresses, to, &netlink::AddressRecord::address);
    if (own) return netlink::Route{.local = true, .out_link = 1, .source = to};
    if (to == ip("198.51.100.99"))
      return netlink::make_error(netlink::Operation::generic, ENETUNREACH, "route");
    if (netlink::IpPrefix::parse("10.244.0.0/24")->contains(to))
      return netlink::Route{.out_link = 3, .source = ip("10.244.0.1")};
    return netlink::Route{.out_link = 2, .gateway = ip("10.200.0.1"), .source = ip("10.200.0.2")};
  }

 private:
  const NodeReading& node_;
};

ipset::Element element_of(const std::string& text, bool is_port) {
  if (is_port) return ipset::PortElement{static_cast<std::uint16_t>(std::stoi(text))};
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  if (parts.size() == 1) return ipset::IpElement{ip(parts[0])};
  const auto colon = parts[1].find(':');
  const auto name = parts[1].substr(0, colon);
  const auto protocol = name == "tcp"   ? Protocol::tcp
                        : name == "udp" ? Protocol::udp
                                        : Protocol::sctp;
  const auto port = static_cast<std::uint16_t>(std::stoi(parts[1].substr(colon + 1)));
  if (parts.size() == 2) return ipset::IpPortElement{ip(parts[0]), protocol, port};
  if (const auto net = netlink::IpPrefix::parse(parts[2]))
    return ipset::IpPortNetElement{ip(parts[0]), protocol, port, *net};
  if (text.starts_with("192.0.2."))  // of KUBE-LOAD-BALANCER-SOURCE-CIDR: a whole address
    return ipset::IpPortNetElement{ip(parts[0]), protocol, port,
                                   netlink::IpPrefix::of(ip(parts[2]), 32)};
  return ipset::IpPortIpElement{ip(parts[0]), protocol, port, ip(parts[2])};
}

std::pair<IpAddress, std::uint16_t> end_of(const std::string& text) {
  const auto colon = text.rfind(':');
  auto host = text.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  return {ip(host), static_cast<std::uint16_t>(std::stoi(text.substr(colon + 1)))};
}

void read_ipvs(const std::string& file, NodeReading& node) {
  std::istringstream lines(test::read_file(file));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string verb;
    std::string kind;
    std::string service;
    std::string option;
    std::string value;
    words >> verb >> kind >> service;
    const auto [address, port] = end_of(service);
    const auto protocol = kind == "-t"   ? Protocol::tcp
                          : kind == "-u" ? Protocol::udp
                                         : Protocol::sctp;
    const netlink::VirtualServiceKey key{address, protocol, port};
    auto& entry = node.services[key];
    words >> option >> value;
    if (verb == "-A") {
      entry.service = {.key = key, .scheduler = value};
      entry.servers.emplace();
      continue;
    }
    const auto [server, server_port] = end_of(value);
    std::string weight;
    words >> option >> option >> weight;
    entry.servers->insert_or_assign(netlink::RealServer{
        .key = {server, server_port}, .weight = static_cast<std::uint32_t>(std::stoi(weight))});
  }
}

NodeReading shop(const std::string& name) {
  NodeReading node;
  const auto folder = test::data_path("reference/shop/") + name + "/kernel/";
  for (const auto& configuration : test::reference_configurations()) {
    if (configuration.name != name) continue;
    for (const auto& rules : ipset::rules_for(configuration.family, configuration.parameters))
      node.tables.emplace(plan::TableKey{rules.family, rules.table}, test::whole_table(rules));
    for (const auto id : ipset::kSetIds) node.sets[set_name(id, configuration.family)];
  }
  std::istringstream members(test::read_file(folder + "ipset-members.txt"));
  for (std::string add, set, element; members >> add >> set >> element;)
    node.sets[set].insert(
        element_of(element, element.find_first_not_of("0123456789") == std::string::npos));
  read_ipvs(folder + "ipvs.txt", node);
  node.links = {{1, "lo", ""},
                {2, "eth0", ""},
                {3, "cni0", "bridge"},
                {4, "kube-ipvs0", "dummy"},
                {5, "veth1", "veth", 3}};
  node.addresses = {{2, ip("10.200.0.2"), 24}, {3, ip("10.244.0.1"), 24}};
  std::istringstream addresses(test::read_file(folder + "addrs.txt"));
  for (std::string line; std::getline(addresses, line);) {
    std::istringstream words(line);
    std::string link;
    std::string family;
    std::string prefix;
    words >> link >> family >> prefix;
    if (family == "inet")
      node.addresses.push_back({4, netlink::IpPrefix::parse(prefix)->address, 32});
  }
  node.forwards_ipv4 = {"eth0", "cni0"};
  node.listeners.emplace();
  node.bridge_calls = {netlink::Family::ipv4};
  return node;
}

PacketWalk walk(const NodeReading& node, const std::string& from, const std::string& to,
                std::uint16_t port, Protocol protocol = Protocol::tcp) {
  ShopHost host(node);
  Flow flow{.destination = ip(to), .port = port, .protocol = protocol};
  if (!from.empty()) flow.source = ip(from);
  return walk_packet(flow, node, host).value();
}

// "10.244.0.3:8080 sees 10.244.0.1" of every candidate, or the fate and why.
std::vector<std::string> ends(const PacketWalk& walk) {
  std::vector<std::string> result;
  const auto add = [&](const Arrival& arrival, const std::string& what) {
    result.push_back(arrival.why.empty()
                         ? what + " sees " + arrival.source.to_string()
                         : std::string(to_string(arrival.fate)) + ": " + arrival.why);
  };
  for (const auto& one : walk.candidates) add(one.arrival, to_string(one.server.key));
  if (walk.candidates.empty()) add(walk.arrival, std::string(to_string(walk.arrival.fate)));
  return result;
}

using Ends = std::vector<std::string>;

TEST_CASE("explain: who is masqueraded to a cluster IP, and why") {
  const auto node = shop("clustercidr");
  const auto outside = walk(node, "203.0.113.7", "10.97.134.185", 8000);
  CHECK(ends(outside) == Ends{"10.244.0.5:8000 sees 10.244.0.1"});
  CHECK(outside.candidates.at(0).arrival.source_because.find("! -s 10.244.0.0/16") !=
        std::string::npos);
  CHECK(outside.candidates.at(0).arrival.source_because.find(
            "KUBE-CLUSTER-IP has 10.97.134.185,tcp:8000") != std::string::npos);
  CHECK(ends(walk(node, "10.244.0.9", "10.97.134.185", 8000)) ==
        Ends{"10.244.0.5:8000 sees 10.244.0.9"});
  const auto itself = walk(node, "10.244.0.5", "10.97.134.185", 8000);
  CHECK(ends(itself) == Ends{"10.244.0.5:8000 sees 10.244.0.1"});
  CHECK(itself.candidates.at(0).arrival.source_because.find(
            "KUBE-LOOP-BACK has 10.244.0.5,tcp:8000,10.244.0.5") != std::string::npos);
}

TEST_CASE("explain: the node takes the virtual address for its own source") {
  const auto node = shop("clustercidr");
  const auto own = walk(node, "", "10.97.134.185", 8000);
  CHECK(own.sent_here);
  CHECK(own.flow.source == ip("10.97.134.185"));
  CHECK(ends(own) == Ends{"10.244.0.5:8000 sees 10.244.0.1"});
}

TEST_CASE("explain: source ranges keep out, and say with which rule") {
  const auto node = shop("clustercidr");
  CHECK(gets_there(walk(node, "203.0.113.7", "192.0.2.10", 443)));
  CHECK(gets_there(walk(node, "198.51.100.7", "192.0.2.10", 443)));
  const auto stranger = walk(node, "198.51.100.9", "192.0.2.10", 443);
  CHECK_FALSE(gets_there(stranger));
  CHECK(ends(stranger) == Ends{"dropped: filter INPUT: KUBE-SOURCE-RANGES-FIREWALL -j DROP"});
  CHECK(stranger.steps.back().decides);
  // The node itself: behind IPVS, by the virtual service of the connection.
  const auto own = walk(node, "", "192.0.2.10", 443);
  REQUIRE_FALSE(own.candidates.empty());
  CHECK(ends(own).at(0) ==
        "dropped: filter OUTPUT: KUBE-IPVS-OUT-FILTER -s 192.0.2.10/32 -m ipvs --vproto 6 --vaddr "
        "192.0.2.10 --vport 443 -j DROP");
}

TEST_CASE("explain: addresses of Services take nothing that is no Service") {
  const auto node = shop("clustercidr");
  const auto refused = walk(node, "203.0.113.7", "10.96.0.1", 22);
  CHECK(refused.arrival.fate == Fate::refused);
  CHECK(refused.arrival.notice == Notice::port_unreachable);
  CHECK(refused.arrival.why.starts_with("filter INPUT: KUBE-IPVS-FILTER"));
}

TEST_CASE("explain: a virtual service without servers refuses; one of weight 0 is passed over") {
  auto node = shop("clustercidr");
  const netlink::VirtualServiceKey key{ip("10.97.134.185"), Protocol::tcp, 8000};
  auto& servers = *node.services.at(key).servers;
  auto server = *servers.begin();
  server.weight = 0;
  servers.insert_or_assign(server);
  const auto drained = walk(node, "203.0.113.7", "10.97.134.185", 8000);
  CHECK(ends(drained) == Ends{"refused: IPVS: all its real servers have weight 0"});
  CHECK(drained.passed_over.size() == 1);
  servers = {};
  CHECK(ends(walk(node, "203.0.113.7", "10.97.134.185", 8000)) ==
        Ends{"refused: IPVS: it has no real server"});
}

TEST_CASE("explain: what is not this node's is forwarded, its own ports need a socket") {
  auto node = shop("clustercidr");
  const auto pod = walk(node, "203.0.113.7", "10.244.0.3", 8080);
  CHECK(pod.arrival.fate == Fate::forwarded);
  CHECK(pod.arrival.out_link == "cni0");
  CHECK(pod.arrival.source == ip("203.0.113.7"));
  const auto closed = walk(node, "203.0.113.7", "10.200.0.2", 22);
  CHECK(closed.arrival.notice == Notice::reset);
  node.listeners = {{{Protocol::tcp, ip("::"), 22, true}}};
  CHECK(walk(node, "203.0.113.7", "10.200.0.2", 22).arrival.fate == Fate::delivered);
  node.listeners = {{{Protocol::tcp, ip("::"), 22, false}}};
  CHECK_FALSE(gets_there(walk(node, "203.0.113.7", "10.200.0.2", 22)));
  node.listeners = {{{Protocol::tcp, ip("10.244.0.1"), 22, false}}};
  CHECK_FALSE(gets_there(walk(node, "203.0.113.7", "10.200.0.2", 22)));
  node.listeners.reset();
  const auto unknown = walk(node, "203.0.113.7", "10.200.0.2", 22);
  CHECK(gets_there(unknown));
  CHECK(unknown.steps.back().text.starts_with("it is not known whether"));
  CHECK(walk(node, "", "198.51.100.99", 22).arrival.notice == Notice::call_fails);
  CHECK(walk(node, "203.0.113.7", "198.51.100.99", 22).arrival.notice == Notice::host_unreachable);
  node.forwards_ipv4 = {"cni0"};
  CHECK(walk(node, "203.0.113.7", "198.51.100.99", 22).arrival.fate == Fate::dropped);
}

TEST_CASE("explain: the policy of a chain and rules that cannot be judged") {
  auto node = shop("clustercidr");
  auto& filter = node.tables.at({netlink::Family::ipv4, ipset::Table::filter});
  filter.policies["INPUT"] = ipset::Verdict::drop;
  filter.chains["INPUT"].push_back({.target = ipset::ForeignTarget{"[match tcp 0]"}});
  const auto dropped = walk(node, "203.0.113.7", "10.97.134.185", 8000);
  CHECK(ends(dropped) == Ends{"dropped: filter INPUT: INPUT policy DROP"});
  CHECK(std::ranges::count(dropped.steps, true, &WalkStep::unjudged) == 1);
  CHECK_FALSE(is_certain(dropped));
  // Not for what leaves, and the health check's rule is before it.
  CHECK(gets_there(walk(node, "10.244.0.9", "203.0.113.7", 443)));
  node.listeners = {{{Protocol::tcp, ip("0.0.0.0"), 32290, false}}};
  CHECK(gets_there(walk(node, "203.0.113.7", "10.200.0.2", 32290)));
}

// As portmap writes it.
TEST_CASE("explain: a host port leads to its pod") {
  auto node = shop("clustercidr");
  auto& nat = node.tables.at({netlink::Family::ipv4, ipset::Table::nat});
  const auto to_pod = [](ipset::Action action) {
    return ipset::Rule{.target = ipset::ForeignTarget{
                           "-p tcp -m tcp --dport 8088",
                           {ipset::ProtocolCondition{6},
                            ipset::PortCondition{{ipset::Direction::dst}, {{8088, 8088}}}},
                           std::move(action)}};
  };
  const auto leads =
      to_pod(ipset::TranslateAction{.address = ip("10.244.0.9"), .port = std::uint16_t{80}});
  nat.chains["PREROUTING"].push_back(leads);
  nat.chains["OUTPUT"].push_back(leads);
  const auto outside = walk(node, "203.0.113.7", "10.200.0.2", 8088);
  CHECK(outside.arrival.fate == Fate::forwarded);
  CHECK(outside.arrival.out_link == "cni0");
  CHECK(outside.arrival.translated_to == "10.244.0.9:80");
  CHECK(is_certain(outside));
  const auto own = walk(node, "", "10.200.0.2", 8088);
  CHECK(own.arrival.translated_to == "10.244.0.9:80");
  CHECK(own.arrival.fate == Fate::forwarded);

  // What is not tracked is not translated.
  node.tables[{netlink::Family::ipv4, ipset::Table::raw}].chains["PREROUTING"] = {
      {.target = ipset::ForeignTarget{"-j CT --notrack", {}, ipset::NoTrackAction{}}}};
  CHECK(walk(node, "203.0.113.7", "10.200.0.2", 8088).arrival.translated_to.empty());
}

TEST_CASE("explain: without tracking nothing is masqueraded; answers may go astray") {
  auto node = shop("clustercidr");
  node.tracks_ipvs = false;
  CHECK(ends(walk(node, "203.0.113.7", "10.97.134.185", 8000)) ==
        Ends{"10.244.0.5:8000 sees 203.0.113.7"});
  const auto remote = walk(node, "203.0.113.7", "10.200.0.2", 30080);
  REQUIRE_FALSE(remote.candidates.empty());
  for (const auto& one : remote.candidates)
    CHECK(one.arrival.cautions.size() == (one.arrival.out_link == "eth0" ? 1 : 0));
  // A pod of this node gets its answers through this node.
  for (const auto& one : walk(node, "10.244.0.9", "10.200.0.2", 30080).candidates)
    CHECK(one.arrival.cautions.empty());
}

TEST_CASE("explain: a loopback source does not leave through a virtual service") {
  const auto node = shop("clustercidr");
  const auto looped = walk(node, "127.0.0.1", "10.97.134.185", 8000);
  CHECK(ends(looped) == Ends{"dropped: IPVS: a loopback source does not leave this node"});
}

TEST_CASE("explain: a port of a bridge stands for the bridge; nonsense is an error") {
  const auto node = shop("clustercidr");
  ShopHost host(node);
  const Flow base{.source = ip("10.244.0.9"), .destination = ip("10.97.134.185"), .port = 8000};
  auto by_port = base;
  by_port.in_link = "veth1";
  CHECK(walk_packet(by_port, node, host)->flow.in_link == "cni0");
  CHECK(walk_packet(base, node, host)->flow.in_link == "cni0");
  auto wrong = base;
  wrong.in_link = "eth7";
  CHECK_FALSE(walk_packet(wrong, node, host));
  wrong = base;
  wrong.destination = ip("fd00::1");
  CHECK_FALSE(walk_packet(wrong, node, host));
  wrong = base;
  wrong.destination = *base.source;
  CHECK_FALSE(walk_packet(wrong, node, host));
  wrong = base;
  wrong.source.reset();
  wrong.in_link = "eth0";
  CHECK_FALSE(walk_packet(wrong, node, host));
}

}  // namespace
}  // namespace ipvsproxier::ctl
