// The command `ipvsctl explain` as people and scripts call it.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "test/kernel/traffic.h"
#include "test/support/paths.h"
#include "test/support/require.h"

namespace ipvsproxier::test {
namespace {

// What it prints in n1, and its exit status as the last line.
std::string explained(const Cluster& cluster, const std::string& arguments) {
  return cluster.netns().inside(
      [&] { return shell(ipvsctl_word() + " explain " + arguments + " 2>&1; echo $?"); });
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("kernel: ipvsctl explain prints a page, says with its status whether it gets there") {
  TrafficBed bed({.local_pods = 2, .remote_pods = 1});
  const auto& cluster = bed.cluster;
  bed.manifests.put({.name = "web",
                     .type = "LoadBalancer",
                     .cluster_ips = {"10.96.0.20", "fd00:96::20"},
                     .endpoints = endpoints_of({&cluster.local(1), &cluster.remote(1)}),
                     .spec = "loadBalancerSourceRanges: [203.0.113.0/24]",
                     .ingress_ips = {"192.0.2.10"}});
  bed.program();

  const auto client = explained(cluster, "203.0.113.7 192.0.2.10:80");
  INFO(client);
  CHECK(has(client, "TCP 203.0.113.7 -> 192.0.2.10:80, in by eth0\n"));
  CHECK(has(client, "KUBE-LOAD-BALANCER-SOURCE-CIDR has 192.0.2.10,tcp:80,203.0.113.0/24"));
  CHECK(has(client, "It goes to one of 2 real servers, as rr chooses:\n"));
  CHECK(has(client, "  10.244.0.11:8080  weight 1  sees 10.244.0.1 (masqueraded: marked by "));
  CHECK(has(client, "  10.244.1.11:8080  weight 1  sees 10.200.0.2 (masqueraded: marked by "));
  CHECK(client.ends_with("\n0\n"));

  const auto stranger = explained(cluster, "198.51.100.9 192.0.2.10:80");
  INFO(stranger);
  CHECK(has(stranger, "> filter INPUT"));
  CHECK(has(stranger, "It is dropped at filter INPUT: KUBE-SOURCE-RANGES-FIREWALL -j DROP.\n"));
  CHECK(stranger.ends_with("\n1\n"));

  const auto own = explained(cluster, "node [fd00:96::20]:81");
  INFO(own);
  CHECK(has(own, "sent by this node"));
  CHECK(has(own, "It is refused (ICMP port unreachable) at filter INPUT: KUBE-IPVS-FILTER"));
  CHECK(own.ends_with("\n1\n"));

  const auto json = explained(cluster, "10.244.0.12:4000 10.96.0.20:80/tcp --in local-2 -o json");
  const auto document =
      nlohmann::json::parse(json.substr(json.find('{'), json.rfind('}') + 1 - json.find('{')));
  CHECK(document["flow"]["inLink"] == "cni0");
  CHECK(document["service"]["scheduler"] == "rr");
  CHECK(document["candidates"].size() == 2);
  CHECK(document["candidates"][0]["arrival"]["source"] == "10.244.0.12");
  CHECK(document["getsThere"] == true);

  const auto none = explained(cluster, "10.244.0.12 10.96.0.20:80 --live");
  INFO(none);
  CHECK(has(none, "\nNow:\n  no connection of it\n"));
  const auto stream = require(cluster.local(2).open_stream(ip("10.96.0.20"), 80));
  const auto live = explained(cluster, "10.244.0.12 10.96.0.20:80 --live");
  INFO(live);
  CHECK(has(live, "  IPVS       TCP 10.244.0.12:"));
  CHECK(has(live, "  conntrack  TCP 10.244.0.12:"));
  CHECK(has(live, " -> 10.96.0.20:80, answered 10.244."));
  CHECK_FALSE(has(live, "Beware"));

  const auto nonsense = explained(cluster, "203.0.113.7 192.0.2.10:80 --in eth7");
  CHECK(has(nonsense, "there is no link eth7"));
  CHECK(nonsense.ends_with("\n2\n"));
  const auto unprivileged = cluster.netns().inside([] {
    return shell("setpriv --bounding-set=-all --inh-caps=-all --reuid=65534 --clear-groups " +
                 ipvsctl_word() + " explain node 10.96.0.20:80 2>&1; echo $?");
  });
  INFO(unprivileged);
  CHECK(has(unprivileged, "CAP_NET_ADMIN"));
  CHECK(unprivileged.ends_with("\n2\n"));
}

}  // namespace
}  // namespace ipvsproxier::test
