#include "netlink/ipvs/ipvs_codec.h"
#include "netlink/nl_codec.h"

#include <cstring>

#include <catch2/catch.hpp>

#include "test/unit/netlink_messages.h"

namespace ipvsproxier::netlink {
namespace {

using test::from_hex;
using test::payload;
using test::sent;

constexpr std::uint16_t kFamily = 32;

VirtualServiceKey key(const std::string& ip, std::uint16_t port) {
  return {.address = *IpAddress::parse(ip), .port = port};
}

RealServer gue_server() {
  return {.key = {*IpAddress::parse("10.1.0.5"), 443},
          .method = ForwardMethod::tunnel,
          .tunnel_type = 1,
          .tunnel_port = 6080,
          .tunnel_flags = 1};
}

// The hexadecimal strings are what ipvsadm 1.31 sent and Linux 6.1 answered, seen with strace.

TEST_CASE("requests for services are ipvsadm's to the byte") {
  CHECK(sent(encode_ipvs_op(kFamily, AddService{{.key = key("10.0.0.1", 80),
                                                 .scheduler = "rr",
                                                 .flags = kPersistent,
                                                 .timeout = 600}})) ==
        "010100005400018006000100020000000600020006000000140003000a000001000000000000000000000000"
        "060004000050000007000600727200000c00070001000000ffffffff080008005802000008000900ffffffff");
  CHECK(sent(encode_ipvs_op(kFamily, AddService{{.key = key("fd00::1", 53),
                                                 .scheduler = "mh",
                                                 .flags = kSchedulerFlag2,
                                                 .netmask_bits = 128}})) ==
        "0101000054000180060001000a000000060002000600000014000300fd000000000000000000000000000001"
        "0600040000350000070006006d6800000c00070010000000ffffffff08000800000000000800090080000000");
  CHECK(sent(encode_ipvs_op(kFamily, AddService{{.key = {.fwmark = 7}, .scheduler = "sh"}})) ==
        "01010000380001800600010002000000080005000700000007000600736800000c00070000000000ffffffff"
        "080008000000000008000900ffffffff");
  CHECK(sent(encode_list_services(kFamily)) == "04010000");
  CHECK(sent(encode_list_servers(kFamily, key("10.0.0.1", 80))) ==
        "080100003000018006000100020000000600020006000000140003000a000001000000000000000000000000"
        "0600040000500000");
  CHECK(sent(encode_set_timeouts(kFamily, {.tcp = 100, .tcp_fin = 20, .udp = 30})) ==
        "0c01000008000400640000000800050014000000080006001e000000");
}

TEST_CASE("requests for real servers carry ipvsadm's server and only the name of the service") {
  CHECK(sent(encode_ipvs_op(kFamily, AddServer{{.fwmark = 7}, gue_server()})) ==
        "05010000"
        "1400018006000100020000000800050007000000"
        "6000028006000b0002000000140001000a0100050000000000000000000000000600020001bb000008000300"
        "02000000080004000100000005000d000100000006000e0017c0000006000f00010000000800050000000000"
        "0800060000000000");
  CHECK(sent(encode_ipvs_op(kFamily, DeleteServer{{.fwmark = 7}, gue_server().key})) ==
        "07010000"
        "1400018006000100020000000800050007000000"
        "2800028006000b0002000000140001000a0100050000000000000000000000000600020001bb0000");
}

TEST_CASE("a listed service is read from the kernel's bytes, without the hashed flag") {
  const auto service =
      decode_service(from_hex("0101000038000100060001000200000008000500070000000700060073680000"
                              "0c00070002000000ffffffff080008000000000008000900ffffffff"));
  REQUIRE(service);
  CHECK(*service == VirtualService{.key = {.fwmark = 7}, .scheduler = "sh"});
}

TEST_CASE("a listed server is read from the kernel's bytes") {
  const auto server = decode_server(
      from_hex("0501000078000200140001000a0100050000000000000000000000000600020001bb000008000300"
               "02000000080004000100000005000d000100000006000e0017c0000006000f000100000008000500"
               "0000000008000600000000000800070003000000080008000400000008000900050000000600"
               "0b0002000000"),
      Family::ipv6);
  REQUIRE(server);
  CHECK(server->server == gue_server());
  CHECK(server->active_connections == 3);
  CHECK(server->inactive_connections == 4);
  CHECK(server->persistent_connections == 5);
}

// A request for a service has the form of its listing.
TEST_CASE("services survive writing and reading") {
  auto service = GENERATE(
      VirtualService{.key = key("10.0.0.1", 65535), .scheduler = "rr", .netmask_bits = 0},
      VirtualService{.key = key("10.0.0.1", 0), .scheduler = "abcdefghijklmno", .netmask_bits = 20},
      VirtualService{.key = key("fd00::1", 1), .scheduler = "mh", .netmask_bits = 128},
      VirtualService{.key = {.address = IpAddress::any(Family::ipv6), .fwmark = 0xffffffffU},
                     .scheduler = "wlc",
                     .netmask_bits = 1});
  service.flags = GENERATE(0U, kPersistent | kOnePacket | kSchedulerFlag3);
  service.timeout = 0xffffffffU;
  service.persistence_engine = GENERATE("", "sip");
  if (service.key.fwmark == 0) service.key.protocol = GENERATE(Protocol::tcp, Protocol::sctp);
  const auto read = decode_service(payload(encode_ipvs_op(kFamily, EditService{service})));
  REQUIRE(read);
  CHECK(*read == service);
}

TEST_CASE("real servers survive writing and reading") {
  auto server = GENERATE(gue_server(), RealServer{.key = {*IpAddress::parse("fd00::9"), 1},
                                                  .weight = 0x7fffffff,
                                                  .method = ForwardMethod::route,
                                                  .upper_threshold = 0xffffffffU,
                                                  .lower_threshold = 1});
  const auto read = decode_server(
      payload(encode_ipvs_op(kFamily, EditServer{key("10.0.0.1", 80), server})), Family::ipv4);
  REQUIRE(read);
  CHECK(read->server == server);
}

TEST_CASE("timeouts survive writing and reading") {
  const IpvsTimeouts timeouts{.tcp = 1, .tcp_fin = 2, .udp = 3};
  CHECK(*decode_timeouts(payload(encode_set_timeouts(kFamily, timeouts))) == timeouts);
}

TEST_CASE("a mask with holes is read as its leading ones") {
  auto message = encode_ipvs_op(
      kFamily, AddService{{.key = key("10.0.0.1", 80), .scheduler = "rr", .netmask_bits = 24}});
  message[message.size() - 3] = 0;  // 255.0.255.0
  CHECK(decode_service(payload(message))->netmask_bits == 8);
}

TEST_CASE("what a value cannot express is unsupported, what breaks the policy malformed") {
  auto foreign = encode_ipvs_op(kFamily, AddService{{.key = key("10.0.0.1", 80)}});
  REQUIRE(foreign[36] == 6);
  foreign[36] = 50;  // ESP
  CHECK(decode_service(payload(foreign)).error().kind == ErrorKind::unsupported);
  auto family = encode_ipvs_op(kFamily, AddService{{.key = key("10.0.0.1", 80)}});
  REQUIRE(family[28] == 2);
  family[28] = 3;
  CHECK(decode_service(payload(family)).error().kind == ErrorKind::malformed);
  CHECK(decode_service(payload(encode_list_services(kFamily))).error().kind ==
        ErrorKind::malformed);
  CHECK_FALSE(decode_server(payload(foreign), Family::ipv4));
  CHECK_FALSE(decode_service({}));
  CHECK_FALSE(decode_timeouts({}));
}

TEST_CASE("every truncation of a listing is refused or read within its bounds") {
  const auto message = encode_ipvs_op(kFamily, AddServer{key("10.0.0.1", 80), gue_server()});
  for (std::size_t size = kMessageHeaderSize; size < message.size(); ++size) {
    const Bytes part(message.begin() + kMessageHeaderSize,
                     message.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK_FALSE(decode_server(part, Family::ipv4));
  }
}

TEST_CASE("the controller is asked for a family and answers its id") {
  CHECK(sent(encode_get_family("IPVS")) == "03010000090002004950565300000000");
  CHECK(*decode_family_id(from_hex("01020000090002004950565300000000060001001c000000")) == 28);
  CHECK_FALSE(decode_family_id(from_hex("01020000090002004950565300000000")));
}

TEST_CASE("operations describe themselves") {
  const VirtualService web{.key = key("10.0.0.1", 80), .scheduler = "rr"};
  CHECK(to_string(IpvsOp{AddService{web}}) == "add virtual service 10.0.0.1:80/TCP rr");
  CHECK(to_string(IpvsOp{DeleteService{key("fd00::1", 53)}}) ==
        "delete virtual service [fd00::1]:53/TCP");
  CHECK(to_string(IpvsOp{EditServer{{.fwmark = 7}, gue_server()}}) ==
        "edit real server 10.1.0.5:443 weight 1 of virtual service fwmark 7 (IPv4)");
}

}  // namespace
}  // namespace ipvsproxier::netlink
