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

}  // namespace
}  // namespace ipvsproxier::ipset
