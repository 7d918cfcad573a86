#include "netlink/conntrack/conntrack_codec.h"

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
std::string sent_with_type(const Bytes& message) {
  return to_hex(ByteView(message).subspan(4, 4)) + " " +
         to_hex(ByteView(message).subspan(kMessageHeaderSize));
}

TEST_CASE("the number of flows and all flows are asked for without attributes") {
  CHECK(sent_with_type(encode_get_flow_count()) == "05010100 00000000");
  CHECK(sent_with_type(encode_list_flows(Family::ipv4)) == "01010100 02000000");
  CHECK(sent_with_type(encode_list_flows(Family::ipv6)) == "01010100 0a000000");
}

TEST_CASE("the number of flows is read, or is malformed") {
  const auto read = [](const std::string& hex) { return decode_flow_count(from_hex(hex)); };
  CHECK(read("00000000080001000004e200").value() == 320'000);
  for (const auto* hex : {"", "0000", "00000000", "000000000600010000040000"})
    CHECK_FALSE(read(hex));
}

TEST_CASE("the kernel filters by protocol, and by the destination of IPv4") {
  CHECK(sent_with_type(encode_list_flows(Family::ipv4, Protocol::udp, std::nullopt)) ==
        "01010100 02000000"
        "10000180"          // TUPLE_ORIG
        "0c000280"          // PROTO
        "0500010011000000"  // NUM 17
        "0c001980"          // FILTER
        "0800010008000000"  // ORIG_FLAGS: protocol
  );
  CHECK(sent_with_type(encode_list_flows(Family::ipv4, Protocol::udp, end("10.96.0.10", 53))) ==
        "01010100 02000000"
        "24000180"                    // TUPLE_ORIG
        "0c000180080002000a60000a"    // IP { V4_DST }
        "140002800500010011000000"    // PROTO { NUM
        "0600030000350000"            //         DST_PORT }
        "0c001980080001002a000000");  // FILTER: address, protocol, port
}

TEST_CASE("of an IPv6 destination only the port is left to the kernel") {
  CHECK(sent_with_type(encode_list_flows(Family::ipv6, Protocol::udp, end("fd00::a", 53))) ==
        "01010100 0a000000"
        "18000180"
        "14000280"
        "0500010011000000"
        "0600030000350000"
        "0c0019800800010028000000");
}

TEST_CASE("a removal names both ends and the id, and is never without a tuple") {
  const Flow v4{end("10.0.0.7", 4000), end("10.96.0.10", 53), end("10.1.0.1", 5353), 0x01020304};
  CHECK(sent_with_type(encode_remove_flow(v4)) ==
        "02010100 02000000"
        "34000180"                                  // TUPLE_ORIG
        "14000180080001000a000007080002000a60000a"  // IP
        "1c0002800500010011000000"                  // PROTO { NUM
        "060002000fa000000600030000350000"          //         SRC_PORT, DST_PORT }
        "08000c0001020304");                        // ID
  const Flow v6{end("fd00::7", 4000), end("fd00::a", 53), end("fd00:1::1", 5353), 7};
  CHECK(sent_with_type(encode_remove_flow(v6)) ==
        "02010100 0a000000"
        "4c000180"
        "2c000180"
        "14000300fd000000000000000000000000000007"
        "14000400fd00000000000000000000000000000a"
        "1c0002800500010011000000"
        "060002000fa000000600030000350000"
        "08000c0000000007");
}

// What Linux 6.1 says of a query through a virtual service, seen with strace.
const std::string kOriginal =
    "34000180"
    "14000180080001000a000001080002000a60000a"
    "1c0002800500010011000000060002000fa000000600030000350000";
const std::string kReply =
    "34000280"
    "14000180080001000a010002080002000a000001"
    "1c00028005000100110000000600020014e90000060003000fa00000";
const std::string kStatus = "080003000000000a0800080000000000";
const std::string kId = "08000c003684a805";
const std::string kRest =
    "08000b000000000108000700"
    "0000001d";

std::optional<Flow> read(const std::string& hex) {
  const auto flow = decode_listed(from_hex(hex), Protocol::udp);
  if (!flow) FAIL(to_string(flow.error()));
  return *flow;
}

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  REQUIRE(text.find(part) != std::string::npos);
  return text.replace(text.find(part), part.size(), by);
}

TEST_CASE("a flow through a virtual service: the client, the service, and who answers") {
  CHECK(read("02000000" + kOriginal + kReply + kStatus + kId + kRest) ==
        Flow{end("10.0.0.1", 4000), end("10.96.0.10", 53), end("10.1.0.2", 5353), 0x3684a805,
             Protocol::udp, true});
  CHECK(read("0a000000"
             "4c000180"
             "2c00018014000300fd00000000000000000000000000000114000400fd00000000000000000000000000"
             "000a1c0002800500010011000000060002000fa000000600030000350000"
             "4c000280"
             "2c00018014000300fd01000000000000000000000000000114000400fd00000000000000000000000000"
             "00011c00028005000100110000000600020014e90000060003000fa00000"
             "080003000000000a080008000000000008000c0081c8e7fb08000b0000000001080007000000001c") ==
        Flow{end("fd00::1", 4000), end("fd00::a", 53), end("fd01::1", 5353), 0x81c8e7fb,
             Protocol::udp, true});
}

TEST_CASE("flows of other protocols, families and zones are left out") {
  CHECK(read("02000000" + kOriginal + kReply + kId + "0600120000000000"));
  CHECK_FALSE(read("02000000" + kOriginal + kReply + kId + "0600120000070000"));
  CHECK_FALSE(read("02000000" + kOriginal + kReply + kId + "0600120000010000"));
  CHECK_FALSE(read("07000000" + kOriginal + kReply + kId));
  // TCP; ICMP has no ports.
  CHECK_FALSE(read("02000000" + replaced(kOriginal, "0500010011", "0500010006") + kReply + kId));
  CHECK_FALSE(
      read("02000000"
           "24000180"
           "14000180080001000a000001080002000a60000a"
           "0c0002800500010001000000" +
           kReply + kId));
  // A zone of one direction only.
  CHECK_FALSE(read("02000000" + replaced(kOriginal, "34000180", "3c000180") + "0600030000070000" +
                   kReply + kId));
  CHECK_FALSE(read("02000000" + kOriginal + replaced(kReply, "34000280", "3c000280") +
                   "0600030000070000" + kId));
  CHECK(read("02000000" + kOriginal + replaced(kReply, "34000280", "3c000280") +
             "0600030000000000" + kId));
}

TEST_CASE("a flow to look at: also the source that the server sees, state, answers, time left") {
  const auto hex = "02000000" + kOriginal + kReply + kStatus + "0800070000000078";
  const auto udp = decode_flow(from_hex(hex), Protocol::udp);
  REQUIRE(udp);
  CHECK(*udp == TrackedFlow{.protocol = Protocol::udp,
                            .source = end("10.0.0.1", 4000),
                            .destination = end("10.96.0.10", 53),
                            .server = end("10.1.0.2", 5353),
                            .seen = end("10.0.0.1", 4000),
                            .answered = true,
                            .expires = 120});
  CHECK_FALSE(*decode_flow(from_hex(hex), Protocol::tcp));
  const auto tcp =
      decode_flow(from_hex("02000000" + replaced(kOriginal, "0500010011", "0500010006") +
                           replaced(kReply, "0500010011", "0500010006") +
                           "10000480"
                           "0c000180"
                           "0500010003000000"),
                  Protocol::tcp);
  REQUIRE(tcp);
  REQUIRE(*tcp);
  CHECK((*tcp)->state == "ESTABLISHED");
  CHECK_FALSE((*tcp)->answered);
}

TEST_CASE("what goes to one destination is asked for by its protocol") {
  CHECK(sent_with_type(encode_list_flows(Family::ipv4, Protocol::tcp, end("10.96.0.10", 53))) ==
        "01010100 02000000"
        "24000180"
        "0c000180080002000a60000a"
        "140002800500010006000000"
        "0600030000350000"
        "0c001980080001002a000000");
}

TEST_CASE("flows that lack something or have it in a wrong size are malformed") {
  const auto kind = [](const std::string& hex) {
    const auto flow = decode_listed(from_hex(hex), Protocol::udp);
    return flow ? ErrorKind::io : flow.error().kind;
  };
  CHECK(kind("") == ErrorKind::malformed);
  CHECK(kind("020000") == ErrorKind::malformed);
  CHECK(kind("02000000") == ErrorKind::malformed);
  CHECK(kind("02000000" + kOriginal + kReply) == ErrorKind::malformed);
  CHECK(kind("02000000" + kOriginal + kId) == ErrorKind::malformed);
  CHECK(kind("02000000" + kReply + kId) == ErrorKind::malformed);
  // IPv4 addresses in a flow of IPv6.
  CHECK(kind("0a000000" + kOriginal + kReply + kId) == ErrorKind::malformed);
  const auto original = [&](const std::string& part, const std::string& by) {
    return kind("02000000" + replaced(kOriginal, part, by) + kReply + kId);
  };
  CHECK(original("34000180", "30000180") == ErrorKind::malformed);  // ends in the middle
  CHECK(original("060002000fa00000", "050002000fa00000") == ErrorKind::malformed);
  CHECK(original("060002000fa00000", "060004000fa00000") == ErrorKind::malformed);  // no source
  CHECK(original("080001000a000001", "060001000a000001") == ErrorKind::malformed);
  CHECK(original("080001000a000001", "080003000a000001") == ErrorKind::malformed);
  CHECK(original("14000180", "14000380") == ErrorKind::malformed);
  CHECK(kind("02000000" + kOriginal + kReply + "06000c0036840000") == ErrorKind::malformed);
}

TEST_CASE("what a removal says is read back as the same flow") {
  const auto removal = encode_remove_flow(*read("02000000" + kOriginal + kReply + kId));
  CHECK(to_hex(ByteView(removal).subspan(kMessageHeaderSize)) == "02000000" + kOriginal + kId);
}

TEST_CASE("flows describe themselves") {
  CHECK(to_string(Flow{end("10.0.0.7", 4000), end("10.96.0.10", 53), {}, 7}) ==
        "UDP flow 10.0.0.7:4000 -> 10.96.0.10:53");
  CHECK(to_string(Flow{end("fd00::7", 4000), end("fd00::a", 53), {}, 7}) ==
        "UDP flow [fd00::7]:4000 -> [fd00::a]:53");
}

}  // namespace
}  // namespace ipvsproxier::netlink
