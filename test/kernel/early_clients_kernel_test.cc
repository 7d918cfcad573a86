// Clients that begin before their Service is on this node, behind a CNI that masquerades what
// leaves the pods' network.

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/manifests.h"
#include "test/support/ip.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::Protocol;

constexpr const char* kEarlyVip = "10.96.8.1";
constexpr const char* kEarlyVip6 = "fd00:96::8:1";

// What leaves n1 for a Service that n1 does not know reaches a machine that never answers.
void lead_services_astray(const Cluster& cluster) {
  cluster.netns().inside([] {
    shell(
        "iptables -t nat -A POSTROUTING -s 10.244.0.0/16 ! -d 10.244.0.0/16 -j MASQUERADE &&"
        "ip6tables -t nat -A POSTROUTING -s fd00:244::/32 ! -d fd00:244::/32 -j MASQUERADE &&"
        "ip neigh add 10.200.0.77 lladdr 02:00:00:00:00:77 nud permanent dev eth0 &&"
        "ip neigh add fd00:200::77 lladdr 02:00:00:00:00:77 nud permanent dev eth0 &&"
        "ip route add 10.96.0.0/16 via 10.200.0.77 dev eth0 onlink &&"
        "ip route add fd00:96::/64 via fd00:200::77 dev eth0 &&"
        "echo 60 >/proc/sys/net/netfilter/nf_conntrack_sctp_timeout_cookie_wait");
  });
}

bool is_unreplied(const Cluster& cluster, const std::string& protocol,
                  const netlink::IpAddress& vip) {
  const auto listed = cluster.netns().inside([&] {
    return shell("conntrack -L -f " + std::string(vip.family() == Family::ipv4 ? "ipv4" : "ipv6") +
                 " -p " + protocol + " -d " + vip.to_string() + " 2>/dev/null");
  });
  return listed.find("UNREPLIED") != std::string::npos;
}

// What a client gets whose first packet came before its Service. A SYN is repeated after 1 s, 2 s
// and 4 s, an INIT after 3 s and 6 s. Each refreshes its conntrack entry, for which the kernel
// would wait 3 s in the case of an INIT (here a minute, so that the entry does not end by itself).
netlink::Result<EchoAnswer> answer_to_early_client(Protocol protocol, const netlink::IpAddress& vip,
                                                   const std::vector<std::string>& flags) {
  const std::string name = protocol == Protocol::tcp ? "tcp" : "sctp";
  const Cluster cluster({.local_pods = 2, .remote_pods = 1, .sctp = true});
  lead_services_astray(cluster);
  Manifests manifests;
  manifests.put({.name = "other", .cluster_ips = {"10.96.8.9"}, .annotations = {}, .spec = {}});
  auto all_flags = manifests.flags();
  all_flags.insert(all_flags.end(), flags.begin(), flags.end());
  Daemon daemon(cluster.netns(), all_flags);
  daemon.start();
  REQUIRE(daemon.logs("synced: "));

  auto answer = std::async(std::launch::async, [&] {
    return cluster.local(2).ask(protocol, vip, 80, {.timeout_ms = 8'000});
  });
  for (int i = 0; i < 1000 && !is_unreplied(cluster, name, vip); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  REQUIRE(is_unreplied(cluster, name, vip));
  const auto& there = cluster.remote(1);
  manifests.put(
      {.name = "early",
       .cluster_ips = {vip.to_string()},
       .ports = {{.name = "echo", .protocol = protocol, .target = kEchoPort}},
       .endpoints = {{vip.family() == Family::ipv4 ? there.v4 : there.v6, kRemoteNodeName}},
       .annotations = {},
       .spec = {}});
  auto result = answer.get();
  if (result) CHECK(result->server == there.name);
  UNSCOPED_INFO(daemon.log());
  return result;
}

TEST_CASE("kernel: a connection that began before its Service is open when it repeats its SYN") {
  const auto protocol = GENERATE(Protocol::tcp, Protocol::sctp);
  const auto vip = ip(GENERATE(kEarlyVip, kEarlyVip6));
  const auto result = answer_to_early_client(protocol, vip, {});
  if (!result) FAIL(to_string(result.error()));
}

// As with kube-proxy, which shows that the case above can fail.
TEST_CASE("kernel: under --kube-proxy-compat a connection that began early is lost") {
  const auto protocol = GENERATE(Protocol::tcp, Protocol::sctp);
  CHECK_FALSE(answer_to_early_client(protocol, ip(kEarlyVip), {"--kube-proxy-compat"}));
}

}  // namespace
}  // namespace ipvsproxier::test
