#include "netlink/conntrack_codec.h"

#include <catch2/catch.hpp>

#include "test/support/hex.h"

namespace ipvsproxier::netlink {
namespace {

using test::from_hex;
using test::to_hex;

FlowEnd end(const std::string& ip, std::uint16_t port) {
  return {*IpAddress::parse(ip), port};
}

// Message type and flags, then everything after the message's header.
std::string sent(const Bytes& message) {
  return to_hex(ByteView(message).subspan(4, 4)) + " " +
         to_hex(ByteView(message).subspan(kMessageHeaderSize));
}

TEST_CASE("the number of flows and all flows are asked for without attributes") {
  CHECK(sent(encode_get_flow_count()) == "05010100 00000000");
  CHECK(sent(encode_list_flows(Family::ipv4)) == "01010100 02000000");
  CHECK(sent(encode_list_flows(Family::ipv6)) == "01010100 0a000000");
}

TEST_CASE("the kernel filters by protocol, and by the destination of IPv4") {
  CHECK(sent(encode_list_udp_flows(Family::ipv4, std::nullopt)) ==
        "01010100 02000000"
        "10000180"          // TUPLE_ORIG
        "0c000280"          // PROTO
        "0500010011000000"  // NUM 17
        "0c001980"          // FILTER
        "0800010008000000"  // ORIG_FLAGS: protocol
  );
  CHECK(sent(encode_list_udp_flows(Family::ipv4, end("10.96.0.10", 53))) ==
        "01010100 02000000"
        "24000180"                    // TUPLE_ORIG
        "0c000180080002000a60000a"    // IP { V4_DST }
        "140002800500010011000000"    // PROTO { NUM
        "0600030000350000"            //         DST_PORT }
        "0c001980080001002a000000");  // FILTER: address, protocol, port
}

TEST_CASE("of an IPv6 destination only the port is left to the kernel") {
  CHECK(sent(encode_list_udp_flows(Family::ipv6, end("fd00::a", 53))) ==
        "01010100 0a000000"
        "18000180"
        "14000280"
        "0500010011000000"
        "0600030000350000"
        "0c0019800800010028000000");
}

TEST_CASE("a removal names both ends and the id, and is never without a tuple") {
  const UdpFlow v4{end("10.0.0.7", 4000), end("10.96.0.10", 53), end("10.1.0.1", 5353), 0x01020304};
  CHECK(sent(encode_remove_flow(v4)) ==
        "02010100 02000000"
        "34000180"                                  // TUPLE_ORIG
        "14000180080001000a000007080002000a60000a"  // IP
        "1c0002800500010011000000"                  // PROTO { NUM
        "060002000fa000000600030000350000"          //         SRC_PORT, DST_PORT }
        "08000c0001020304");                        // ID
  const UdpFlow v6{end("fd00::7", 4000), end("fd00::a", 53), end("fd00:1::1", 5353), 7};
  CHECK(sent(encode_remove_flow(v6)) ==
        "02010100 0a000000"
        "4c000180"
        "2c000180"
        "14000300fd000000000000000000000000000007"
        "14000400fd00000000000000000000000000000a"
        "1c0002800500010011000000"
        "060002000fa000000600030000350000"
        "08000c0000000007");
}

TEST_CASE("flows describe themselves") {
  CHECK(to_string(UdpFlow{end("10.0.0.7", 4000), end("10.96.0.10", 53), {}, 7}) ==
        "UDP flow 10.0.0.7:4000 -> 10.96.0.10:53");
  CHECK(to_string(UdpFlow{end("fd00::7", 4000), end("fd00::a", 53), {}, 7}) ==
        "UDP flow [fd00::7]:4000 -> [fd00::a]:53");
}

}  // namespace
}  // namespace ipvsproxier::netlink
