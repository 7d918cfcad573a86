// The test bed itself: without a proxier everybody reaches everybody, and nobody a Service.

#include <catch2/catch.hpp>

#include "netlink/sysctl.h"
#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/manifests.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;

// The source address of n1 depends on the link that it uses.
std::string address_towards(const Host& host, const Pod& pod, Family family) {
  if (host.name != kNodeName || pod.node != kNodeName) return host.address(family).to_string();
  return family == Family::ipv4 ? "10.244.0.1" : "fd00:244::1";
}

TEST_CASE("kernel: cluster: all hosts reach all pods with their own addresses") {
  const Cluster cluster({.local_pods = 2, .remote_pods = 1, .sctp = true});
  const Host* const hosts[] = {&cluster.node(), &cluster.local(1), &cluster.remote()};
  for (const Family family : netlink::kFamilies) {
    for (const Host* host : hosts) {
      for (const Pod* pod : {&cluster.local(2), &cluster.remote()}) {
        for (const Protocol protocol : {Protocol::tcp, Protocol::udp, Protocol::sctp}) {
          INFO(netlink::to_string(protocol));
          CHECK(outcome(host->ask(protocol, pod->address(family), kEchoPort)) ==
                pod->name + " sees " + address_towards(*host, *pod, family));
        }
      }
    }
    CHECK(cluster.client().ping(cluster.node().address(family)));
    CHECK(cluster.stranger().ping(cluster.node().address(family)));
    CHECK(cluster.local().ping(cluster.local(2).address(family)));
    auto stream = cluster.local().open_stream(cluster.remote().address(family), kStreamPort);
    REQUIRE(stream);
    CHECK(stream->greeting().client == cluster.local().address(family));
    for (int i = 0; i < 3; ++i) CHECK(stream->exchange());
    auto udp = cluster.local().open_udp(cluster.remote().address(family), kEchoPort);
    REQUIRE(udp);
    const auto first = udp->ask();
    REQUIRE(first);
    const auto second = udp->ask();
    REQUIRE(second);
    CHECK(*second == *first);
    for (const Protocol protocol : {Protocol::tcp, Protocol::udp}) {
      CHECK(outcome(cluster.local().ask(protocol, cluster.local(2).address(family), 1)) ==
            "refused");
    }
  }
}

TEST_CASE("kernel: daemon: --once programs a Service of a manifest, and says what is wrong") {
  Cluster cluster({.local_pods = 1, .remote_pods = 0});
  Manifests manifests;
  ServiceManifest web{.cluster_ips = {"10.96.0.9", "fd00:96::9"}};
  const auto none = cluster.local().ask(Protocol::tcp, *IpAddress::parse("10.96.0.9"), 80,
                                        {.source = {}, .source_port = 0, .timeout_ms = 200});
  CHECK_FALSE(none);
  for (const Family family : netlink::kFamilies) {
    web.endpoints.push_back({cluster.local().address(family), kNodeName});
  }
  manifests.put(web);
  const auto done = run_once(cluster.netns(), manifests);
  INFO(done.log);
  CHECK(done.status == 0);
  for (const auto& vip : web.cluster_ips) {
    const IpAddress address = *IpAddress::parse(vip);
    CHECK(outcome(cluster.client().ask(Protocol::tcp, address, 80)) ==
          (address.family() == Family::ipv4 ? "local-1 sees 10.244.0.1"
                                            : "local-1 sees fd00:244::1"));
  }
  manifests.write("web", "kind: [");
  CHECK(run_once(cluster.netns(), manifests).status == 1);
}

TEST_CASE("kernel: daemon: IPv6 is forwarded where that is asked for, and only there",
          "[item-21]") {
  const Netns netns;
  netns.ip(
      "link add eth0 type dummy\nlink set eth0 up\naddr add 10.200.0.2/24 dev eth0\n"
      "addr add fd00:200::2/64 dev eth0 nodad\n");
  const auto forwards = [&] {
    return netns.inside([] { return *netlink::Sysctl().read("net/ipv6/conf/all/forwarding"); });
  };
  REQUIRE(forwards() == "0");
  const Manifests manifests;
  CHECK(run_once(netns, manifests).status == 0);
  CHECK(forwards() == "0");
  CHECK(run_once(netns, manifests, {"--ipv6-forwarding"}).status == 0);
  CHECK(forwards() == "1");
}

}  // namespace
}  // namespace ipvsproxier::test
