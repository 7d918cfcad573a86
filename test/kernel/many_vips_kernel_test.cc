// More VIPs than kube-ipvs0 takes: those on further links are served like the others.

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/manifests.h"

namespace ipvsproxier::test {
namespace {

using netlink::IpAddress;
using netlink::Protocol;

// 52 Services with 50 addresses of each family: 5,200 in all.
ServiceManifest filler(int number) {
  ServiceManifest service{
      .name = fmt::format("filler-{}", number),
      .cluster_ips = {fmt::format("10.96.{}.1", number), fmt::format("fd00:96::{:x}01", number)}};
  std::string external;
  for (int i = 2; i <= 50; ++i)
    external += fmt::format("{}10.96.{}.{}, \"fd00:96::{:x}{:02x}\"", i == 2 ? "" : ", ", number, i,
                            number, i);
  service.spec = "externalIPs: [" + external + "]";
  return service;
}

// A Service with an endpoint.
ServiceManifest served(const Cluster& cluster, const std::string& name, int number) {
  const auto& pod = cluster.local();
  return {
      .name = name,
      .cluster_ips = {fmt::format("10.96.{}.1", number), fmt::format("fd00:96::{:x}01", number)},
      .ports = {{.name = "echo", .port = 80, .target = kEchoPort}},
      .endpoints = {{pod.v4, kNodeName}, {pod.v6, kNodeName}}};
}

// The links of ours with the number of their addresses: "kube-ipvs0 4096, kube-ipvs1 17".
std::string held(const Cluster& cluster) {
  auto lines = cluster.netns().inside([] {
    return shell(
        "ip -o addr | awk '$2 ~ /^kube-ipvs/ { ++n[$2] } "
        "END { for (link in n) print link, n[link] }' | sort | tr '\\n' ' '");
  });
  return lines;
}

void check_all_reach(const Cluster& cluster, const std::vector<std::string>& vips) {
  for (const auto& vip : vips)
    for (const Host* host : std::initializer_list<const Host*>{&cluster.client(), &cluster.local(2),
                                                               &cluster.node()}) {
      INFO(host->name << " to " << vip);
      const auto answer = host->ask(Protocol::tcp, *IpAddress::parse(vip), 80);
      INFO((answer ? "" : to_string(answer.error())));
      CHECK(answer);
    }
}

TEST_CASE("kernel: VIPs beyond those of kube-ipvs0 are served, kept, repaired and cleaned up",
          "[long]") {
  Cluster cluster({.local_pods = 2, .remote_pods = 0});
  Manifests manifests;
  manifests.configure(std::string("detectLocalMode: ClusterCIDR\nclusterCIDR: \"") + kPodRanges +
                      "\"\nipvs: {syncPeriod: 10m}\n");
  manifests.put(served(cluster, "early", 200));
  for (int number = 0; number < 52; ++number) manifests.put(filler(number));
  Daemon daemon(cluster.netns(), manifests.flags());
  daemon.start();
  REQUIRE(daemon.logs("synced: "));
  CHECK(held(cluster) == "kube-ipvs0 4096 kube-ipvs1 1024 kube-ipvs2 82 ");
  daemon.mark();
  manifests.put(served(cluster, "late", 201));
  REQUIRE(daemon.logs("synced: "));
  CHECK(held(cluster) == "kube-ipvs0 4096 kube-ipvs1 1024 kube-ipvs2 84 ");
  // The late ones are on kube-ipvs2, the IPv6 early one on a further link.
  const std::vector<std::string> vips = {"10.96.200.1", "fd00:96::c801", "10.96.201.1",
                                         "fd00:96::c901"};
  check_all_reach(cluster, vips);

  // Another process finds all where they are.
  daemon.terminate();
  daemon.mark();
  manifests.put(served(cluster, "later", 202));
  daemon.start();
  REQUIRE(daemon.logs("synced: ipvs 4, links 0, addresses 2,"));

  for (const auto* damage : {"ip link del kube-ipvs2", "ip addr flush dev kube-ipvs1"}) {
    INFO(damage);
    daemon.mark();
    cluster.netns().inside([&] { shell(damage); });
    CHECK(daemon.logs("others removed address "));
    CHECK(daemon.logs("synced: "));
    // What goes one by one may be repaired in several syncs.
    const std::string wanted = "kube-ipvs0 4096 kube-ipvs1 1024 kube-ipvs2 86 ";
    CHECK(eventually([&] { return held(cluster) == wanted; }));
    check_all_reach(cluster, vips);
  }

  daemon.terminate();
  Daemon cleanup(cluster.netns(), {"--cleanup"});
  cleanup.start();
  CHECK(cleanup.wait_for_end() == 0);
  CHECK(held(cluster) == "");
  CHECK(cluster.netns().inside([] { return shell("ip -o link show type dummy | wc -l"); }) ==
        "0\n");
}

}  // namespace
}  // namespace ipvsproxier::test
