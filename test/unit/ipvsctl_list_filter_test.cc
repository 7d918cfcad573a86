#include "cmd/ipvsctl/listing/list_filter.h"

#include <catch2/catch.hpp>

namespace ipvsproxier::ctl {
namespace {

using namespace netlink;

VirtualServiceKey service_key(const std::string& ip, std::uint16_t port,
                              Protocol protocol = Protocol::tcp) {
  return {.address = *IpAddress::parse(ip), .protocol = protocol, .port = port};
}

TEST_CASE("a backend is an address, alone or with a port") {
  CHECK(Backend::parse("10.1.0.2") == Backend{*IpAddress::parse("10.1.0.2"), std::nullopt});
  CHECK(Backend::parse("10.1.0.2:80") == Backend{*IpAddress::parse("10.1.0.2"), 80});
  CHECK(Backend::parse("fd00::2") == Backend{*IpAddress::parse("fd00::2"), std::nullopt});
  CHECK(Backend::parse("[fd00::2]:80") == Backend{*IpAddress::parse("fd00::2"), 80});
  const auto* text = GENERATE("", ":80", "10.1.0.2:", "10.1.0.2:x", "10.1.0.2:65536", "[fd00::2]",
                              "[fd00::2]80", "[10.1.0.2:80", "pod", "10.1.0.2:80:90");
  CHECK_FALSE(Backend::parse(text));
}

TEST_CASE("a filter without conditions matches everything") {
  const ListFilter all;
  CHECK(all.matches(service_key("10.0.0.1", 80)));
  CHECK(all.matches(VirtualServiceKey{.fwmark = 7}));
  CHECK(all.matches(RealServer{.weight = 3}));
  CHECK(all.matches(IpvsConnection{.protocol = "IP"}));
  CHECK_FALSE(all.selects_servers());
}

TEST_CASE("services match by address or prefix, port and protocol together") {
  ListFilter filter{.vip = IpPrefix::parse("10.0.0.0/24")};
  CHECK(filter.matches(service_key("10.0.0.1", 80)));
  CHECK_FALSE(filter.matches(service_key("10.0.1.1", 80)));
  CHECK_FALSE(filter.matches(service_key("fd00::1", 80)));
  CHECK_FALSE(filter.matches(VirtualServiceKey{.fwmark = 7}));
  filter.port = 80;
  CHECK(filter.matches(service_key("10.0.0.1", 80)));
  CHECK_FALSE(filter.matches(service_key("10.0.0.1", 81)));
  filter.protocol = Protocol::udp;
  CHECK_FALSE(filter.matches(service_key("10.0.0.1", 80)));
  CHECK(filter.matches(service_key("10.0.0.1", 80, Protocol::udp)));
}

TEST_CASE("servers match by address, port and weight") {
  const RealServer one{.key = {*IpAddress::parse("10.1.0.2"), 80}, .weight = 0};
  CHECK(ListFilter{.backend = Backend::parse("10.1.0.2")}.matches(one));
  CHECK(ListFilter{.backend = Backend::parse("10.1.0.2:80")}.matches(one));
  CHECK_FALSE(ListFilter{.backend = Backend::parse("10.1.0.2:81")}.matches(one));
  CHECK_FALSE(ListFilter{.backend = Backend::parse("10.1.0.3")}.matches(one));
  const ListFilter draining{.draining = true};
  CHECK(draining.selects_servers());
  CHECK(draining.matches(one));
  CHECK_FALSE(draining.matches(RealServer{.weight = 1}));
}

TEST_CASE("connections match by virtual address, port, protocol and server") {
  const IpvsConnection one{.protocol = "UDP",
                           .virtual_address = *IpAddress::parse("10.0.0.1"),
                           .virtual_port = 53,
                           .server_address = *IpAddress::parse("10.1.0.2"),
                           .server_port = 5353};
  CHECK(ListFilter{.vip = IpPrefix::parse("10.0.0.1/32")}.matches(one));
  CHECK_FALSE(ListFilter{.vip = IpPrefix::parse("10.0.0.2/32")}.matches(one));
  CHECK_FALSE(ListFilter{.port = 5353}.matches(one));
  CHECK(ListFilter{.protocol = Protocol::udp}.matches(one));
  CHECK_FALSE(ListFilter{.protocol = Protocol::tcp}.matches(one));
  CHECK(ListFilter{.backend = Backend::parse("10.1.0.2:5353")}.matches(one));
  CHECK_FALSE(ListFilter{.backend = Backend::parse("10.0.0.1")}.matches(one));
}

}  // namespace
}  // namespace ipvsproxier::ctl
