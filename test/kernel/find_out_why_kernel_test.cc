// The troubles of docs/find-out-why.md: each is made, and seen by traffic, and the command that the
// page names tells its cause. `-s` prints what the commands say.

#include <catch2/catch.hpp>

#include "test/kernel/daemon.h"
#include "test/kernel/traffic.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

class Troubled {
 public:
  Troubled() {
    // What others change stays for as long as the test takes.
    bed_.manifests.configure(
        "ipvs: {syncPeriod: 10m}\ndetectLocalMode: ClusterCIDR\nclusterCIDR: \"" +
        std::string(kPodRanges) + "\"\n");
    const auto& cluster = bed_.cluster;
    bed_.manifests.put({.name = "shop",
                        .type = "LoadBalancer",
                        .cluster_ips = {"10.96.0.10"},
                        .ports = {{.name = "http"}},
                        .endpoints = endpoint(cluster.remote(1)),
                        .spec = "loadBalancerSourceRanges: [203.0.113.0/24]",
                        .ingress_ips = {"192.0.2.10"}});
    bed_.manifests.put({.name = "web",
                        .cluster_ips = {"10.96.0.20"},
                        .endpoints = {{cluster.local(1).v4, "n1",
                                       "ready: false, serving: false, terminating: false"}}});
    bed_.manifests.put({.name = "api",
                        .type = "NodePort",
                        .cluster_ips = {"10.96.0.30"},
                        .ports = {{.name = "https", .node_port = 30080}},
                        .endpoints = endpoint(cluster.remote(1)),
                        .spec = "externalTrafficPolicy: Local"});
    bed_.manifests.put(
        {.name = "cart", .cluster_ips = {"10.96.0.40"}, .endpoints = endpoint(cluster.local(1))});
    daemon_.start();
    REQUIRE(daemon_.logs("synced: "));
  }

  const Cluster& cluster() const { return bed_.cluster; }
  std::string ipvsctl(const std::string& words) const {
    return cluster().netns().inside([&] {
      return shell(ipvsctl_word() + " " + words + " --control-socket " + socket_ +
                   " 2>&1; echo $?");
    });
  }

 private:
  static std::vector<EndpointManifest> endpoint(const Pod& pod) { return {{pod.v4, pod.node}}; }
  std::vector<std::string> flags() const {
    auto flags = bed_.manifests.flags();
    flags.push_back("--control-socket=" + socket_);
    return flags;
  }

  TempDir dir_;
  const std::string socket_ = (dir_.path() / "control.sock").string();
  TrafficBed bed_{{.local_pods = 2, .remote_pods = 1}};
  Daemon daemon_{cluster().netns(), flags()};
};

void tells(const std::string& text, const std::vector<std::string>& parts) {
  INFO(text);
  for (const auto& part : parts) {
    INFO(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("kernel: find out why: each trouble, and the command that shows it") {
  const Troubled world;
  const auto& cluster = world.cluster();

  // A client outside gets no answer from a load balancer.
  CHECK(answer(cluster.stranger(), Protocol::tcp, "192.0.2.10", 80, kShortWait) == "no answer");
  tells(world.ipvsctl("explain 198.51.100.9 192.0.2.10:80"),
        {"KUBE-LOAD-BALANCER-FW has 192.0.2.10,tcp:80",
         "It is dropped at filter INPUT: KUBE-SOURCE-RANGES-FIREWALL -j DROP.\n1\n"});

  // The backends see the node, not their clients.
  const auto seen = answer(cluster.client(), Protocol::tcp, "192.0.2.10", 80);
  CHECK(seen == "remote-1 sees 10.200.0.2");
  tells(world.ipvsctl("explain 203.0.113.7 192.0.2.10:80"),
        {"10.244.1.11:8080", "sees 10.200.0.2 (masqueraded: marked by ", "\n0\n"});

  // Connections to a Service are refused.
  CHECK(answer(cluster.local(2), Protocol::tcp, "10.96.0.20", 80) == "refused");
  tells(world.ipvsctl("list --empty"), {"10.96.0.20:80", "default/web"});
  tells(world.ipvsctl("service default/web"), {"10.244.0.11:8080", "not ready"});

  // A node port answers on other nodes only.
  CHECK(answer(cluster.client(), Protocol::tcp, "10.200.0.2", 30080, kShortWait) == "no answer");
  tells(world.ipvsctl("service default/api"),
        {"(policy Local, but none is on this node: Cluster)", "10.244.1.11:8080",
         "no answer comes back, 0 here and 1 elsewhere"});
  tells(world.ipvsctl("explain 203.0.113.7 10.200.0.2:30080"),
        {"Beware: 10.244.1.11 answers to 203.0.113.7 itself"});
  CHECK(answer(cluster.node(), Protocol::tcp, "10.200.0.2", 30080) == "remote-1 sees 10.200.0.2");
  CHECK(answer(cluster.local(2), Protocol::tcp, "10.200.0.2", 30080) ==
        "remote-1 sees 10.244.0.12");

  // It worked until somebody tidied up.
  CHECK(answer(cluster.local(2), Protocol::tcp, "10.96.0.40", 80) == "local-1 sees 10.244.0.12");
  cluster.netns().inside([] { shell("ipvsadm -d -t 10.96.0.40:80 -r 10.244.0.11:8080"); });
  CHECK(answer(cluster.local(2), Protocol::tcp, "10.96.0.40", 80) == "refused");
  tells(world.ipvsctl("diff"), {"+ 10.96.0.40:80/TCP -> 10.244.0.11:8080", "\n1\n"});
}

}  // namespace
}  // namespace ipvsproxier::test
