// What users reported of policy Local in IPVS mode, each as a case with --in-cluster-clients, and a
// Service whose internal policy is Local as well.

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "test/kernel/kernel_state.h"
#include "test/kernel/one_service_bed.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::Protocol;

std::string seen_at(const Pod& pod, Family family, const netlink::IpAddress& source) {
  return netlink::to_string(pod.address(family), kEchoPort) + " sees " + source.to_string();
}

std::vector<EndpointManifest> elsewhere_alone(const Cluster& cluster) {
  return endpoints_of({&cluster.remote(1)});
}

TEST_CASE("kernel: reported of policy Local where the node has no endpoint", "[.few]") {
  OneServiceBed bed(elsewhere_alone);
  const auto& cluster = bed.cluster();
  const auto& there = cluster.remote(1);
  for (const auto family : netlink::kFamilies) {
    const auto node = cluster.node().address(family);
    const auto pod = cluster.local(2).address(family);
    {
      INFO("kubernetes 93456, MetalLB 290: the node itself asks the load balancer");
      CHECK(bed.ask(cluster.node(), By::load_balancer, family) == seen_at(there, family, node));
    }
    {
      INFO("kubernetes 75262, 115931: a pod asks the load balancer, and keeps its address");
      CHECK(bed.ask(cluster.local(2), By::load_balancer, family) == seen_at(there, family, pod));
    }
    {
      INFO("kubernetes 75262, the other half: outside it is no black hole that looks served");
      CHECK(bed.ask(cluster.client(), By::load_balancer, family) == "lost");
    }
  }
}

TEST_CASE("kernel: reported of policy Local where the node has one of several endpoints",
          "[.few]") {
  OneServiceBed bed([](const Cluster& all) {
    return endpoints_of({&all.local(1), &all.remote(1), &all.remote(2)});
  });
  const auto& cluster = bed.cluster();
  for (const auto family : netlink::kFamilies) {
    const auto client = cluster.client().address(family);
    INFO(
        "kubernetes 71596, MetalLB 153, 290: each connection from outside, not one of as many as "
        "there are nodes, is served here, and the client's address arrives");
    for (int i = 0; i < 4; ++i)
      for (const auto by : {By::load_balancer, By::node_port})
        CHECK(bed.ask(cluster.client(), by, family) == seen_at(cluster.local(1), family, client));
  }
}

TEST_CASE("kernel: policy Local is for clients outside where the internal policy is Local, too",
          "[.few][.local_policy]") {
  OneServiceBed bed(elsewhere_alone, ", internalTrafficPolicy: Local");
  const auto& cluster = bed.cluster();
  const auto& there = cluster.remote(1);
  for (const auto family : netlink::kFamilies) {
    const auto node = cluster.node().address(family);
    for (const auto by : kBys) {
      for (const auto protocol : {Protocol::tcp, Protocol::udp}) {
        INFO("facet " << static_cast<int>(by) << ", " << netlink::to_string(protocol));
        CHECK(bed.ask(cluster.node(), by, family, protocol) == seen_at(there, family, node));
        CHECK(bed.ask(cluster.local(2), by, family, protocol) ==
              seen_at(there, family, cluster.local(2).address(family)));
      }
      CHECK(bed.ask(cluster.client(), by, family) == "lost");
    }
    CHECK(bed.ask(cluster.remote(2), By::node_port, family) == "lost");
    // The internal policy is what it was.
    CHECK(kind_of(bed.ask_cluster_ip(cluster.local(2), family)) == "refused");
  }
}

// IPVS sees the answers alone: the end of an endpoint is among them, a client's reset is not.
TEST_CASE("kernel: a connection of policy Local from within is active until its endpoint ends it",
          "[.few]") {
  TrafficBed bed({.local_pods = 2});
  const auto& there = bed.cluster.remote(1);
  bed.manifests.put({.name = "streams",
                     .type = "LoadBalancer",
                     .cluster_ips = {"10.96.0.20"},
                     .ports = {{.name = "s", .port = 90, .target = kStreamPort}},
                     .endpoints = {{there.v4, there.node}},
                     .spec = "externalTrafficPolicy: Local",
                     .ingress_ips = {"192.0.2.10"}});
  bed.program();
  IpvsView ipvs(bed.cluster.netns());
  const netlink::VirtualServiceKey cluster_ip{ip("10.96.0.20"), Protocol::tcp, 90};
  const auto counted = [&] { return ipvs.server(cluster_ip, {there.v4, kStreamPort}).value(); };
  {
    std::vector<Stream> streams;
    for (const Host* from : {&bed.cluster.node(), static_cast<const Host*>(&bed.cluster.local(2))})
      for (int i = 0; i < 2; ++i) {
        auto stream = from->open_stream(ip("192.0.2.10"), 90);
        REQUIRE(stream);
        streams.push_back(std::move(*stream));
        REQUIRE(streams.back().exchange());
      }
    CHECK(counted().active_connections == 4);
    const auto from = bed.cluster.local(2).v4.to_string();
    const auto live = bed.cluster.netns().inside(
        [&] { return shell(ipvsctl_word() + " explain --live " + from + " 192.0.2.10:90 2>&1"); });
    INFO(live);
    const auto at = netlink::to_string(there.v4, kStreamPort);
    CHECK(live.find("  conntrack  TCP " + from + ":") != std::string::npos);
    CHECK(live.find(" -> 192.0.2.10:90, answered " + at) != std::string::npos);
    CHECK(live.find("  IPVS       TCP " + from + ":") != std::string::npos);
    CHECK(live.find(" -> 10.96.0.20:90 -> " + at) != std::string::npos);
    std::move(streams.back()).reset();
    streams.pop_back();
  }
  CHECK(eventually([&] { return counted().inactive_connections == 3; }));
  CHECK(counted().active_connections == 1);
}

}  // namespace
}  // namespace ipvsproxier::test
