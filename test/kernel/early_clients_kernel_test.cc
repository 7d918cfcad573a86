// Clients that begin before their Service is on this node, behind a CNI that masquerades what
// leaves the pods' network.

#include <chrono>
#include <future>
#include <thread>

#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/manifests.h"
#include "test/support/ip.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

constexpr const char* kEarlyVip = "10.96.8.1";

// What leaves n1 for a Service that n1 does not know reaches a machine that never answers.
void lead_services_astray(const Cluster& cluster) {
  cluster.netns().inside([] {
    shell(
        "iptables -t nat -A POSTROUTING -s 10.244.0.0/16 ! -d 10.244.0.0/16 -j MASQUERADE &&"
        "ip neigh add 10.200.0.77 lladdr 02:00:00:00:00:77 nud permanent dev eth0 &&"
        "ip route add 10.96.0.0/16 via 10.200.0.77 dev eth0 onlink");
  });
}

bool is_unreplied(const Cluster& cluster, const std::string& protocol) {
  const auto listed = cluster.netns().inside(
      [&] { return shell("conntrack -L -p " + protocol + " -d " + kEarlyVip + " 2>/dev/null"); });
  return listed.find("UNREPLIED") != std::string::npos;
}

// A SYN is repeated after 1 s, 2 s, 4 s, and as long as it is, its conntrack entry stays. An INIT
// is repeated after 3 s and 6 s; the kernel forgets an unanswered one after 10 s.
TEST_CASE("kernel: a connection that began before its Service is open when it repeats its SYN") {
  const auto protocol = GENERATE(Protocol::tcp, Protocol::sctp);
  const std::string name = protocol == Protocol::tcp ? "tcp" : "sctp";
  const Cluster cluster({.local_pods = 2, .remote_pods = 1, .sctp = true});
  lead_services_astray(cluster);
  Manifests manifests;
  manifests.put({.name = "other", .cluster_ips = {"10.96.8.9"}, .annotations = {}, .spec = {}});
  Daemon daemon(cluster.netns(), manifests.flags());
  daemon.start();
  REQUIRE(daemon.logs("synced: "));

  auto answer = std::async(std::launch::async, [&] {
    return cluster.local(2).ask(protocol, ip(kEarlyVip), 80, {.timeout_ms = 14'000});
  });
  for (int i = 0; i < 1000 && !is_unreplied(cluster, name); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  REQUIRE(is_unreplied(cluster, name));
  const auto& there = cluster.remote(1);
  manifests.put({.name = "early",
                 .cluster_ips = {kEarlyVip},
                 .ports = {{.name = "echo", .protocol = protocol, .target = kEchoPort}},
                 .endpoints = {{there.v4, kRemoteNodeName}},
                 .annotations = {},
                 .spec = {}});
  const auto result = answer.get();
  INFO(daemon.log());
  if (!result) FAIL(to_string(result.error()));
  CHECK(result->server == there.name);
}

}  // namespace
}  // namespace ipvsproxier::test
