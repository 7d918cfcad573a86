#include "test/bench/traffic_bed.h"

#include <array>
#include <stdexcept>

#include <fmt/format.h>

#include "netlink/result.h"
#include "test/kernel/daemon.h"
#include "test/support/ip.h"

namespace ipvsproxier::bench {
namespace {

// Services of policy Local as kube-proxy has them, which the limits of packet_path.py are for.
const std::array<RulesOf, 3> kRulesOf = {{
    {"kube-proxy", TracedFilter::iptables, {"--packet-filter=iptables", "--kube-proxy-compat"}},
    {"iptables",
     TracedFilter::iptables,
     {"--packet-filter=iptables", "--in-cluster-clients=false"}},
    {"nftables",
     TracedFilter::nftables,
     {"--packet-filter=nftables", "--in-cluster-clients=false"}},
}};

constexpr std::uint16_t kNodePort = 30080;

// A Service of each kind that has rules or sets of its own, which kube-proxy leaves out without
// one.
void put_other_kinds(test::Manifests& manifests, const test::Cluster& cluster) {
  using netlink::Protocol;
  const std::vector<test::EndpointManifest> endpoints = {
      {cluster.local().v4, cluster.local().node}, {cluster.remote().v4, cluster.remote().node}};
  const auto ports = [](std::uint16_t node_port) {
    return std::vector<test::PortManifest>{
        {.name = "t", .port = 80, .node_port = node_port},
        {.name = "u", .protocol = Protocol::udp, .port = 80, .node_port = node_port},
        {.name = "s", .protocol = Protocol::sctp, .port = 80, .node_port = node_port}};
  };
  manifests.put({.name = "external",
                 .type = "NodePort",
                 .cluster_ips = {"10.96.0.30"},
                 .ports = ports(30081),
                 .endpoints = endpoints,
                 .spec = "externalIPs: [192.0.2.30]",
                 .ingress_ips = {},
                 .more_ingress = {}});
  manifests.put({.name = "local",
                 .type = "LoadBalancer",
                 .cluster_ips = {"10.96.0.40"},
                 .ports = ports(30082),
                 .endpoints = endpoints,
                 .spec = "externalIPs: [192.0.2.40], externalTrafficPolicy: Local, "
                         "healthCheckNodePort: 32000",
                 .ingress_ips = {"192.0.2.41"},
                 .more_ingress = {}});
}

test::ServiceManifest followed_service(const std::string& name, const test::Pod& pod,
                                       std::uint16_t node_port = 0) {
  return {.name = name,
          .cluster_ips = {},
          .ports = {{.port = 80, .target = test::kStreamPort, .node_port = node_port}},
          .endpoints = {{pod.v4, pod.node}},
          .spec = {},
          .ingress_ips = {},
          .more_ingress = {}};
}

}  // namespace

const RulesOf& rules_of(std::string_view name) {
  for (const auto& rules : kRulesOf)
    if (rules.name == name) return rules;
  throw std::runtime_error(fmt::format("no rules of {}", name));
}

TrafficBed::TrafficBed(const RulesOf& whose, bool with_ranges)
    : rules(whose), ranges(with_ranges), cluster({.local_pods = 1, .remote_pods = 1}) {
  const auto& pod = cluster.remote();
  auto web = followed_service("web", pod);
  web.cluster_ips = {"10.96.0.10"};
  manifests.put(web);
  auto front = followed_service("front", pod, kNodePort);
  front.type = "LoadBalancer";
  front.cluster_ips = {"10.96.0.20"};
  front.ingress_ips = {"192.0.2.10"};
  manifests.put(front);
  put_other_kinds(manifests, cluster);
  for (int number = 1; ranges && number <= kRangedServices; ++number) {
    auto closed = followed_service(fmt::format("closed-{}", number), pod,
                                   static_cast<std::uint16_t>(30100 + number));
    closed.type = "LoadBalancer";
    closed.cluster_ips = {fmt::format("10.96.1.{}", number)};
    closed.ingress_ips = {fmt::format("192.0.2.{}", 100 + number)};
    closed.spec = "loadBalancerSourceRanges: [203.0.113.0/24, 198.51.100.0/24]";
    manifests.put(closed);
  }
  const auto run = test::run_once(cluster.netns(), manifests, rules.flags);
  if (run.status != 0) throw std::runtime_error(run.log);
}

std::vector<Path> TrafficBed::paths() const {
  std::vector<Path> paths = {
      {"cluster-ip", &cluster.local(), test::ip("10.96.0.10"), 80},
      {"load-balancer", &cluster.client(), test::ip("192.0.2.10"), 80},
      {"node-port", &cluster.client(), cluster.node().v4, kNodePort},
  };
  if (ranges)
    paths.push_back({"load-balancer-with-ranges", &cluster.client(), test::ip("192.0.2.105"), 80});
  return paths;
}

void TrafficBed::send_first(const Path& path) const {
  const auto& remote = *cluster.remote().netns;
  remote.inside([] { test::shell("iptables -w -P INPUT DROP"); });
  // The kernel repeats the packet after a second.
  const auto stream = path.from->open_stream(path.to, path.port, 300);
  remote.inside([] { test::shell("iptables -w -P INPUT ACCEPT"); });
  if (stream || stream.error().kind != netlink::ErrorKind::timeout)
    throw std::runtime_error(path.name + ": the first packet was answered");
}

}  // namespace ipvsproxier::bench
