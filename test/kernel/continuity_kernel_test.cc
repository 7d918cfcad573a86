// Connections through a VIP live on while Services change, while the daemon restarts, and after it
// is killed in the middle of a large first sync; and a start that finds all right writes nothing.

#include <csignal>

#include <cmath>
#include <random>
#include <set>

#include <catch2/catch.hpp>

#include "netlink/sysctl.h"
#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"
#include "test/kernel/net_setup.h"
#include "test/kernel/netlink_tap.h"
#include "test/kernel/packet_filter.h"
#include "test/kernel/traffic.h"
#include "test/support/ip.h"

namespace ipvsproxier::test {
namespace {

using netlink::IpAddress;
using netlink::Protocol;

constexpr const char* kSynced = "synced: ";
constexpr int kSyncPatience = 60000;  // milliseconds, for a large sync on a busy machine

const PortManifest kEcho{.name = "echo", .port = 80, .target = kEchoPort};
const PortManifest kStream{.name = "stream", .port = 90, .target = kStreamPort};

// "web" of both families, with a node port for its streams.
ServiceManifest web_of(const std::vector<const Pod*>& pods) {
  auto stream = kStream;
  stream.node_port = 30090;
  return {.name = "web",
          .type = "NodePort",
          .cluster_ips = {"10.96.0.9", "fd00:96::9"},
          .ports = {kEcho, stream},
          .endpoints = endpoints_of(pods)};
}

ServiceManifest other(int number, int endpoints) {
  ServiceManifest service{.name = "other-" + std::to_string(number),
                          .cluster_ips = {"10.96.1." + std::to_string(number)}};
  for (int i = 0; i < endpoints; ++i)
    service.endpoints.push_back({ip("10.244.1." + std::to_string(100 + i)), kRemoteNodeName});
  return service;
}

// Writes a manifest and waits until the daemon programmed it.
void put(Manifests& manifests, Daemon& daemon, const ServiceManifest& service) {
  daemon.mark();
  manifests.put(service);
  INFO(daemon.log());
  REQUIRE(daemon.logs(kSynced));
}

TEST_CASE("kernel: continuity: connections live through changes, restarts and a kill") {
  Cluster cluster({.local_pods = 2, .remote_pods = 1});
  Manifests manifests;
  manifests.put(web_of({&cluster.local(1), &cluster.remote()}));
  Daemon daemon(cluster.netns(), manifests.flags());
  daemon.start();
  REQUIRE(daemon.logs(kSynced));

  LongConnections connections;
  for (const auto* vip : {"10.96.0.9", "fd00:96::9"})
    for (const Host* host :
         {&cluster.client(), &cluster.node(), static_cast<const Host*>(&cluster.local(2))})
      connections.open(*host, {ip(vip), 90});
  connections.open(cluster.client(), {cluster.node().v4, 30090});
  connections.run();
  REQUIRE(connections.moves_on() == "");

  for (int i = 1; i <= 5; ++i) put(manifests, daemon, other(i, i));
  put(manifests, daemon, other(1, 0));
  put(manifests, daemon, other(2, 7));
  daemon.mark();
  manifests.remove("other-3");
  REQUIRE(daemon.logs(kSynced));
  CHECK(connections.moves_on() == "");

  put(manifests, daemon, web_of({&cluster.local(1), &cluster.local(2), &cluster.remote()}));
  std::set<std::string> reached;
  for (int i = 0; i < 3; ++i)
    reached.insert(outcome(cluster.client().ask(Protocol::tcp, ip("10.96.0.9"), 80)));
  CHECK(reached.size() == 3);
  CHECK(connections.moves_on() == "");

  auto sticky = web_of({&cluster.local(1), &cluster.local(2), &cluster.remote()});
  sticky.spec = "sessionAffinity: ClientIP";
  put(manifests, daemon, sticky);
  CHECK(connections.moves_on() == "");

  CHECK(daemon.terminate() == 0);
  CHECK(connections.moves_on() == "");
  // What happened while it was away.
  manifests.put(other(4, 9));
  for (const bool killed : {false, true}) {
    daemon.mark();
    daemon.start();
    put(manifests, daemon, other(6, killed ? 1 : 2));
    CHECK(connections.moves_on() == "");
    if (killed)
      daemon.kill();
    else
      CHECK(daemon.terminate() == 0);
    CHECK(connections.moves_on() == "");
  }
}

// One node and one pod: quickly made, for many starts on an empty kernel.
struct Lab {
  Netns node;
  Netns outside;
  Netns pod_netns;
  std::unique_ptr<StreamServer> server;
  Host host{.name = kNodeName, .netns = &node, .v4 = ip("10.200.0.2"), .v6 = ip("fd00:200::2")};

  Lab() {
    node.inside([] {
      if (!netlink::Sysctl().ensure("net/ipv4/ip_forward", "1")) throw std::runtime_error("sysctl");
    });
    NetSetup on_node(node);
    on_node.veth("eth0", outside, "eth0");
    on_node.address("eth0", "10.200.0.2/24");
    on_node.address("eth0", "fd00:200::2/64");
    on_node.veth("pod", pod_netns, "eth0");
    on_node.address("pod", "10.244.0.1/24");
    NetSetup in_pod(pod_netns);
    in_pod.address("eth0", "10.244.0.11/24");
    in_pod.route("0.0.0.0/0", "10.244.0.1");
    server = pod_netns.inside([] {
      return std::move(
          StreamServer::start("pod", Protocol::tcp, ip("10.244.0.11"), kStreamPort).value());
    });
  }
};

const ServiceManifest kLabWeb{.name = "web",
                              .cluster_ips = {"10.96.0.9"},
                              .ports = {kStream},
                              .endpoints = {{ip("10.244.0.11"), kNodeName}}};

// One of many, of all kinds, with 10 ports and 5 endpoints: many service ports in little text.
ServiceManifest large_service(int number) {
  ServiceManifest service{.name = "large-" + std::to_string(number),
                          .cluster_ips = {"10.96.10." + std::to_string(1 + number)},
                          .ports = {}};
  const bool dual = number % 4 == 0;
  if (dual) service.cluster_ips.push_back("fd00:96::" + std::to_string(1000 + number));
  const bool has_node_ports = number % 5 == 0;
  if (has_node_ports) service.type = "NodePort";
  for (int n = 0; n < 10; ++n) {
    const auto low = static_cast<std::uint16_t>(n);
    const auto node_port = static_cast<std::uint16_t>(30000 + number * 10 + n);
    service.ports.push_back({.name = "p" + std::to_string(n),
                             .protocol = n >= 8 ? Protocol::udp : Protocol::tcp,
                             .port = static_cast<std::uint16_t>(80 + low),
                             .target = static_cast<std::uint16_t>(8080 + low),
                             .node_port = has_node_ports ? node_port : std::uint16_t{0}});
  }
  for (int n = 0; n < 5; ++n) {
    const std::string last = std::to_string(20 + (number + n) % 200);
    service.endpoints.push_back({ip("10.244." + std::to_string(n % 2) + "." + last),
                                 n % 2 == 0 ? kNodeName : kRemoteNodeName});
    if (dual) service.endpoints.push_back({ip("fd00:244:0:1::" + last), kRemoteNodeName});
  }
  if (number % 10 == 0) {
    service.type = "LoadBalancer";
    service.ingress_ips = {"192.0.2." + std::to_string(1 + number)};
    service.spec = number % 20 == 0 ? "loadBalancerSourceRanges: [203.0.113.0/24, 10.200.0.0/16]"
                                    : "externalTrafficPolicy: Local";
  }
  if (number % 7 == 0)
    service.spec += std::string(service.spec.empty() ? "" : ", ") + "sessionAffinity: ClientIP";
  return service;
}

std::string large_cluster(int services) {
  std::string yaml;
  for (int number = 0; number < services; ++number) {
    const auto service = large_service(number);
    yaml += service_yaml(service) + slices_yaml(service);
  }
  return yaml;
}

// A lab whose kernel holds "web" with a connection through it, and a daemon that is to program the
// large cluster beside it.
struct LargeStart {
  Lab lab;
  NetlinkTap tap{lab.node};
  Daemon daemon;
  LongConnections connection;

  LargeStart(const Manifests& small, const Manifests& large) : daemon(lab.node, large.flags()) {
    const auto prepared = run_once(lab.node, small);
    INFO(prepared.log);
    REQUIRE(prepared.status == 0);
    connection.open(lab.host, {ip("10.96.0.9"), kStream.port});
    connection.run();
    tap.take();
  }
};

// What an undisturbed sync of the large cluster leaves, and how many requests it takes.
struct Undisturbed {
  std::vector<std::string> lines;
  std::size_t requests = 0;

  Undisturbed(const Manifests& small, const Manifests& large) {
    LargeStart start(small, large);
    start.daemon.start();
    REQUIRE(start.daemon.logs(kSynced, kSyncPatience));
    requests = start.tap.take().total();
    lines = kernel_lines(start.lab.node);
    REQUIRE(start.connection.moves_on() == "");
  }
};

// Starts the daemon and kills it in the middle of what it has to write. False if it was done
// before.
bool kill_in_the_middle(LargeStart& start, std::size_t requests, std::mt19937& random) {
  // A sync has many more requests late than early; each of its phases is to be hit.
  std::uniform_real_distribution<double> spread(0, std::log(static_cast<double>(requests)));
  const auto moment = static_cast<std::size_t>(std::exp(spread(random)));
  start.daemon.mark();
  start.daemon.start();
  while (!start.tap.wait_for(moment, 10))
    if (start.daemon.logs(kSynced, 0)) return false;
  start.daemon.kill();
  return true;
}

void check_converges(LargeStart& start, const Undisturbed& undisturbed) {
  start.daemon.mark();
  start.daemon.start();
  // There is no such line if the last kill came after the last request.
  start.daemon.logs(kSynced, 10000);
  std::string differs;
  const bool converged = eventually(
      [&] { return (differs = difference(undisturbed.lines, kernel_lines(start.lab.node))) == ""; },
      kSyncPatience);
  INFO(differs << start.daemon.log());
  REQUIRE(converged);
  REQUIRE(start.connection.moves_on() == "");
}

void check_kills(int most) {
  Manifests small;
  Manifests large;
  for (Manifests* manifests : {&small, &large}) manifests->put(kLabWeb);
  large.write("large", large_cluster(12));
  const Undisturbed undisturbed(small, large);
  REQUIRE(undisturbed.lines.size() > 1000);
  const auto seed = std::random_device()();
  std::mt19937 random(seed);
  INFO("seed " << seed << ", " << undisturbed.requests << " write requests undisturbed");
  for (int kills = 0; kills < most;) {
    INFO("kill " << kills);
    LargeStart start(small, large);
    if (!kill_in_the_middle(start, undisturbed.requests, random)) continue;
    ++kills;
    REQUIRE(start.connection.moves_on() == "");
    check_converges(start, undisturbed);
  }
}

TEST_CASE("kernel: continuity: killed at some moments of a large first sync, it converges",
          "[kills]") {
  check_kills(10);
}

TEST_CASE("kernel: continuity: killed at 50 moments of a large first sync, it converges",
          "[long]") {
  check_kills(50);
}

TEST_CASE("kernel: continuity: a change costs what changed, whatever else there is") {
  const bool among_many = GENERATE(false, true);
  INFO(among_many);
  Manifests manifests;
  auto web = kLabWeb;
  web.endpoints.push_back({ip("10.244.1.7"), kRemoteNodeName});
  manifests.put(web);
  if (among_many) manifests.write("large", large_cluster(30));
  Lab lab;
  Daemon daemon(lab.node, manifests.flags());
  daemon.start();
  REQUIRE(daemon.logs(kSynced, kSyncPatience));
  NetlinkTap tap(lab.node);

  web.endpoints.back().address = ip("10.244.1.8");  // a new real server, and weight 0 for the old
  put(manifests, daemon, web);
  CHECK(tap.take() == WriteRequests{.ipvs = 2});
  daemon.mark();
  REQUIRE(daemon.logs(kSynced));  // the old one is idle and goes
  CHECK(tap.take() == WriteRequests{.ipvs = 1});

  web.endpoints.push_back({ip("10.244.0.12"), kNodeName});  // a local one: it may reach itself
  put(manifests, daemon, web);
  CHECK(tap.take() == WriteRequests{.ipvs = 1, .sets = 1});

  // Metadata alone, of the Service and of its slice.
  auto service = service_yaml(web);
  service.insert(service.find("namespace:"), "annotations: {note: new}, ");
  auto slice = slices_yaml(web);
  slice.insert(slice.find("namespace:"), "resourceVersion: '7'\n  ");
  manifests.write("web", service + slice);
  CHECK_FALSE(tap.wait_for(1, 1000));
  put(manifests, daemon, other(1, 0));  // it did read on
}

TEST_CASE("kernel: continuity: a start over live state writes nothing") {
  Manifests manifests;
  manifests.put(kLabWeb);
  manifests.write("large", large_cluster(30));
  Lab lab;
  auto flags = manifests.flags();
  flags.push_back("-v=4");
  Daemon daemon(lab.node, flags);
  daemon.start();
  REQUIRE(daemon.logs(kSynced));
  LongConnections connection;
  connection.open(lab.host, {ip("10.96.0.9"), kStream.port});
  connection.run();
  REQUIRE(connection.moves_on() == "");
  const auto before = kernel_lines(lab.node);
  // A rule of iptables that is written anew counts from 0.
  const auto packets = [&] {
    if (on_nftables()) return std::string();
    return lab.node.inside([] { return shell("iptables -t nat -nvxL KUBE-POSTROUTING"); });
  };
  const auto counted = packets();
  REQUIRE((on_nftables() || counted.find("       1       60 MASQUERADE") != std::string::npos));
  NetlinkTap tap(lab.node);
  for (const int signal : {SIGTERM, SIGKILL}) {
    daemon.signal(signal);
    daemon.wait_for_end();
    daemon.mark();
    daemon.start();
    REQUIRE(daemon.logs(kSynced));
    CHECK(
        daemon.logs("synced: ipvs 0, links 0, addresses 0, elements 0, sets 0, rule tables 0, "
                    "sysctls 0, flows 0, failures 0,",
                    0));
    CHECK(tap.take() == WriteRequests{});
    CHECK(packets() == counted);
  }
  CHECK(difference(before, kernel_lines(lab.node)) == "");
  CHECK(connection.moves_on() == "");
}

}  // namespace
}  // namespace ipvsproxier::test
