#pragma once

// One Service of policy Local in a cluster of two nodes, for what the matrix of
// in_cluster_kernel_test.cc does not have.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "test/kernel/explain_prober.h"
#include "test/kernel/traffic.h"

namespace ipvsproxier::test {

enum class By : std::uint8_t { load_balancer, external_ip, node_port };
inline constexpr std::array kBys = {By::load_balancer, By::external_ip, By::node_port};

// A load balancer of external policy Local with the option --in-cluster-clients, asked by whoever
// is named.
class OneServiceBed {
 public:
  using Endpoints = std::function<std::vector<EndpointManifest>(const Cluster&)>;

  explicit OneServiceBed(const Endpoints& endpoints, const std::string& spec = "")
      : bed_({.local_pods = 3, .remote_pods = 2}), prober_(bed_.cluster) {
    bed_.manifests.put({.name = "one",
                        .type = "LoadBalancer",
                        .cluster_ips = {"10.96.0.20", "fd00:96::20"},
                        .ports = tcp_and_udp(30080),
                        .endpoints = endpoints(bed_.cluster),
                        .spec = "externalTrafficPolicy: Local, externalIPs: [192.0.2.20, "
                                "\"2001:db8:2::20\"]" +
                                spec,
                        .ingress_ips = {"192.0.2.10", "2001:db8:2::10"}});
    bed_.program();
  }
  const Cluster& cluster() const { return bed_.cluster; }

  // Lines of kube-proxy's configuration file, in place of those so far.
  void configure(const std::string& lines) {
    bed_.manifests.configure(lines);
    bed_.program();
  }

  Outcome ask(const Host& from, By by, netlink::Family family,
              netlink::Protocol protocol = netlink::Protocol::tcp) {
    const bool v4 = family == netlink::Family::ipv4;
    Probe probe{.sender = {.host = &from, .on_node = &from == &cluster().node()},
                .protocol = protocol,
                .port = 80};
    if (by == By::node_port) {
      probe.destination = cluster().node().address(family);
      probe.port = 30080;
    } else {
      const bool balancer = by == By::load_balancer;
      probe.destination = ip(balancer ? (v4 ? "192.0.2.10" : "2001:db8:2::10")
                                      : (v4 ? "192.0.2.20" : "2001:db8:2::20"));
    }
    return prober_.check(probe);
  }
  Outcome ask_cluster_ip(const Host& from, netlink::Family family) {
    return prober_.check(
        {.sender = {.host = &from, .on_node = &from == &cluster().node()},
         .destination = ip(family == netlink::Family::ipv4 ? "10.96.0.20" : "fd00:96::20"),
         .port = 80,
         .facet = "cluster IP"});
  }
  std::string kind(const Host& from, By by, netlink::Family family) {
    return kind_of(ask(from, by, family));
  }

 private:
  TrafficBed bed_;
  Prober prober_;
};

}  // namespace ipvsproxier::test
