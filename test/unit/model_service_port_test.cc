// kube-proxy's model of Services (docs/kube-proxy.md, section 7).

#include "proxier/model/service_port.h"

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"

namespace ipvsproxier::model {
namespace {

using api::ServiceType;
using netlink::Family;
using test::ip;
using test::prefix;

api::Service dual_stack() {
  auto service = test::web_service();
  service.cluster_ips = {ip("fd00:96::9"), ip("10.96.0.9")};
  service.ip_families = {Family::ipv6, Family::ipv4};
  service.external_ips = {ip("198.51.100.20"), ip("fd00:51::20")};
  service.load_balancer_ips = {ip("fd00:2::10"), ip("192.0.2.10")};
  service.source_ranges = {prefix("fd00:3::/64"), prefix("203.0.113.0/24")};
  return service;
}

TEST_CASE("each family gets its own addresses and ranges") {
  const auto service = dual_stack();
  const auto v4 = service_ports(service, Family::ipv4, true);
  REQUIRE(v4.size() == 1);
  CHECK(v4[0].cluster_ip == ip("10.96.0.9"));
  CHECK(v4[0].external_ips == std::vector{ip("198.51.100.20")});
  CHECK(v4[0].load_balancer_ips == std::vector{ip("192.0.2.10")});
  CHECK(v4[0].source_ranges == std::vector{prefix("203.0.113.0/24")});
  const auto v6 = service_ports(service, Family::ipv6, true);
  REQUIRE(v6.size() == 1);
  CHECK(v6[0].cluster_ip == ip("fd00:96::9"));
  CHECK(v6[0].source_ranges == std::vector{prefix("fd00:3::/64")});
}

TEST_CASE("ranges of the other family alone leave this family unrestricted") {
  auto service = dual_stack();
  service.source_ranges = {prefix("fd00:3::/64")};
  CHECK(service_ports(service, Family::ipv4, true)[0].source_ranges.empty());
}

TEST_CASE("a range of the other family that covers everything does not lift this family's") {
  auto service = dual_stack();
  service.source_ranges.push_back(prefix("::/0"));
  CHECK(service_ports(service, Family::ipv4, true)[0].source_ranges.size() == 1);
  CHECK(service_ports(service, Family::ipv6, true)[0].source_ranges.empty());
}

TEST_CASE("Services without a cluster IP of the family have no ports") {
  auto service = test::web_service();
  CHECK(service_ports(service, Family::ipv6, true).empty());
  service.headless = true;
  CHECK(service_ports(service, Family::ipv4, true).empty());
  service.headless = false;
  service.type = ServiceType::external_name;
  CHECK(service_ports(service, Family::ipv4, true).empty());
  service.type = ServiceType::cluster_ip;
  service.cluster_ips.clear();
  CHECK(service_ports(service, Family::ipv4, true).empty());
}

TEST_CASE("a cluster IP counts for the family that ipFamilies gives its place") {
  auto service = test::web_service();
  service.ip_families = {Family::ipv6};
  CHECK(service_ports(service, Family::ipv4, true).empty());
  service.ip_families.clear();
  CHECK(service_ports(service, Family::ipv4, true).size() == 1);
}

TEST_CASE("externalTrafficPolicy counts where the Service can be reached from outside") {
  const auto [type, external_ip, expected] = GENERATE(table<ServiceType, bool, bool>({
      {ServiceType::cluster_ip, false, false},
      {ServiceType::cluster_ip, true, true},
      {ServiceType::node_port, false, true},
      {ServiceType::load_balancer, false, true},
  }));
  auto service = test::web_service();
  service.type = type;
  service.external_policy_local = true;
  service.health_check_node_port = 32000;
  if (external_ip) service.external_ips = {ip("fd00:51::20")};  // of any family
  const auto port = service_ports(service, Family::ipv4, true).at(0);
  CHECK(port.external_policy_local == expected);
  CHECK(port.health_check_node_port == (type == ServiceType::load_balancer ? 32000 : 0));
}

TEST_CASE("reachability from outside decides which endpoints are of use") {
  auto service = test::web_service();
  service.internal_policy_local = true;
  auto port = service_ports(service, Family::ipv4, true).at(0);
  CHECK_FALSE(port.externally_accessible);
  CHECK_FALSE(port.uses_cluster());
  CHECK(port.uses_local());

  service.ports[0].node_port = 30080;
  port = service_ports(service, Family::ipv4, true).at(0);
  CHECK(port.externally_accessible);
  CHECK(port.uses_cluster());

  service.internal_policy_local = false;
  port = service_ports(service, Family::ipv4, true).at(0);
  CHECK_FALSE(port.uses_local());
}

TEST_CASE("external IPs that are not allowed are not proxied but count as access") {
  auto service = test::web_service();
  service.external_ips = {ip("198.51.100.20")};
  const auto port = service_ports(service, Family::ipv4, false).at(0);
  CHECK(port.external_ips.empty());
  CHECK(port.externally_accessible);
}

TEST_CASE("a port per port of the spec, node ports whatever the type") {
  auto service = test::web_service();
  service.ports = {{"a", netlink::Protocol::tcp, 80, 30080}, {"b", netlink::Protocol::udp, 53, 0}};
  const auto ports = service_ports(service, Family::ipv4, true);
  REQUIRE(ports.size() == 2);
  CHECK(ports[0].name == api::ServicePortName{service.name, "a", netlink::Protocol::tcp});
  CHECK(ports[0].node_port == 30080);
  CHECK(ports[1].name.protocol == netlink::Protocol::udp);
  CHECK(ports[1].port == 53);
}

// So many addresses from a first one on.
std::vector<netlink::IpAddress> many_addresses(std::size_t count) {
  std::vector<netlink::IpAddress> result;
  for (std::size_t i = 0; i < count; ++i)
    result.push_back(ip(fmt::format("198.{}.{}.{}", 51 + i / 65536, i / 256 % 256, i % 256)));
  return result;
}

api::Service with_ports(std::size_t count) {
  auto service = test::web_service();
  service.ports.clear();
  for (std::size_t i = 1; i <= count; ++i)
    service.ports.push_back({.name = fmt::format("p{}", i), .port = static_cast<std::uint16_t>(i)});
  return service;
}

TEST_CASE("the product of two lists of one Service has a bound: its last ports are left out") {
  auto service = with_ports(2000);
  CHECK(service_ports(service, Family::ipv4, true).size() == 2000);

  SECTION("external IPs") {
    service.external_ips = many_addresses(2000);
    const auto ports = service_ports(service, Family::ipv4, true);
    CHECK(ports.size() == kMostOfOneService / 2000);
    CHECK(ports.back().name.port == fmt::format("p{}", ports.size()));
    CHECK(service_ports(service, Family::ipv4, false).size() == 2000);
  }
  SECTION("source ranges, for each address of the load balancer or without any") {
    for (const auto& address : many_addresses(1000))
      service.source_ranges.push_back(netlink::IpPrefix::of(address, 32));
    CHECK(service_ports(service, Family::ipv4, true).size() == kMostOfOneService / 1000);
    service.load_balancer_ips = many_addresses(4);
    CHECK(service_ports(service, Family::ipv4, true).size() == kMostOfOneService / 4000);
  }
  SECTION("one port's addresses times ranges: the ranges stay, so that nobody is let in") {
    service = with_ports(1);
    for (const auto& address : many_addresses(60'000))
      service.source_ranges.push_back(netlink::IpPrefix::of(address, 32));
    service.load_balancer_ips = many_addresses(20);
    const auto ports = service_ports(service, Family::ipv4, true);
    REQUIRE(ports.size() == 1);
    CHECK(ports[0].source_ranges.size() == 60'000);
    CHECK(ports[0].load_balancer_ips.size() == kMostOfOneService / 60'000);
    CHECK(ports[0].is_cut);
  }
  SECTION("a list alone may be as long as an object: one port stays") {
    service = with_ports(5);
    service.external_ips = many_addresses(270'000);
    CHECK(service_ports(service, Family::ipv4, true).size() == 1);
  }
}

}  // namespace
}  // namespace ipvsproxier::model
