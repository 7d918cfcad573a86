#include "test/bench/workload.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include <fmt/format.h>

namespace ipvsproxier::bench {
namespace {

using netlink::IpAddress;

constexpr std::uint32_t kClusterIps = 0x0a600000;    // 10.96.0.0
constexpr std::uint32_t kBalancerIps = 0xac100000;   // 172.16.0.0
constexpr std::uint32_t kPodIps = 0x0a800000;        // 10.128.0.0
constexpr std::uint32_t kSourceRanges = 0xc6120000;  // 198.18.0.0
constexpr int kFirstNodePort = 20'000;

IpAddress address(std::uint32_t base, int index) {
  return IpAddress::v4(base + static_cast<std::uint32_t>(index) + 1);
}

}  // namespace

const Size& size_of(std::string_view name) {
  const auto* found = std::find_if(std::begin(kSizes), std::end(kSizes),
                                   [&](const Size& size) { return size.name == name; });
  if (found == std::end(kSizes))
    throw std::invalid_argument(fmt::format("no size of this name: {}", name));
  return *found;
}

api::Service service_of(const Size& size, int index) {
  api::Service service;
  service.name = {"bench", fmt::format("service-{}", index)};
  service.creation_time = index;
  service.cluster_ips = {address(kClusterIps, index)};
  service.ip_families = {netlink::Family::ipv4};
  const bool has_node_ports = index % 20 == 0;
  const bool is_balancer = index % 50 == 0;
  for (int port = 0; port < size.ports; ++port) {
    const int node_port = has_node_ports ? kFirstNodePort + (index / 20) * size.ports + port : 0;
    service.ports.push_back({.name = fmt::format("p{}", port),
                             .protocol = netlink::Protocol::tcp,
                             .port = static_cast<std::uint16_t>(80 + port),
                             .node_port = static_cast<std::uint16_t>(node_port)});
  }
  if (has_node_ports) service.type = api::ServiceType::node_port;
  if (is_balancer) {
    service.type = api::ServiceType::load_balancer;
    service.load_balancer_ips = {address(kBalancerIps, index / 50)};
    service.source_ranges = {netlink::IpPrefix::of(address(kSourceRanges, 0), 24),
                             netlink::IpPrefix::of(address(kSourceRanges, 4096), 20)};
  }
  return service;
}

api::EndpointSlice slice_of(const Size& size, int index) {
  api::EndpointSlice slice;
  slice.service = fmt::format("service-{}", index);
  slice.name = {"bench", slice.service + "-abcde"};
  for (int port = 0; port < size.ports; ++port)
    slice.ports.push_back({.name = fmt::format("p{}", port),
                           .protocol = netlink::Protocol::tcp,
                           .port = static_cast<std::uint16_t>(8080 + port)});
  for (int i = 0; i < size.endpoints; ++i) {
    const int number = index * size.endpoints + i;
    slice.endpoints.push_back(
        {.address = address(kPodIps, number),
         .node_name = i % 5 == 0 ? kNode : fmt::format("node-{}", number % 5000),
         .zone = fmt::format("zone-{}", number % 3),
         .target_name = fmt::format("service-{}-5d9c8b7f6d-{}", index, i)});
  }
  slice.endpoints.shrink_to_fit();
  return slice;
}

std::vector<api::Endpoint> endpoints_of(const api::EndpointSlice& slice) {
  return slice.endpoints.unpack();
}

model::Changes first_lists(const Size& size) {
  model::Changes changes;
  for (int index = 0; index < size.services; ++index) {
    changes.put(service_of(size, index));
    changes.put(slice_of(size, index));
  }
  changes.complete = true;
  return changes;
}

plan::PlannerOptions planner_options(ipset::PacketFilter filter) {
  plan::PlannerOptions options;
  options.packet_filter = filter;
  options.families = {netlink::Family::ipv4};
  options.cluster_cidrs = {netlink::IpPrefix::of(IpAddress::v4(kPodIps), 9)};
  return options;
}

plan::NodeInfo node() {
  plan::NodeInfo result;
  result.name = kNode;
  result.ips = {{netlink::Family::ipv4, IpAddress::v4(0x0a000001)},
                {netlink::Family::ipv6, *IpAddress::parse("::1")}};
  result.addresses = {{"lo", IpAddress::v4(0x7f000001), 8},
                      {"eth0", IpAddress::v4(0x0a000001), 24}};
  return result;
}

}  // namespace ipvsproxier::bench
