// What a daemon that follows does to traffic by its filters: source ranges by the thousand, ranges
// that go under a connection, ports for health checks.

#include <catch2/catch.hpp>

#include "test/kernel/kernel_state.h"
#include "test/kernel/traffic.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

constexpr const char* kBalanced[] = {"192.0.2.40", "2001:db8:2::40"};
constexpr const char* kClusterIp[] = {"10.96.0.50", "fd00:96::50"};
constexpr const char* kNodeAddress[] = {"10.200.0.2", "fd00:200::2"};
constexpr int kManyRanges = 1500;  // of each family
constexpr std::uint16_t kHealthPort = 32050;

// Ranges that hold none of the cluster's hosts; some are part of others.
std::vector<std::string> many_ranges(int count) {
  std::vector<std::string> ranges;
  for (int i = 0; i < count; ++i) {
    const std::string high = std::to_string(i / 250);
    const std::string low = std::to_string(i % 250);
    ranges.push_back("100." + high + "." + low + (i % 10 == 0 ? ".0/24" : ".128/25"));
    if (i % 10 == 0) ranges.push_back("100." + high + "." + low + ".7/32");
    ranges.push_back("2001:db8:a:" + std::to_string(i) + "::/64");
  }
  return ranges;
}

ServiceManifest restricted(const Cluster& cluster, const std::vector<std::string>& ranges) {
  std::string list;
  for (const auto& range : ranges) list += (list.empty() ? "\"" : ", \"") + range + "\"";
  return {.name = "restricted",
          .type = "LoadBalancer",
          .cluster_ips = {kClusterIp[0], kClusterIp[1]},
          .ports = {{.name = "echo", .port = 80, .target = kEchoPort},
                    {.name = "udp", .protocol = Protocol::udp, .port = 80, .target = kEchoPort},
                    {.name = "stream", .port = 90, .target = kStreamPort}},
          .endpoints = endpoints_of({&cluster.local(1)}),
          .spec = "loadBalancerSourceRanges: [" + list + "]",
          .ingress_ips = {kBalanced[0], kBalanced[1]}};
}

// The cluster with a daemon that follows.
struct FollowedBed : TrafficBed {
  explicit FollowedBed(const std::vector<std::string>& more_flags)
      : TrafficBed({.local_pods = 2, .remote_pods = 0}),
        daemon(cluster.netns(), flags(more_flags)) {}

  std::vector<std::string> flags(const std::vector<std::string>& more) const {
    auto result = manifests.flags();
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }
  void start() {
    daemon.start();
    INFO(daemon.log());
    REQUIRE(daemon.logs("synced: "));
  }
  void put(const ServiceManifest& service) {
    daemon.mark();
    manifests.put(service);
    INFO(daemon.log());
    REQUIRE(daemon.logs("synced: "));
  }
  Daemon daemon;
};

void check_let_in(const Host& from, bool let_in) {
  for (const char* address : kBalanced) {
    for (const Protocol protocol : {Protocol::tcp, Protocol::udp}) {
      INFO(from.name << " to " << address << " " << netlink::to_string(protocol));
      const auto text = answer(from, protocol, address, 80, let_in ? kPatience : kShortWait);
      INFO(text);
      if (let_in)
        CHECK(text.starts_with("local-1 sees "));
      else if (text != "no answer")
        // nf_tables drops a packet of the node itself within send().
        CHECK((from.name == kNodeName && text.ends_with("Operation not permitted (denied)")));
    }
  }
}

void check_cut(Stream& stream) {
  const auto cut = stream.exchange(kShortWait);
  REQUIRE_FALSE(cut);
  CHECK(cut.error().kind == netlink::ErrorKind::timeout);
}

TEST_CASE("kernel: traffic: thousands of source ranges, and one that goes cuts connections") {
  FollowedBed bed({});
  const Cluster& cluster = bed.cluster;
  auto ranges = many_ranges(kManyRanges);
  const std::vector<std::string> of_client = {"203.0.113.0/24", "2001:db8:7::/64"};
  const std::vector<std::string> of_stranger = {"198.51.100.9/32", "2001:db8:9::9/128"};
  const auto with = [&](std::initializer_list<std::vector<std::string>> more) {
    auto all = ranges;
    for (const auto& one : more) all.insert(all.begin() + kManyRanges / 2, one.begin(), one.end());
    return restricted(cluster, all);
  };
  bed.manifests.put(with({of_client}));
  bed.start();
  check_let_in(cluster.client(), true);
  check_let_in(cluster.stranger(), false);
  check_let_in(cluster.local(2), false);
  check_let_in(cluster.node(), false);

  std::vector<Stream> of_clients;
  for (const char* address : kBalanced) {
    auto stream = cluster.client().open_stream(ip(address), 90, kPatience);
    REQUIRE(stream);
    of_clients.push_back(std::move(*stream));
  }
  bed.put(with({of_client, of_stranger}));
  check_let_in(cluster.stranger(), true);
  for (auto& stream : of_clients) CHECK(stream.exchange(kPatience));

  // Others' ranges go, and come back by the thousand.
  ranges = many_ranges(kManyRanges / 2);
  bed.put(with({of_client, of_stranger}));
  ranges = many_ranges(kManyRanges);
  bed.put(with({of_client, of_stranger}));
  for (auto& stream : of_clients) CHECK(stream.exchange(kPatience));

  bed.put(with({of_stranger}));
  check_let_in(cluster.client(), false);
  check_let_in(cluster.stranger(), true);
  for (auto& stream : of_clients) check_cut(stream);
}

TEST_CASE("kernel: traffic: few source ranges: connections live until theirs goes") {
  FollowedBed bed({});
  const Cluster& cluster = bed.cluster;
  const std::vector<std::string> of_stranger = {"198.51.100.9/32", "2001:db8:9::9/128"};
  auto of_both = of_stranger;
  of_both.insert(of_both.end(), {"203.0.113.0/24", "2001:db8:7::/64"});
  const auto local = [&](const std::vector<std::string>& ranges) {
    auto service = restricted(cluster, ranges);
    service.spec += ", externalTrafficPolicy: Local";
    return service;
  };
  std::vector<Stream> of_clients;
  std::vector<Stream> of_strangers;
  const auto open_streams = [&] {
    for (const char* address : kBalanced) {
      auto client = cluster.client().open_stream(ip(address), 90, kPatience);
      auto stranger = cluster.stranger().open_stream(ip(address), 90, kPatience);
      REQUIRE((client && stranger));
      of_clients.push_back(std::move(*client));
      of_strangers.push_back(std::move(*stranger));
    }
  };
  const auto check_live = [](std::vector<Stream>& streams) {
    for (auto& stream : streams) CHECK(stream.exchange(kPatience));
  };

  bed.manifests.put(restricted(cluster, of_both));
  bed.start();
  check_let_in(cluster.local(2), false);
  open_streams();
  // Clients are not masqueraded any more, those of old connections excepted.
  bed.put(local(of_both));
  check_let_in(cluster.local(2), false);
  open_streams();
  CHECK(bed.daemon.terminate() == 0);
  check_live(of_clients);
  // One more while the daemon is away.
  of_both.push_back("198.18.0.0/15");
  bed.manifests.put(local(of_both));
  bed.daemon.mark();
  bed.start();
  check_live(of_clients);
  check_live(of_strangers);

  bed.put(local(of_stranger));
  for (auto& stream : of_clients) check_cut(stream);
  check_live(of_strangers);
  check_let_in(cluster.client(), false);
  bed.put(local({}));
  check_let_in(cluster.client(), true);
  check_let_in(cluster.local(2), true);
  check_live(of_strangers);
}

constexpr std::uint16_t kHealthzPort = 10256;
constexpr std::uint16_t kMetricsPort = 10249;

std::string health(const Host& from, const std::string& address, std::uint16_t port) {
  const std::string host = address.find(':') == std::string::npos ? address : "[" + address + "]";
  return from.netns->inside([&] {
    return shell("curl -s -g -m 60 http://" + host + ":" + std::to_string(port) + "/ || echo none");
  });
}

// With some of the node's addresses for node ports, the Service's health server is there and at the
// addresses of its load balancer.
TEST_CASE("kernel: traffic: health checks arrive where node ports do, and at load balancers") {
  FollowedBed bed({});
  const Cluster& cluster = bed.cluster;
  bed.manifests.configure(
      "detectLocalMode: ClusterCIDR\nclusterCIDR: \"10.244.0.0/16,fd00:244::/48\"\n"
      "nodePortAddresses: [primary]\n");
  auto service = restricted(cluster, {"203.0.113.0/24", "2001:db8:7::/64"});
  service.spec +=
      ", externalTrafficPolicy: Local, healthCheckNodePort: " + std::to_string(kHealthPort);
  bed.manifests.put(service);
  bed.start();
  CHECK(
      eventually([&] { return health(cluster.client(), kBalanced[0], kHealthPort) != "none\n"; }));
  for (std::size_t family = 0; family < 2; ++family) {
    INFO(bed.daemon.log());
    for (const char* address : {kNodeAddress[family], kBalanced[family]})
      CHECK(health(cluster.client(), address, kHealthPort).find("\"localEndpoints\"") !=
            std::string::npos);
    CHECK(health(cluster.client(), kBalanced[family], kHealthzPort) != "none\n");
    CHECK(health(cluster.local(1), kClusterIp[family], kHealthPort) == "none\n");
    CHECK(health(cluster.local(1), kClusterIp[family], kHealthzPort) == "none\n");
    CHECK(health(cluster.client(), kBalanced[family], 22) == "none\n");
  }
}

TEST_CASE("kernel: traffic: ports for health checks answer at the node's addresses and at VIPs") {
  FollowedBed bed({});
  const Cluster& cluster = bed.cluster;
  auto service = restricted(cluster, {"203.0.113.0/24", "2001:db8:7::/64"});
  service.spec +=
      ", externalTrafficPolicy: Local, healthCheckNodePort: " + std::to_string(kHealthPort);
  bed.manifests.put(service);
  bed.start();
  // The main thread listens some time after the sync.
  CHECK(eventually(
      [&] { return health(cluster.client(), kNodeAddress[0], kHealthPort) != "none\n"; }));
  for (const Host* from : three_sides(cluster)) {
    for (std::size_t family = 0; family < 2; ++family) {
      for (const char* address : {kNodeAddress[family], kClusterIp[family], kBalanced[family]}) {
        INFO(from->name << " to " << address << "\n" << bed.daemon.log());
        CHECK(health(*from, address, kHealthPort).find("\"localEndpoints\"") != std::string::npos);
        // The next port is nobody's.
        CHECK(health(*from, address, kHealthPort + 1) == "none\n");
      }
    }
  }
  // Only the addresses of load balancers have the port of our own health server, too.
  for (std::size_t family = 0; family < 2; ++family) {
    INFO(bed.daemon.log());
    CHECK(health(cluster.client(), kBalanced[family], kHealthzPort) != "none\n");
    CHECK(health(cluster.client(), kBalanced[family], kMetricsPort) == "none\n");
    CHECK(health(cluster.local(1), kClusterIp[family], kHealthzPort) == "none\n");
  }
  // Without the port of the Service there is none.
  bed.put(restricted(cluster, {"203.0.113.0/24", "2001:db8:7::/64"}));
  CHECK(
      eventually([&] { return health(cluster.client(), kBalanced[0], kHealthPort) == "none\n"; }));
}

}  // namespace
}  // namespace ipvsproxier::test
