#include "ipset/sets/set_types.h"

#include <catch2/catch.hpp>

#include "test/support/ip.h"

namespace ipvsproxier::ipset {
namespace {

using test::ip;

TEST_CASE("elements print as ipset prints them") {
  CHECK(to_string(Element{IpElement{ip("10.96.0.1")}}) == "10.96.0.1");
  CHECK(to_string(Element{IpPortElement{ip("10.96.0.10"), Protocol::udp, 53}}) ==
        "10.96.0.10,udp:53");
  CHECK(to_string(Element{IpPortElement{ip("fd00:96::a"), Protocol::sctp, 9000}}) ==
        "fd00:96::a,sctp:9000");
  CHECK(to_string(Element{IpPortIpElement{ip("10.244.0.3"), Protocol::tcp, 8080,
                                          ip("10.244.0.3")}}) == "10.244.0.3,tcp:8080,10.244.0.3");
  CHECK(to_string(Element{IpPortNetElement{ip("192.0.2.10"), Protocol::tcp, 443,
                                           IpPrefix::of(ip("203.0.113.77"), 24)}}) ==
        "192.0.2.10,tcp:443,203.0.113.0/24");
  CHECK(to_string(Element{PortElement{30080}}) == "30080");
}

TEST_CASE("elements that differ only in the protocol are different elements") {
  const Element tcp = IpPortElement{ip("10.0.0.1"), Protocol::tcp, 53};
  const Element udp = IpPortElement{ip("10.0.0.1"), Protocol::udp, 53};
  CHECK(tcp != udp);
  CHECK(to_string(tcp) != to_string(udp));
}

TEST_CASE("source ranges: one element of many, shown apart, each of them counts") {
  RangesElement element{ip("192.0.2.10"), Protocol::tcp, 443, {test::prefix("10.0.0.0/8")}};
  CHECK(to_string(Element{element}) == "192.0.2.10,tcp:443,10.0.0.0/8");
  for (std::uint32_t i = 0; i < 10; ++i)
    element.ranges.push_back(IpPrefix::of(IpAddress::v4(0xc0000200 + i), 32));
  const auto text = to_string(Element{element});
  CHECK(text.starts_with("192.0.2.10,tcp:443,10.0.0.0/8,192.0.2.0/32,"));
  CHECK(text.ends_with(",192.0.2.6/32 and 3 more ranges"));
  CHECK(weight_of(element) == 11);
  CHECK(weight_of(PortElement{80}) == 1);
  const auto apart = one_by_one(element);
  REQUIRE(apart.size() == 11);
  CHECK(to_string(apart.back()) == "192.0.2.10,tcp:443,192.0.2.9/32");
  CHECK(one_by_one(PortElement{80}) == std::vector<Element>{PortElement{80}});
  // Another one of the same virtual service takes its place.
  CHECK(replaces(element, RangesElement{element.ip, element.protocol, element.port, {}}));
  CHECK_FALSE(replaces(element, RangesElement{element.ip, element.protocol, 80, element.ranges}));
}

}  // namespace
}  // namespace ipvsproxier::ipset
