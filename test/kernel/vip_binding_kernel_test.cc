// VIPs that are bound by local routes instead of addresses: how that begins, is kept, and ends.

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"
#include "test/support/ip.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

constexpr const char* kVips[] = {"10.96.0.9", "fd00:96::9", "192.0.2.9", "2001:db8:2::9"};
constexpr const char* kBound = "10.96.0.9 192.0.2.9 2001:db8:2::9 fd00:96::9 ";

ServiceManifest bound_service(const Cluster& cluster) {
  const auto& pod = cluster.local();
  return {.cluster_ips = {"10.96.0.9", "fd00:96::9"},
          .ports = {{.name = "echo", .port = 80, .target = kEchoPort},
                    {.name = "stream", .port = 90, .target = kStreamPort}},
          .endpoints = {{pod.v4, kNodeName}, {pod.v6, kNodeName}},
          .spec = "externalIPs: [192.0.2.9, \"2001:db8:2::9\"]"};
}

std::string in_node(const Cluster& cluster, const std::string& command) {
  return cluster.netns().inside([&] { return shell(command); });
}

std::string bound_by_routes(const Cluster& cluster) {
  return in_node(cluster,
                 "(ip route show table local proto 107; ip -6 route show table local proto 107) | "
                 "sort | awk '$1 == \"local\" { printf \"%s \", $2 }'");
}

std::string bound_as_addresses(const Cluster& cluster) {
  return in_node(cluster,
                 "ip -o addr show kube-ipvs0 | awk '{ sub(\"/.*\", \"\", $4); print $4 }' | sort "
                 "| tr '\\n' ' '");
}

void check_reached(const Cluster& cluster) {
  for (const auto* vip : kVips)
    for (const Host* host :
         {&cluster.client(), static_cast<const Host*>(&cluster.local(2)), &cluster.node()}) {
      INFO(host->name << " to " << vip);
      const auto answer = host->ask(Protocol::tcp, ip(vip), 80);
      INFO((answer ? "" : to_string(answer.error())));
      CHECK(answer);
    }
}

struct Bed {
  Cluster cluster{ClusterShape{.local_pods = 2, .remote_pods = 0}};
  Manifests manifests;

  Bed() {
    // Longer than any test waits.
    manifests.configure(std::string("detectLocalMode: ClusterCIDR\nclusterCIDR: \"") + kPodRanges +
                        "\"\nipvs: {syncPeriod: 10m}\n");
    manifests.put(bound_service(cluster));
  }
  std::vector<std::string> flags(const std::string& binding) const {
    auto all = manifests.flags();
    all.push_back("--vip-binding=" + binding);
    return all;
  }
  void follow(Daemon& daemon) const {
    daemon.mark();
    daemon.start();
    const bool synced = daemon.logs("synced: ");
    INFO(daemon.log());
    REQUIRE(synced);
  }
};

TEST_CASE("kernel: VIP binding: a restart changes it both ways, traffic does not notice") {
  const Bed bed;
  const auto& cluster = bed.cluster;
  Daemon by_addresses(cluster.netns(), bed.flags("address"));
  Daemon by_routes(cluster.netns(), bed.flags("route"));
  bed.follow(by_addresses);
  CHECK(bound_as_addresses(cluster) == kBound);
  CHECK(bound_by_routes(cluster).empty());

  LongConnections connections;
  for (const auto* vip : kVips) connections.open(cluster.client(), {ip(vip), 90});
  connections.open(cluster.node(), {ip("10.96.0.9"), 90});
  connections.open(cluster.local(2), {ip("fd00:96::9"), 90});
  connections.run();
  NewConnections v4({.host = cluster.client(), .target = {ip("10.96.0.9"), 80}, .total = 40'000});
  NewConnections v6({.host = cluster.client(), .target = {ip("fd00:96::9"), 80}, .total = 40'000});
  const auto daemons = {std::pair(&by_routes, true), std::pair(&by_addresses, false),
                        std::pair(&by_routes, true)};
  Daemon* before = &by_addresses;
  for (const auto& [daemon, routes] : daemons) {
    before->terminate();
    bed.follow(*daemon);
    before = daemon;
    // As many come as go.
    CHECK(daemon->logs("synced: ipvs 0, links 0, addresses 8,"));
    CHECK(bound_by_routes(cluster) == (routes ? kBound : ""));
    CHECK(bound_as_addresses(cluster) == (routes ? "" : kBound));
    check_reached(cluster);
    CHECK(connections.moves_on() == "");
  }
  for (auto* const connecting : {&v4, &v6}) {
    connecting->stop();
    const auto counts = connecting->wait();
    INFO(to_string(counts));
    CHECK(counts.failed() == 0);
    CHECK(counts.answered() > 100);
  }

  // Another process finds all as it should be.
  by_routes.terminate();
  auto flags = bed.flags("route");
  flags.emplace_back("-v=4");
  Daemon another(cluster.netns(), flags);
  bed.follow(another);
  CHECK(another.logs("synced: ipvs 0, links 0, addresses 0, elements 0, sets 0, rule tables 0,"));
}

TEST_CASE("kernel: VIP binding: routes that others remove come back, those of others stay") {
  Bed bed;
  const auto& cluster = bed.cluster;
  in_node(cluster, "ip route add local 10.96.0.9 dev lo table local proto static metric 7");
  Daemon daemon(cluster.netns(), bed.flags("route"));
  bed.follow(daemon);
  CHECK(bound_by_routes(cluster) == kBound);
  check_reached(cluster);
  const auto lose = [&](const std::string& vip, const std::string& damage) {
    INFO(damage);
    daemon.mark();
    in_node(cluster, damage);
    CHECK(daemon.logs("others removed address " + vip + " from table local: adding it again"));
    CHECK(daemon.logs("synced: "));
    CHECK(bound_by_routes(cluster) == kBound);
  };
  lose("192.0.2.9", "ip route del local 192.0.2.9 dev lo table local proto 107");
  lose("fd00:96::9", "ip -6 route del local fd00:96::9 dev lo table local proto 107");
  lose("10.96.0.9", "ip route del local 10.96.0.9 dev lo table local proto 107");
  // All IPv6 ones go with the link, and cannot come back before it does.
  in_node(cluster, "ip link set lo down; ip link set lo up");
  CHECK(eventually([&] { return bound_by_routes(cluster) == kBound; }));
  check_reached(cluster);
  CHECK(in_node(cluster, "ip route show table local proto static").find("local 10.96.0.9") == 0);

  // A Service that goes takes its routes along.
  auto smaller = bound_service(cluster);
  smaller.spec.clear();
  daemon.mark();
  bed.manifests.put(smaller);
  CHECK(daemon.logs("synced: "));
  CHECK(bound_by_routes(cluster) == "10.96.0.9 fd00:96::9 ");
  daemon.terminate();

  in_node(cluster, "ip route del local 10.96.0.9 dev lo table local proto 107");
  const auto plan = in_node(cluster, ipvsctl_word() + " plan " +
                                         fmt::format("{}", fmt::join(bed.flags("route"), " ")) +
                                         " 2>&1; echo status $?");
  INFO(plan);
  CHECK(plan.find("+ local route to 10.96.0.9\n") != std::string::npos);
  CHECK(plan.find("status 1") != std::string::npos);
  const auto back = in_node(cluster, ipvsctl_word() + " plan " +
                                         fmt::format("{}", fmt::join(bed.flags("address"), " ")) +
                                         " 2>&1; echo status $?");
  INFO(back);
  CHECK(back.find("+ address 10.96.0.9 on kube-ipvs0\n") != std::string::npos);
  CHECK(back.find("- local route to fd00:96::9\n") != std::string::npos);

  Daemon cleanup(cluster.netns(), {"--cleanup"});
  cleanup.start();
  CHECK(cleanup.wait_for_end() == 0);
  CHECK(cleanup.log().find("1 links, 1 local routes, ") != std::string::npos);
  CHECK(bound_by_routes(cluster).empty());
  CHECK(in_node(cluster, "ip route show table local proto static").find("local 10.96.0.9") == 0);
}

// What a program on the node finds: the source address, and whether it may bind to the VIP.
std::string socket_with(const Cluster& cluster, const char* vip) {
  return cluster.netns().inside([&] {
    const auto text =
        shell(fmt::format("ip route get {0} | grep -o 'src [^ ]*' | tr '\\n' ' '; "
                          "ping -c 1 -W 5 -I {0} {0} >/dev/null 2>&1 && echo binds || echo refused",
                          vip));
    return text;
  });
}

TEST_CASE("kernel: VIP binding: what programs on the node see of it") {
  const Bed bed;
  const auto& cluster = bed.cluster;
  const bool routes = GENERATE(false, true);
  Daemon daemon(cluster.netns(), bed.flags(routes ? "route" : "address"));
  bed.follow(daemon);
  CHECK(socket_with(cluster, "10.96.0.9") == "src 10.96.0.9 binds\n");
  CHECK(socket_with(cluster, "fd00:96::9") ==
        (routes ? "src fd00:200::2 refused\n" : "src fd00:96::9 binds\n"));
}

}  // namespace
}  // namespace ipvsproxier::test
