// Endpoints that leave: connections last, new ones go elsewhere; UDP moves at once.

#include <poll.h>
#include <sys/socket.h>

#include <set>

#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"
#include "test/support/ip.h"
#include "test/support/sockets.h"

namespace ipvsproxier::test {
namespace {

using netlink::IpAddress;
using netlink::Protocol;
using netlink::RealServerKey;
using netlink::VirtualServiceKey;

constexpr const char* kTerminating = "ready: false, serving: true, terminating: true";
constexpr const char* kVip = "10.96.0.9";
constexpr const char* kExternal = "192.0.2.77";
constexpr std::uint16_t kNodePort = 30053;

VirtualServiceKey streams_key() {
  return {.address = ip(kVip), .protocol = Protocol::tcp, .port = 90};
}

RealServerKey streams_of(const Pod& pod) {
  return {.address = pod.v4, .port = kStreamPort};
}

// A cluster with a daemon, and the one Service "web" of it.
struct Following {
  Cluster cluster;
  Manifests manifests;
  Daemon daemon;
  IpvsView ipvs{cluster.netns()};
  ServiceManifest web{.cluster_ips = {kVip},
                      .ports = {{.name = "echo", .port = 80, .target = kEchoPort},
                                {.name = "stream", .port = 90, .target = kStreamPort}}};

  explicit Following(int local_pods, const std::vector<std::string>& more_flags = {})
      : cluster({.local_pods = local_pods, .remote_pods = 0}),
        daemon(cluster.netns(), flags(more_flags)) {}

  std::vector<std::string> flags(const std::vector<std::string>& more) const {
    auto result = manifests.flags();
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }

  void endpoint(int pod, const std::string& conditions = EndpointManifest{}.conditions) {
    const auto address = cluster.local(pod).v4;
    for (auto& endpoint : web.endpoints) {
      if (endpoint.address == address) {
        endpoint.conditions = conditions;
        return;
      }
    }
    web.endpoints.push_back({address, kNodeName, conditions});
  }
  void no_endpoint(int pod) {
    const auto address = cluster.local(pod).v4;
    std::erase_if(web.endpoints, [&](const auto& one) { return one.address == address; });
  }
  void start() {
    manifests.put(web);
    daemon.mark();
    daemon.start();
    INFO(daemon.log());
    REQUIRE(daemon.logs("synced: "));
  }
  // Until the daemon programmed it.
  void put() {
    daemon.mark();
    manifests.put(web);
    INFO(daemon.log());
    REQUIRE(daemon.logs("synced: "));
  }

  std::set<std::string> servers_reached(int times = 8) {
    std::set<std::string> result;
    for (int i = 0; i < times; ++i)
      result.insert(outcome(cluster.client().ask(Protocol::tcp, ip(kVip), 80)));
    return result;
  }
  std::optional<std::uint32_t> weight(int pod) {
    return ipvs.weight(streams_key(), streams_of(cluster.local(pod)));
  }
};

std::string answered_by(const std::string& pod) {
  return pod + " sees 10.244.0.1";
}

// How many of so many new connections of the client are refused.
int refused(const Following& following, int connections) {
  int count = 0;
  for (int i = 0; i < connections; ++i)
    count += following.cluster.client().open_stream(ip(kVip), 90) ? 0 : 1;
  return count;
}

// sh goes by the client's address alone, so that all fall to one.
TEST_CASE("kernel: drain: mh and sh pass over a real server that drains", "[fallback]") {
  const std::string scheduler = GENERATE("mh", "sh");
  constexpr int kConnections = 60;
  Following following(3,
                      {std::string("--scheduler-flags=") + (scheduler == "mh" ? "mh-port" : "")});
  following.manifests.configure("ipvs: {scheduler: " + scheduler + "}\n");
  for (int pod = 1; pod <= 3; ++pod) following.endpoint(pod);
  following.start();
  LongConnections download;
  const auto server = download.open(following.cluster.client(), {ip(kVip), 90});
  download.run();
  const int pod = server.back() - '0';
  REQUIRE(server == "local-" + std::to_string(pod));
  following.endpoint(pod, kTerminating);
  following.put();
  REQUIRE(following.weight(pod) == 0U);
  // kube-proxy's way.
  const int before = refused(following, kConnections);
  CHECK((scheduler == "sh" ? before == kConnections : before > 0));

  // The next process has the flags set, and nothing else.
  REQUIRE(following.daemon.terminate() == 0);
  Daemon now(following.cluster.netns(), following.flags({"-v=4"}));
  now.start();
  REQUIRE(now.logs("synced: ipvs 2, links 0, addresses 0, elements 0, sets 0, rule tables 0,"));
  CHECK(following.cluster.netns()
            .inside([] { return shell("ipvsadm -Sn"); })
            .find("-s " + scheduler + " -b " + scheduler + "-fallback") != std::string::npos);
  CHECK(refused(following, kConnections) == 0);
  CHECK(download.moves_on() == "");
}

TEST_CASE("kernel: drain: a download survives its pod's termination and a rolling replacement") {
  Following following(4);
  following.endpoint(1);
  following.start();
  LongConnections download;
  REQUIRE(download.open(following.cluster.client(), {ip(kVip), 90}) == "local-1");
  download.run();

  // Terminating beside a new one, then gone; then that one is replaced, and so on.
  for (int next = 2; next <= 4; ++next) {
    following.endpoint(next);
    following.put();
    following.endpoint(next - 1, kTerminating);
    following.put();
    CHECK(following.servers_reached() == std::set{answered_by("local-" + std::to_string(next))});
    CHECK(following.weight(1) == 0U);
    CHECK(download.moves_on() == "");
    following.no_endpoint(next - 1);
    following.put();
    CHECK(following.servers_reached() == std::set{answered_by("local-" + std::to_string(next))});
    CHECK(following.weight(1) == 0U);
    CHECK(download.moves_on() == "");
  }
  // Those without a connection do not stay.
  CHECK(eventually([&] { return !following.weight(2) && !following.weight(3); }));
  // A restart goes on with draining.
  CHECK(following.daemon.terminate() == 0);
  following.daemon.start();
  following.web.ports[0].port = 81;  // to know when it is up
  following.put();
  CHECK(following.weight(1) == 0U);
  CHECK(following.weight(4) == 1U);
  CHECK(download.moves_on() == "");
}

TEST_CASE("kernel: drain: a download survives its Service's deletion where that is asked for",
          "[item-22]") {
  Following following(1, {"--drain-deleted-services", "--drain-timeout=12s"});
  following.endpoint(1);
  following.start();
  LongConnections download;
  REQUIRE(download.open(following.cluster.client(), {ip(kVip), 90}) == "local-1");
  download.run();
  following.daemon.mark();
  following.manifests.remove(following.web.name);
  REQUIRE(following.daemon.logs("synced: "));
  CHECK(following.weight(1) == 0U);
  CHECK(outcome(following.cluster.client().ask(Protocol::tcp, ip(kVip), 90)) == "refused");
  // The port without a connection goes before the one that has one.
  const VirtualServiceKey idle{.address = ip(kVip), .protocol = Protocol::tcp, .port = 80};
  CHECK(eventually([&] { return !following.ipvs.service(idle); }));
  CHECK(following.weight(1) == 0U);
  CHECK(download.moves_on() == "");
  CHECK(eventually([&] { return !following.ipvs.service(streams_key()); }));
  CHECK(download.moves_on() != "");
}

TEST_CASE("kernel: drain: an endpoint that returns gets its weight back in place", "[item-10]") {
  Following following(2);
  following.endpoint(1);
  following.endpoint(2);
  following.start();
  LongConnections connections;
  while (connections.open(following.cluster.client(), {ip(kVip), 90}) != "local-1") {
  }
  connections.run();
  for (const bool gone : {false, true}) {
    if (gone)
      following.no_endpoint(1);
    else
      following.endpoint(1, kTerminating);
    following.put();
    REQUIRE(following.weight(1) == 0U);
    CHECK(connections.moves_on() == "");
    following.endpoint(1);
    following.put();
    CHECK(following.weight(1) == 1U);
    const auto server =
        following.ipvs.server(streams_key(), streams_of(following.cluster.local(1)));
    REQUIRE(server);
    // A real server that was deleted and added again has no connections.
    CHECK(server->active_connections == 1);
    CHECK(connections.moves_on() == "");
    CHECK(following.servers_reached() == std::set{answered_by("local-1"), answered_by("local-2")});
  }
}

// The kernel ends the connections of a virtual service that is deleted (expire_nodest_conn).
TEST_CASE("kernel: drain: what drained when its Service went serves again when that is back",
          "[item-9]") {
  Following following(1);
  following.endpoint(1);
  following.start();
  const auto draining = following.cluster.client().open_stream(ip(kVip), 90);
  REQUIRE(draining);
  const auto web = following.web;
  following.no_endpoint(1);
  following.put();
  REQUIRE(following.weight(1) == 0U);
  following.daemon.mark();
  following.manifests.remove(web.name);
  REQUIRE(following.daemon.logs("synced: "));
  REQUIRE_FALSE(following.ipvs.service(streams_key()));
  following.web = web;
  following.put();
  CHECK(following.weight(1) == 1U);
  auto stream = following.cluster.client().open_stream(ip(kVip), 90);
  REQUIRE(stream);
  // Until the next look at what drains has passed.
  ::poll(nullptr, 0, 2500);
  CHECK(following.weight(1) == 1U);
  CHECK(stream->exchange());
}

// A reset: IPVS remembers it for 10 s, a connection that was closed for 2 minutes.
void abort_connection(netlink::UniqueFd socket) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  REQUIRE(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
}

TEST_CASE("kernel: drain: a leaving server is removed when it is idle") {
  Following following(2);
  following.endpoint(1);
  following.start();
  auto socket = following.cluster.client().netns->inside([] {
    return client_socket(Protocol::tcp, socket_address(ip("203.0.113.7"), 0),
                         socket_address(ip(kVip), 90), 5000, "a connection");
  });
  REQUIRE(socket);
  following.endpoint(2);
  following.no_endpoint(1);
  following.put();
  // Longer than until the first look at its connections.
  ::poll(nullptr, 0, 2000);
  CHECK(following.weight(1) == 0U);
  abort_connection(std::move(*socket));
  following.daemon.mark();
  CHECK(eventually([&] { return !following.weight(1); }, 40000));
  CHECK(following.daemon.logs("synced: ipvs 1,"));
  CHECK(following.weight(2) == 1U);
}

TEST_CASE("kernel: drain: --drain-timeout cuts connections that last") {
  Following following(2, {"--drain-timeout", "2s"});
  following.endpoint(1);
  following.start();
  auto download = following.cluster.client().open_stream(ip(kVip), 90);
  REQUIRE(download);
  following.endpoint(2);
  following.no_endpoint(1);
  following.put();
  const auto draining = following.weight(1);
  CHECK(eventually([&] { return !following.weight(1); }));
  CHECK(draining == 0U);
  CHECK_FALSE(download->exchange(2000));
  CHECK(following.servers_reached() == std::set{answered_by("local-2")});
}

// UDP clients of all addresses of "web", each with one flow.
struct UdpClients {
  std::vector<std::pair<std::string, UdpClient>> clients;

  void open(const Host& host, const std::string& address, std::uint16_t port) {
    auto client = host.open_udp(ip(address), port);
    REQUIRE(client);
    clients.emplace_back(host.name + " to " + address, std::move(*client));
  }

  // Whom each reaches with its next packet or, if that is lost, the one after it: a line each. The
  // node itself is told of a refusal by EPERM: the packet is dropped on its way out.
  std::string reached() {
    std::string result;
    for (auto& [name, client] : clients) {
      auto answer = client.ask(500);
      if (!answer && outcome(answer) == "no answer") answer = client.ask(5000);
      const bool refused = !answer && answer.error().sys_errno == EPERM;
      result += name + ": " + (answer ? answer->server : refused ? "refused" : outcome(answer));
      result += "\n";
    }
    return result;
  }
  std::string all(const std::string& server) const {
    std::string result;
    for (const auto& client : clients) result += client.first + ": " + server + "\n";
    return result;
  }
};

TEST_CASE("kernel: drain: UDP clients move to a live backend within one packet") {
  Following following(4);
  following.web.type = "NodePort";
  following.web.ports = {{.name = "dns",
                          .protocol = Protocol::udp,
                          .port = 53,
                          .target = kEchoPort,
                          .node_port = kNodePort}};
  following.web.spec = std::string("externalIPs: [") + kExternal + "]";
  following.endpoint(1);
  following.start();
  UdpClients udp;
  const Cluster& cluster = following.cluster;
  for (const Host* host :
       {&cluster.client(), &cluster.node(), static_cast<const Host*>(&cluster.local(4))}) {
    udp.open(*host, kVip, 53);
    udp.open(*host, kExternal, 53);
    udp.open(*host, "10.200.0.2", kNodePort);
  }
  REQUIRE(udp.reached() == udp.all("local-1"));

  following.no_endpoint(1);
  following.endpoint(2);
  following.put();
  CHECK(udp.reached() == udp.all("local-2"));
  following.endpoint(3);
  following.endpoint(2, kTerminating);
  following.put();
  CHECK(udp.reached() == udp.all("local-3"));
  // A flow whose server stays does not move.
  following.endpoint(1);
  following.put();
  CHECK(udp.reached() == udp.all("local-3"));

  following.web.endpoints.clear();
  following.put();
  CHECK(udp.reached() == udp.all("refused"));
  following.endpoint(1);
  following.put();
  CHECK(udp.reached() == udp.all("local-1"));

  // What happens while the daemon is away.
  CHECK(following.daemon.terminate() == 0);
  following.no_endpoint(1);
  following.endpoint(2);
  following.start();
  CHECK(udp.reached() == udp.all("local-2"));
}

}  // namespace
}  // namespace ipvsproxier::test
