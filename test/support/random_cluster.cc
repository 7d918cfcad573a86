#include "test/support/random_cluster.h"

#include <fmt/format.h>

#include "test/support/cluster_builder.h"

namespace ipvsproxier::test {

using netlink::Family;
using netlink::Protocol;

namespace {

std::string address(Family family, const char* v4, const char* v6, int number) {
  return family == Family::ipv4 ? fmt::format("{}.{}.{}", v4, number / 250, number % 250 + 1)
                                : fmt::format("{}::{:x}", v6, number + 1);
}

}  // namespace

// Every annotation, sound ones mostly.
std::vector<api::Annotation> RandomCluster::annotations() {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> kValues = {
      {"ipvs-proxier/affinity-mask", {"24", "16,64", "33"}},
      {"ipvs-proxier/drain-timeout", {"30s", "0s", "soon"}},
      {"ipvs-proxier/max-connections", {"1000", "100/80", "80/100", "0"}},
      {"ipvs-proxier/metrics", {"true", "false", "often"}},
      {"ipvs-proxier/one-packet", {"true", "false", "maybe"}},
      {"ipvs-proxier/scheduler",
       {"wrr", "sh", "mh", "lc", "fo", "best", "rr", "wlc", "lblc", "lblcr", "dh", "sed", "nq",
        "ovf", "twos"}},
      {"ipvs-proxier/scheduler-flags", {"", "mh-port", "sh-fallback,flag-3", "flag-9"}},
      {"ipvs-proxier/weights", {"local:4", "node=n1:2,node=n2:0", "zone=z1:7,local:3", "n1:3"}},
      {"kube-router.io/service.dsr", {"tunnel"}},
      {"kube-router.io/service.hairpin", {""}},
      {"kube-router.io/service.hairpin.externalips", {""}},
      {"kube-router.io/service.local", {""}},
      {"kube-router.io/service.schedflags", {"flag-1,flag-2"}},
      {"kube-router.io/service.scheduler", {"mh", "wlc"}},
      {"kube-router.io/service.skiplbips", {""}},
  };
  const auto below = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most - 1)(annotations_);
  };
  std::vector<api::Annotation> result;
  if (below(3) != 0) return result;
  for (const auto& [key, values] : kValues)
    if (below(4) == 0) result.push_back({key, values[below(values.size())]});
  return result;
}

api::Service RandomCluster::service(int index) {
  api::Service service;
  service.name = {chance(50) ? "shop" : "default", fmt::format("s{}", index)};
  service.type = static_cast<api::ServiceType>(number(0, 3));
  service.headless = chance(5);
  if (chance(80)) service.creation_time = number(1, 5);
  for (auto family : netlink::kFamilies) {
    if (!chance(70)) continue;
    service.ip_families.push_back(family);
    service.cluster_ips.push_back(ip(address(family, "10.96", "fd00:96", index)));
  }
  for (int i = 0; i < number(0, 3); ++i) {
    const auto protocol = std::array{Protocol::tcp, Protocol::udp, Protocol::sctp}.at(
        static_cast<std::size_t>(number(0, 2)));
    const auto port = static_cast<std::uint16_t>(chance(50) ? number(1, 3) : number(1, 65535));
    const auto node_port = static_cast<std::uint16_t>(chance(40) ? number(30000, 30040) : 0);
    service.ports.push_back({fmt::format("p{}", i), protocol, port, node_port});
  }
  if (chance(30)) service.affinity_seconds = number(1, 86400);
  service.external_policy_local = chance(30);
  service.internal_policy_local = chance(20);
  service.health_check_node_port =
      static_cast<std::uint16_t>(chance(50) ? number(31000, 31020) : 0);
  add_external(service, index);
  service.annotations = annotations();
  return service;
}

void RandomCluster::add_external(api::Service& service, int index) {
  for (auto family : netlink::kFamilies) {
    if (chance(20))
      service.external_ips.push_back(ip(address(family, "198.51", "fd00:51", number(0, 5))));
    if (chance(10)) service.external_ips.push_back(ip("10.0.0.1"));
    if (chance(30))
      service.load_balancer_ips.push_back(ip(address(family, "192.0", "fd00:2", index)));
    if (chance(20))
      service.source_ranges.push_back(
          netlink::IpPrefix::of(ip(address(family, "203.0", "fd00:203", number(0, 3))),
                                static_cast<std::uint8_t>(number(0, 4) * 8)));
    if (chance(10)) service.source_ranges.push_back(prefix("10.0.0.0/8"));
  }
}

api::Endpoint RandomCluster::endpoint(Family family) {
  auto result = test::endpoint(address(family, "10.244", "fd00:244", number(0, 30)),
                               chance(30) ? "n1" : "n2");
  result.ready = chance(70);
  result.serving = result.ready || chance(50);
  result.terminating = chance(20);
  if (chance(60)) result.zone_hints.push_back(chance(50) ? "z1" : "z2");
  if (chance(60)) result.node_hints.push_back(chance(50) ? "n1" : "n2");
  return result;
}

void RandomCluster::put_slices(model::ClusterState& cluster, const api::Service& service) {
  for (int i = 0; i < number(0, 3); ++i) {
    api::EndpointSlice slice;
    slice.name = {service.name.ns, fmt::format("{}-{}", service.name.name, i)};
    slice.service = service.name.name;
    slice.family = chance(60) ? Family::ipv4 : Family::ipv6;
    // The same address and port may be in several slices, and a port in some of them only.
    for (const auto& port : service.ports)
      if (chance(90))
        slice.ports.push_back(
            {port.name, port.protocol, static_cast<std::uint16_t>(8080 + number(0, 1))});
    if (annotations_() % 10 == 0) slice.weight = annotations_() % 5;
    for (int e = 0; e < number(0, 5); ++e) slice.endpoints.push_back(endpoint(slice.family));
    cluster.put(slice);
  }
}

model::ClusterState RandomCluster::cluster(int services) {
  model::ClusterState cluster;
  for (int i = 0; i < services; ++i) {
    const auto one = service(i);
    put_slices(cluster, one);
    cluster.put(one);
  }
  return cluster;
}

void RandomCluster::tweak(api::Service& service) {
  const auto other = this->service(number(0, 40));
  if (!other.annotations.empty()) service.annotations = other.annotations;
  switch (number(0, 13)) {
    case 0:
      service.type = other.type;
      break;
    case 1:
      service.headless = !service.headless;
      break;
    case 2:
      service.creation_time = other.creation_time;
      break;
    case 3:
      service.cluster_ips = other.cluster_ips;
      service.ip_families = other.ip_families;
      break;
    case 4:
      service.ports = other.ports;
      break;
    case 5:
      for (auto& port : service.ports) port.protocol = chance(50) ? Protocol::tcp : Protocol::udp;
      break;
    case 6:
      for (auto& port : service.ports)
        port.node_port = static_cast<std::uint16_t>(chance(50) ? number(30000, 30040) : 0);
      break;
    case 7:
      service.affinity_seconds = other.affinity_seconds;
      break;
    case 8:
      service.external_policy_local = !service.external_policy_local;
      break;
    case 9:
      service.internal_policy_local = !service.internal_policy_local;
      break;
    case 10:
      service.health_check_node_port = other.health_check_node_port;
      break;
    case 11:
      service.external_ips = other.external_ips;
      break;
    case 12:
      service.load_balancer_ips = other.load_balancer_ips;
      break;
    default:
      service.source_ranges = other.source_ranges;
      break;
  }
}

void RandomCluster::tweak(api::EndpointSlice& slice) {
  if (slice.endpoints.empty() || chance(20)) {
    slice.endpoints.push_back(endpoint(slice.family));
    return;
  }
  const auto last = static_cast<int>(slice.endpoints.size()) - 1;
  auto endpoints = slice.endpoints.unpack();
  auto& one = endpoints.at(static_cast<std::size_t>(number(0, last)));
  switch (number(0, 8)) {
    case 0:
      one.ready = !one.ready;
      break;
    case 1:
      one.serving = !one.serving;
      break;
    case 2:
      one.terminating = !one.terminating;
      break;
    case 3:
      one.node_name = one.node_name == "n1" ? "n2" : "n1";
      break;
    case 4:
      one.zone_hints = {chance(50) ? "z1" : "z2"};
      break;
    case 5:
      one.node_hints = {chance(50) ? "n1" : "n2"};
      break;
    case 6:
      one = endpoint(slice.family);
      break;
    case 7:
      for (auto& port : slice.ports) port.port = static_cast<std::uint16_t>(8080 + number(0, 1));
      break;
    default:
      endpoints.pop_back();
      break;
  }
  slice.endpoints = endpoints;
}

void RandomCluster::tweak(model::ClusterState& cluster) {
  for (auto& [name, service] : cluster.services)
    if (chance(15)) tweak(service);
  for (auto& [name, slices] : cluster.slices)
    for (auto slice : model::SlicesByName(slices)) {
      if (!chance(15)) continue;
      tweak(slice);
      slices.insert_or_assign(slice);
    }
  if (!chance(10)) return;
  api::Node node{.name = "n1", .zone = chance(50) ? "z1" : "z2"};
  node.internal_ips = {ip("10.0.0.1")};
  if (chance(50)) node.internal_ips.push_back(ip("fd00:1::1"));
  if (chance(50)) node.pod_cidrs = {prefix("10.244.0.0/24"), prefix("fd00:244::/80")};
  cluster.node = node;
}

void RandomCluster::change(model::ClusterState& cluster) {
  for (int i = 0; i < number(1, 5); ++i) {
    const auto one = service(number(0, 40));
    if (chance(30)) {
      cluster.services.erase(one.name);
    } else {
      cluster.put(one);
    }
    if (chance(50)) cluster.slices.erase(one.name);
    if (chance(70)) put_slices(cluster, one);
  }
}

plan::PlannerOptions RandomCluster::options() {
  plan::PlannerOptions options;
  options.scheduler = chance(50) ? "rr" : "mh";
  options.masquerade_all = chance(30);
  options.detect_local = static_cast<plan::DetectLocalMode>(number(0, 3));
  if (chance(70)) options.cluster_cidrs = {prefix("10.244.0.0/16")};
  options.bridge_interface = "cni0";
  options.interface_prefix = "veth";
  if (chance(30)) options.node_port_addresses = {prefix("10.0.0.0/24")};
  options.node_port_primary = chance(20);
  options.differences.vip_ping = chance(50);
  options.differences.strict_internal_traffic_policy = chance(50);
  options.differences.open_health_check_ports = chance(50);
  options.differences.lean_loop_back = chance(50);
  options.differences.short_paths = chance(50);
  options.differences.growing_sets = chance(50);
  options.differences.scheduler_fallback = chance(50);
  options.differences.service_annotations = annotations_() % 4 != 0;
  options.differences.in_cluster_clients = policy_() % 4 != 0;
  if (policy_() % 2 == 0)
    options.in_cluster_ranges = {prefix("240.0.0.0/4"), prefix("fd69:7076:7300::/64")};
  options.allow_external_ips = chance(90);
  return options;
}

plan::NodeInfo RandomCluster::node() {
  auto node = vector_node();
  if (chance(50)) node.addresses.push_back({"eth0", ip("fd00:1::1"), 64});
  if (chance(20)) node.addresses.push_back({"eth1", ip("198.51.0.1"), 32});
  node.pod_cidrs = {prefix("10.244.0.0/24"), prefix("fd00:244::/80")};
  return node;
}

}  // namespace ipvsproxier::test
