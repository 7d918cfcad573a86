#include "netlink/ipvs/ipvs_readings.h"

#include <string>

#include <catch2/catch.hpp>

#include "netlink/ipvs/ipvs_codec.h"
#include "test/unit/netlink_messages.h"

namespace ipvsproxier::netlink {
namespace {

using test::from_hex;

// The hexadecimal strings are what Linux 6.1 answered, seen with strace.

constexpr const char* kServiceWithTraffic =
    "010100005401010006000100020000000600020011000000140003000a000001000000000000000000000000"
    "060004000035000007000600727200000c00070003000000ffffffff080008003c00000008000900ffffffff"
    "60000a000800010008000000080002000800000008000300080000000c000400180100000000000004000b00"
    "0c000500f801000000000000080006000100000008000700010000000800080001000000080009001a000000"
    "08000a002f000000a0000c000c000100080000000000000004000b000c000200080000000000000004000b00"
    "0c000300080000000000000004000b000c000400180100000000000004000b000c000500f801000000000000"
    "04000b000c000600010000000000000004000b000c000700010000000000000004000b000c00080001000000"
    "0000000004000b000c0009001a0000000000000004000b000c000a002f00000000000000";
constexpr const char* kServerWithTraffic =
    "050100007c010200140001000a0707080000000000000000000000000600020014e900000800030000000000"
    "080004000100000005000d000000000006000e000000000006000f0000000000080005000000000008000600"
    "0000000008000700000000000800080008000000080009000100000006000b000200000064000a0008000100"
    "080000000800020008000000080003000800000004000b000c000400180100000000000004000b000c000500"
    "f801000000000000080006000100000008000700010000000800080001000000080009001a00000008000a00"
    "2f000000a0000c000c000100080000000000000004000b000c000200080000000000000004000b000c000300"
    "080000000000000004000b000c000400180100000000000004000b000c000500f80100000000000004000b00"
    "0c000600010000000000000004000b000c000700010000000000000004000b000c0008000100000000000000"
    "04000b000c0009001a0000000000000004000b000c000a002f00000000000000";

constexpr IpvsTraffic kTraffic = {.connections = 8,
                                  .packets_in = 8,
                                  .packets_out = 8,
                                  .bytes_in = 280,
                                  .bytes_out = 504,
                                  .connection_rate = 1,
                                  .packet_rate_in = 1,
                                  .packet_rate_out = 1,
                                  .byte_rate_in = 26,
                                  .byte_rate_out = 47};

TEST_CASE("a service is read with its counters and rates") {
  const auto reading = decode_service_reading(from_hex(kServiceWithTraffic));
  REQUIRE(reading);
  CHECK(reading->service == VirtualService{.key = {.address = *IpAddress::parse("10.0.0.1"),
                                                   .protocol = Protocol::udp,
                                                   .port = 53},
                                           .scheduler = "rr",
                                           .flags = kPersistent,
                                           .timeout = 60});
  CHECK(reading->traffic == kTraffic);
  CHECK_FALSE(reading->odd_netmask);
}

TEST_CASE("a server is read with its counters and rates") {
  const auto reading = decode_server_reading(from_hex(kServerWithTraffic), Family::ipv4);
  REQUIRE(reading);
  CHECK(to_string(reading->listed.server.key) == "10.7.7.8:5353");
  CHECK(reading->listed.inactive_connections == 8);
  CHECK(reading->listed.persistent_connections == 1);
  CHECK(reading->traffic == kTraffic);
}

// What the kernel would have sent with other bytes in one place.
Bytes with(const char* hex, const std::string& before, const std::string& after) {
  std::string text = hex;
  const auto at = text.find(before);
  REQUIRE(at != std::string::npos);
  REQUIRE(text.find(before, at + 1) == std::string::npos);
  return from_hex(text.replace(at, before.size(), after));
}

TEST_CASE("a persistence mask with holes is kept, one without is a prefix") {
  const auto odd =
      decode_service_reading(with(kServiceWithTraffic, "08000900ffffffff", "08000900ff00ff00"));
  REQUIRE(odd);
  CHECK(odd->odd_netmask == 0xff00ff00U);
  const auto prefix =
      decode_service_reading(with(kServiceWithTraffic, "08000900ffffffff", "08000900ffff0000"));
  REQUIRE(prefix);
  CHECK_FALSE(prefix->odd_netmask);
  CHECK(prefix->service.netmask_bits == 16);
}

TEST_CASE("counters of another size are malformed, no counters are zeroes") {
  // The nest of counters says it is another attribute: then there are none.
  const auto without =
      decode_server_reading(with(kServerWithTraffic, "a0000c00", "a0001f00"), Family::ipv4);
  REQUIRE(without);
  CHECK(without->traffic == IpvsTraffic{});
  // The first counter says it is four bytes long.
  const auto broken = decode_server_reading(
      with(kServerWithTraffic, "a0000c000c000100", "a0000c0008000100"), Family::ipv4);
  REQUIRE_FALSE(broken);
  CHECK(broken.error().kind == ErrorKind::malformed);
}

TEST_CASE("of a kernel without counters of 64 bits a service has the narrow ones") {
  const auto reading = decode_service_reading(with(kServiceWithTraffic, "a0000c00", "a0001f00"));
  REQUIRE(reading);
  CHECK(reading->traffic == IpvsTraffic{.connections = 8,
                                        .packets_in = 8,
                                        .packets_out = 8,
                                        .bytes_in = 280,
                                        .bytes_out = 504,
                                        .narrow = true});
}

TEST_CASE("an answer without counters, or about another virtual service, has no traffic") {
  const VirtualServiceKey key = {
      .address = *IpAddress::parse("10.0.0.1"), .protocol = Protocol::udp, .port = 53};
  const auto whole = decode_traffic(from_hex(kServiceWithTraffic), key);
  REQUIRE(whole);
  CHECK(*whole == kTraffic);
  const auto narrow = decode_traffic(with(kServiceWithTraffic, "a0000c00", "a0001f00"), key);
  REQUIRE(narrow);
  CHECK(narrow->narrow);
  auto without = std::string(kServiceWithTraffic);
  without.replace(without.find("60000a00"), 8, "60001f00");
  without.replace(without.find("a0000c00"), 8, "a0001e00");
  const auto none = decode_traffic(from_hex(without), key);
  REQUIRE_FALSE(none);
  CHECK(none.error().kind == ErrorKind::malformed);
  auto other = key;
  other.port = 54;
  const auto others = decode_traffic(from_hex(kServiceWithTraffic), other);
  REQUIRE_FALSE(others);
  CHECK(others.error().kind == ErrorKind::malformed);
  CHECK_THAT(others.error().where, Catch::Contains("10.0.0.1:53"));
}

TEST_CASE("version and size of the connection table are read") {
  const auto info = decode_info(from_hex("0e01000008000100010201000800020000100000"));
  REQUIRE(info);
  CHECK(info->version == 0x010201);
  CHECK(info->connection_table_size == 4096);
  CHECK_FALSE(decode_info(from_hex("0e01")));
}

TEST_CASE("a connection sync daemon is read") {
  const auto daemon = decode_daemon(from_hex(
      "090100003c00030008000100010000000700020064300000080003000700000006000400c005000006000700"
      "90220000050008000100000008000500e0000051"));
  REQUIRE(daemon);
  CHECK(*daemon == SyncDaemon{.master = true,
                              .interface = "d0",
                              .sync_id = 7,
                              .max_length = 1472,
                              .group = IpAddress::parse("224.0.0.81"),
                              .port = 8848,
                              .ttl = 1});
  CHECK_FALSE(decode_daemon(from_hex("09010000")));
}

}  // namespace
}  // namespace ipvsproxier::netlink
