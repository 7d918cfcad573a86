#pragma once

// What traffic tests share: a cluster, the manifests of its Services, and questions that they ask.

#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/manifests.h"
#include "test/support/ip.h"

namespace ipvsproxier::test {

struct TrafficBed {
  explicit TrafficBed(const ClusterShape& shape = {}) : cluster(shape) {}

  // Programs the kernel of n1 from the manifests as they are.
  void program(std::vector<std::string> flags = {}) const {
    flags.push_back(std::string("--vip-binding=") + (by_routes ? "route" : "address"));
    const auto run = run_once(cluster.netns(), manifests, flags);
    INFO(run.log);
    REQUIRE(run.status == 0);
  }

  bool by_routes = false;  // VIPs are bound by them
  Cluster cluster;
  Manifests manifests;
};

// An endpoint of each family: the pod.
inline std::vector<EndpointManifest> endpoints_of(const std::vector<const Pod*>& pods) {
  std::vector<EndpointManifest> endpoints;
  for (const Pod* pod : pods) {
    endpoints.push_back({pod->v4, pod->node});
    endpoints.push_back({pod->v6, pod->node});
  }
  return endpoints;
}

// Port 80 of both, with one node port or none.
inline std::vector<PortManifest> tcp_and_udp(std::uint16_t node_port = 0) {
  return {{.name = "t", .protocol = netlink::Protocol::tcp, .port = 80, .node_port = node_port},
          {.name = "u", .protocol = netlink::Protocol::udp, .port = 80, .node_port = node_port}};
}

// Where requests come from: outside, the node itself, and a pod of it other than the backend.
inline std::vector<const Host*> three_sides(const Cluster& cluster) {
  return {&cluster.client(), &cluster.node(), &cluster.local(2)};
}

// Servers "host" of n1 itself; they end with the result.
inline std::vector<std::unique_ptr<EchoServer>> serve_on_host(
    const Cluster& cluster, const std::vector<netlink::IpAddress>& addresses, std::uint16_t port,
    const std::vector<netlink::Protocol>& protocols = {netlink::Protocol::tcp,
                                                       netlink::Protocol::udp}) {
  return cluster.netns().inside([&] {
    std::vector<std::unique_ptr<EchoServer>> servers;
    for (const auto& address : addresses) {
      auto server = EchoServer::start("host", address, port, protocols);
      servers.push_back(std::move(server.value()));
    }
    return servers;
  });
}

// One request over a fresh connection or socket; see outcome(). Its source port is of no other: the
// kernel goes on to treat packets as it did the first one of the same ports and addresses, whatever
// the rules have become.
inline std::string answer(const Host& from, netlink::Protocol protocol, const std::string& to,
                          std::uint16_t port, int timeout_ms = 5000) {
  constexpr std::uint16_t kFirst = 10'000, kPorts = 19'000;
  static std::uint16_t used = 0;
  const auto own = static_cast<std::uint16_t>(kFirst + used++ % kPorts);
  return outcome(from.ask(protocol, ip(to), port,
                          {.source = {}, .source_port = own, .timeout_ms = timeout_ms}));
}

// For packets that must be lost: not worth a long wait.
inline constexpr int kShortWait = 300;

}  // namespace ipvsproxier::test
