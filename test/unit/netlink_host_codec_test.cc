#include "netlink/links/host_codec.h"

#include <catch2/catch.hpp>

#include "test/support/ip.h"
#include "test/unit/netlink_messages.h"

namespace ipvsproxier::netlink {
namespace {

using test::from_hex;

using test::sent;

TEST_CASE("a route is asked for with all that decides about it") {
  CHECK(sent(encode_get_route({.destination = test::ip("10.0.0.1")})) ==
        "022000000000000000000000"
        "080001000a000001");
  CHECK(sent(encode_get_route({.destination = test::ip("10.0.0.1"),
                               .source = test::ip("10.0.0.2"),
                               .in_link = 7,
                               .mark = 0x4000})) ==
        "022020000000000000000000"
        "080001000a000001080002000a000002"
        "0800030007000000"
        "0800100000400000");
  CHECK(sent(encode_get_route({.destination = test::ip("fd00::1")})).starts_with("0a800000"));
}

TEST_CASE("an answer says where a packet leaves, by which gateway, with which source") {
  // unicast by link 3, gateway 10.0.0.254, preferred source 10.0.0.9
  const auto route = decode_route(
      from_hex("0220000000000001000000000800040003000000080005000a0000fe080007000a000009"));
  REQUIRE(route);
  CHECK(*route ==
        Route{.out_link = 3, .gateway = test::ip("10.0.0.254"), .source = test::ip("10.0.0.9")});
  // type local
  CHECK(decode_route(from_hex("0a80000000000002000000000800040001000000"))->local);
  CHECK_FALSE(decode_route(from_hex("0220")));
  CHECK_FALSE(decode_route(from_hex("022000000000000100000000080004000300")));
}

std::string socket(const std::string& family, const std::string& port, const std::string& address,
                   const std::string& attributes) {
  return family + "0a0000" + port + "0000" + address + std::string(32, '0') +  // ports, both ends
         "00000000" + "0000000000000000" +                                     // link, cookie
         std::string(40, '0') + attributes;  // expires, queues, owner, inode
}

TEST_CASE("a listener has an address and a port; one of all IPv6 addresses may take IPv4 too") {
  const auto v4 = decode_listener(
      from_hex(socket("02", "0016", "0ac80002000000000000000000000000", "")), Protocol::tcp);
  REQUIRE(v4);
  CHECK(*v4 == Listener{Protocol::tcp, test::ip("10.200.0.2"), 22, false});
  const std::string any(32, '0');
  const auto both =
      decode_listener(from_hex(socket("0a", "0016", any, "05000b0000000000")), Protocol::udp);
  CHECK(*both == Listener{Protocol::udp, test::ip("::"), 22, true});
  const auto only =
      decode_listener(from_hex(socket("0a", "0016", any, "05000b0001000000")), Protocol::tcp);
  CHECK_FALSE(only->both_families);
  CHECK_FALSE(decode_listener(from_hex("02"), Protocol::tcp));
}

}  // namespace
}  // namespace ipvsproxier::netlink
