// Addresses and links come, go and move while traffic runs: what depends on them follows
// notifications, and no connection notices.

#include <chrono>
#include <functional>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "ipset/sets/set_catalog.h"
#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_judge.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"
#include "test/kernel/net_setup.h"
#include "test/support/ip.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;

constexpr std::size_t kConnectionsPerSecond = 40;
constexpr std::size_t kMostConnections = 12000;

// Addresses of both families, as they are given to links: "10.200.0.50/24".
struct Pair {
  std::string v4;
  std::string v6;
};

const Pair kNodeIps{"10.200.0.2/24", "fd00:200::2/64"};
const Pair kFirstMore{"10.200.0.50/24", "fd00:200::50/64"};
const Pair kSecondMore{"10.200.0.51/24", "fd00:200::51/64"};
const Pair kBridge{"172.17.0.1/16", "fd00:17::1/64"};
const Pair kBalancerIps{"192.0.2.10/32", "2001:db8:2::10/128"};
const Pair kExternalIps{"192.0.2.20/32", "2001:db8:2::20/128"};
const Pair kEdgeIps{"10.96.0.10/32", "fd00:96::10/128"};
const Pair kNewNodeIps{"10.200.0.60/24", "fd00:200::60/64"};

IpAddress bare(const std::string& prefix) {
  return ip(prefix.substr(0, prefix.find('/')));
}

// Services with node ports on every address of the node, and one whose addresses will appear on
// links; it does not let this node in, but for one address that it will have.
ServiceManifest steady_of(const Cluster& cluster) {
  ServiceManifest steady{
      .name = "steady",
      .type = "NodePort",
      .cluster_ips = {"10.96.0.9", "fd00:96::9"},
      .ports = {{.name = "echo", .port = 80, .target = kEchoPort, .node_port = 30080},
                {.name = "stream", .port = 90, .target = kStreamPort, .node_port = 30090},
                {.name = "sctp",
                 .protocol = Protocol::sctp,
                 .port = 132,
                 .target = 132,
                 .node_port = 30132}}};
  for (const Family family : netlink::kFamilies)
    for (int number = 1; number <= 2; ++number)
      steady.endpoints.push_back({cluster.local(number).address(family), kNodeName});
  return steady;
}

ServiceManifest edge_of(const Cluster& cluster) {
  ServiceManifest edge{
      .name = "edge",
      .type = "LoadBalancer",
      .cluster_ips = {"10.96.0.10", "fd00:96::10"},
      .ports = {{.name = "stream", .port = 90, .target = kStreamPort}},
      .spec =
          "externalIPs: [\"192.0.2.20\", \"2001:db8:2::20\"], loadBalancerSourceRanges: "
          "[203.0.113.0/24, \"2001:db8:7::/64\", 10.200.0.60/32, \"fd00:200::60/128\"]",
      .ingress_ips = {"192.0.2.10", "2001:db8:2::10"}};
  for (const Family family : netlink::kFamilies)
    edge.endpoints.push_back({cluster.local(1).address(family), kNodeName});
  return edge;
}

std::string node_with(const Pair& internal_ips) {
  return "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {addresses: "
         "[{type: InternalIP, address: " +
         bare(internal_ips.v4).to_string() + "}, {type: InternalIP, address: \"" +
         bare(internal_ips.v6).to_string() + "\"}]}\n";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  return at == std::string::npos ? "" : text.replace(at, from.size(), to);
}

// What `base` says of node ports on n1's own address, said of another of its family.
Facts node_ports_on(const Facts& base, const std::string& prefix) {
  const auto address = bare(prefix);
  const std::string own = address.family() == Family::ipv4 ? "10.200.0.2" : "fd00:200::2";
  const std::string other = address.to_string();
  Facts facts;
  for (const auto& fact : base)
    for (const auto& same : {replaced(fact, " " + own + ":", " " + other + ":"),
                             replaced(fact, " [" + own + "]:", " [" + other + "]:"),
                             replaced(fact, " " + own + ",", " " + other + ",")})
      if (!same.empty()) facts.insert(same);
  return facts;
}

Facts node_ports_on(const Facts& base, const Pair& pair) {
  auto facts = node_ports_on(base, pair.v4);
  facts.merge(node_ports_on(base, pair.v6));
  return facts;
}

// That addresses are on kube-ipvs0 and guarded there.
Facts bound(const std::vector<Pair>& pairs) {
  Facts facts;
  for (const auto& pair : pairs)
    for (const auto& address : {bare(pair.v4), bare(pair.v6)}) {
      facts.insert(address_fact(address));
      facts.insert(element_fact(ipset::set_name(ipset::SetId::ipvs_ips, address.family()),
                                ipset::to_string(ipset::IpElement{address})));
    }
  return facts;
}

// That the load balancer lets this node in.
Facts lets_node_in() {
  Facts facts;
  for (const auto& address : {bare(kBalancerIps.v4), bare(kBalancerIps.v6)})
    facts.insert(
        element_fact(ipset::set_name(ipset::SetId::load_balancer_source_ip, address.family()),
                     ipset::to_string(ipset::IpPortIpElement{
                         .ip = address, .protocol = Protocol::tcp, .port = 90, .ip2 = address})));
  return facts;
}

Facts operator+(Facts left, const Facts& right) {
  left.insert(right.begin(), right.end());
  return left;
}

Facts operator-(Facts left, const Facts& right) {
  for (const auto& fact : right) CHECK(left.erase(fact) == 1);
  return left;
}

Facts seen_in(const Netns& netns) {
  KernelJudge judge(netns, {});
  judge.look();
  return judge.seen();
}

class LoadedNode {
 public:
  LoadedNode() {
    // Longer than any test waits: there is no polling.
    manifests.configure(std::string("ipvs: {syncPeriod: 1h}\ndetectLocalMode: ClusterCIDR\n") +
                        "clusterCIDR: \"" + kPodRanges + "\"\n");
    manifests.write("n1", node_with(kNodeIps));
    manifests.remove("nodes");
    manifests.put(steady_of(cluster));
    manifests.put(edge_of(cluster));
    daemon.start();
    REQUIRE(daemon.logs("synced: "));
    base = seen_in(cluster.netns());
    judge.emplace(cluster.netns(), base);
  }

  // Changes something, after which `next` must come and stay. Things may be as in `between` on the
  // way.
  void change(const std::string& what, const Facts& next, const std::function<void()>& change,
              const Facts& between = {}) {
    INFO(what);
    if (!between.empty()) judge->announce(between);
    judge->announce(next);
    const auto begin = std::chrono::steady_clock::now();
    change();
    const bool reached = judge->reached();
    const auto took = std::chrono::steady_clock::now() - begin;
    INFO(judge->missing() << daemon.log());
    REQUIRE(reached);
    CHECK(judge->verdict() == "");
    times += fmt::format("{} ms: {}\n",
                         std::chrono::duration_cast<std::chrono::milliseconds>(took).count(), what);
  }

  void add(const std::string& link, const Pair& pair) {
    links.address(link, pair.v4);
    links.address(link, pair.v6);
  }
  void remove(const std::string& link, const Pair& pair) {
    links.remove_address(link, pair.v4);
    links.remove_address(link, pair.v6);
  }

  // A process that knows nothing from before finds nothing to do.
  void check_fresh_process_agrees() const {
    const auto run = run_once(cluster.netns(), manifests);
    INFO(run.log);
    CHECK(run.log.find("synced: ipvs 0, links 0, addresses 0, elements 0, sets 0, rule tables 0, "
                       "sysctls 0, flows 0, failures 0") != std::string::npos);
  }

  Cluster cluster{{.local_pods = 2, .remote_pods = 0}};
  Manifests manifests;
  Daemon daemon{cluster.netns(), manifests.flags()};
  NetSetup links{cluster.netns()};
  Facts base;  // what there is at first
  std::optional<KernelJudge> judge;
  std::string times;  // from a change until its effect was seen
};

class Load {
 public:
  explicit Load(const Cluster& cluster)
      : v4_(plan(cluster, "10.96.0.9", 10000)), v6_(plan(cluster, "fd00:96::9", 10000)) {
    for (const auto* vip : {"10.96.0.9", "fd00:96::9"})
      for (int i = 0; i < 2; ++i) long_.open(cluster.client(), {ip(vip), 90});
    for (const auto* vip : {"10.96.0.9", "fd00:96::9"})
      for (const Host* host : {&cluster.node(), static_cast<const Host*>(&cluster.local(2))})
        long_.open(*host, {ip(vip), 90});
    for (const Family family : netlink::kFamilies)
      long_.open(cluster.client(), {cluster.node().address(family), 30090});
    long_.run();
  }

  std::string moves_on() { return long_.moves_on(); }
  std::vector<ConnectionCounts> end() {
    v4_.stop();
    v6_.stop();
    return {v4_.wait(), v6_.wait()};
  }

 private:
  static NewConnections::Plan plan(const Cluster& cluster, const char* vip, std::uint16_t port) {
    return {.host = cluster.client(),
            .target = {ip(vip), 80},
            .total = kMostConnections,
            .per_second = kConnectionsPerSecond,
            .first_port = port};
  }

  LongConnections long_;
  NewConnections v4_;
  NewConnections v6_;
};

// An address is added, moved, removed; a bridge comes, goes down and is deleted.
void change_node_addresses(LoadedNode& node) {
  const auto& base = node.base;
  const auto first = node_ports_on(base, kFirstMore);
  const auto both = first + node_ports_on(base, kSecondMore);
  // Each family: virtual services of three ports, two real servers each, and an SCTP element.
  CHECK(first.size() == 20);
  node.change("an address more", base + first, [&] { node.add("eth0", kFirstMore); });
  // The second address tells that what happened before it was seen.
  const auto move = [&] {
    node.remove("eth0", kFirstMore);
    node.add("cni0", kFirstMore);
    node.add("cni0", kSecondMore);
  };
  node.change("moved to another link", base + both, move, base);
  const auto bridge = [&] {
    node.links.bridge("docker0");
    node.add("docker0", kBridge);
  };
  node.change("a bridge", base + both + node_ports_on(base, kBridge), bridge);
  node.change("the bridge goes down, and with it its IPv6 address",
              base + both + node_ports_on(base, kBridge.v4), [&] { node.links.down("docker0"); });
  node.change("the bridge is deleted", base + both, [&] { node.links.remove("docker0"); });
  // Of one range, the second IPv4 address goes with the first (fib_frontend.c: no promotion).
  node.change("two addresses less", base, [&] {
    node.remove("cni0", kFirstMore);
    node.links.remove_address("cni0", kSecondMore.v6);
  });
}

// Addresses of a Service appear on a link: external ones leave kube-ipvs0, a cluster IP stays.
void change_service_addresses(LoadedNode& node, const std::vector<std::string>& lines) {
  const std::vector<Pair> all = {kBalancerIps, kExternalIps, kEdgeIps};
  LongConnections own;
  for (const auto& prefix : {kBalancerIps.v4, kBalancerIps.v6})
    own.open(node.cluster.client(), {bare(prefix), 90});
  own.run();
  auto on_link = node.base - bound({kBalancerIps, kExternalIps});
  for (const auto& pair : all) on_link.merge(node_ports_on(node.base, pair));
  node.change("a Service's addresses on a link", on_link, [&] {
    for (const auto& pair : all) node.add("eth0", pair);
  });
  node.check_fresh_process_agrees();
  // Rules, and who may come, are as before.
  const auto is_other = [](const std::string& line) {
    return !line.starts_with("-A KUBE") && line.find("SOURCE-") == std::string::npos;
  };
  auto now = kernel_lines(node.cluster.netns());
  auto before = lines;
  std::erase_if(now, is_other);
  std::erase_if(before, is_other);
  CHECK(now.size() > 40);
  CHECK(difference(before, now) == "");
  INFO(node.daemon.log());
  CHECK(own.moves_on() == "");
  own.stop();
  // Until they are back on kube-ipvs0 they are on no link: only others' connections do not notice.
  node.change("and away again", node.base, [&] {
    for (const auto& pair : all) node.remove("eth0", pair);
  });
}

// The node gets other IPs, which its Node object tells.
void change_node_ip(LoadedNode& node) {
  const auto more = node.base + node_ports_on(node.base, kNewNodeIps);
  const auto drops = [&] {
    const auto lines = kernel_lines(node.cluster.netns());
    return std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.starts_with("-A KUBE-IPVS-OUT-FILTER");
    });
  };
  node.change("the node's new IPs", more, [&] { node.add("eth0", kNewNodeIps); });
  CHECK(drops() == 2);
  node.change("its Node tells them", more + lets_node_in(),
              [&] { node.manifests.write("n1", node_with(kNewNodeIps)); });
  CHECK(eventually([&] { return drops() == 0; }));
  node.change("and the old ones again", more,
              [&] { node.manifests.write("n1", node_with(kNodeIps)); });
  node.change("without the new IPs", node.base, [&] { node.remove("eth0", kNewNodeIps); });
}

TEST_CASE("kernel: addresses: what depends on them follows, connections do not notice",
          "[addresses]") {
  LoadedNode node;
  const auto lines = kernel_lines(node.cluster.netns());
  Load load(node.cluster);
  REQUIRE(load.moves_on() == "");

  change_node_addresses(node);
  CHECK(load.moves_on() == "");
  change_service_addresses(node, lines);
  CHECK(load.moves_on() == "");
  change_node_ip(node);

  INFO(node.times << node.daemon.log());
  CHECK(load.moves_on() == "");
  for (const auto& counts : load.end()) {
    INFO(to_string(counts));
    CHECK(counts.made > 10);
    CHECK(counts.failures.empty());
  }
  CHECK(difference(lines, kernel_lines(node.cluster.netns())) == "");
  node.check_fresh_process_agrees();
}

}  // namespace
}  // namespace ipvsproxier::test
