#include "netlink/links/link_codec.h"

#include <catch2/catch.hpp>

#include "test/unit/netlink_messages.h"

namespace ipvsproxier::netlink {
namespace {

using test::from_hex;
using test::payload;
using test::sent;
using test::to_hex;

AddressOp op(bool add, const std::string& ip) {
  return {add, *IpAddress::parse(ip)};
}

TEST_CASE("a dummy is asked for with no transmit queue") {
  const auto message = encode_new_dummy("kube-ipvs0");
  CHECK(sent(message) ==
        "00000000000000000000000000000000"  // ifinfomsg
        "08000d0000000000"                  // TXQLEN 0
        "0f0003006b7562652d697076733000"
        "00"                                  // IFNAME
        "100012800a00010064756d6d79000000");  // LINKINFO { INFO_KIND "dummy" }
  const auto link = decode_link(payload(message));
  REQUIRE(link);
  CHECK(*link == LinkRecord{0, "kube-ipvs0", "dummy"});
}

TEST_CASE("addresses are host addresses of global scope without flags") {
  CHECK(sent(encode_address_op(7, op(true, "10.0.0.1"))) ==
        "0220000007000000"
        "080002000a000001080001000a000001");
  CHECK(sent(encode_address_op(7, op(false, "fd00::1"))) ==
        "0a80000007000000"
        "14000200fd000000000000000000000000000001"
        "14000100fd000000000000000000000000000001");
  const auto add = encode_address_op(7, op(true, "10.0.0.1"));
  const auto remove = encode_address_op(7, op(false, "10.0.0.1"));
  CHECK(to_hex(ByteView(add).subspan(4, 4)) == "14000106");     // RTM_NEWADDR, create, exclusive
  CHECK(to_hex(ByteView(remove).subspan(4, 4)) == "15000100");  // RTM_DELADDR
}

TEST_CASE("addresses survive writing and reading") {
  const std::string ip = GENERATE("10.0.0.1", "fd00::1");
  const auto record = decode_address(payload(encode_address_op(7, op(true, ip))));
  REQUIRE(record);
  CHECK(record->link_index == 7);
  CHECK(record->address.to_string() == ip);
  CHECK(record->prefix_length == address_bits(record->address.family()));
}

TEST_CASE("our address counts, not the peer's; IPv6 may have only the one") {
  CHECK(decode_address(from_hex("02180000030000000800010001020304080002000a000001"))
            ->address.to_string() == "10.0.0.1");
  CHECK(decode_address(from_hex("0a4000000300000014000100fd000000000000000000000000000001"))
            ->prefix_length == 64);
}

TEST_CASE("odd addresses and links are refused") {
  CHECK(decode_address(from_hex("1118000003000000")).error().kind == ErrorKind::unsupported);
  CHECK(decode_address(from_hex("0218000003000000")).error().kind == ErrorKind::malformed);
  CHECK_FALSE(decode_address(from_hex("0221000003000000080001000a000001")));  // /33
  CHECK_FALSE(decode_address(from_hex("0a18000003000000080001000a000001")));  // 4 bytes of IPv6
  CHECK_FALSE(decode_address(from_hex("02180000")));
  CHECK_FALSE(decode_link(from_hex("00000000000000000000000000000000")));  // no name
  CHECK_FALSE(decode_link({}));
}

TEST_CASE("address operations describe themselves") {
  CHECK(to_string(op(true, "10.0.0.1")) == "add address 10.0.0.1/32");
  CHECK(to_string(op(false, "fd00::1")) == "delete address fd00::1/128");
}

TEST_CASE("local routes lead to lo, with a protocol and a metric of ours") {
  CHECK(sent(encode_local_route_op(op(true, "10.0.0.1"))) ==
        "02200000ff6bfe0200000000"
        "080001000a000001"
        "0800040001000000"
        "080006006b000000");
  CHECK(sent(encode_local_route_op(op(false, "fd00::1"))) ==
        "0a800000ff6bfe0200000000"
        "14000100fd000000000000000000000000000001"
        "0800040001000000"
        "080006006b000000");
  const auto add = encode_local_route_op(op(true, "10.0.0.1"));
  const auto remove = encode_local_route_op(op(false, "10.0.0.1"));
  CHECK(to_hex(ByteView(add).subspan(4, 4)) == "18000104");     // RTM_NEWROUTE, create
  CHECK(to_hex(ByteView(remove).subspan(4, 4)) == "19000100");  // RTM_DELROUTE
  CHECK(sent(encode_list_local_routes(Family::ipv6)) == "0a000000ff6b000200000000");
}

TEST_CASE("of all routes only local ones of ours are read") {
  const std::string ip = GENERATE("10.0.0.1", "fd00::1");
  const auto address = *IpAddress::parse(ip);
  const auto message = encode_local_route_op({true, address});
  const auto ours = Bytes(payload(message).begin(), payload(message).end());
  const auto read = decode_local_route(ours);
  REQUIRE(read);
  CHECK(*read == address);
  // Of another family, length, table, protocol, kind, metric.
  for (const auto& [at, value] : std::vector<std::pair<std::size_t, int>>{
           {0, 28}, {1, 24}, {4, 254}, {5, 2}, {7, 1}, {ours.size() - 4, 0}}) {
    INFO(at);
    auto other = ours;
    other[at] = static_cast<std::uint8_t>(value);
    const auto foreign = decode_local_route(other);
    REQUIRE(foreign);
    CHECK_FALSE(*foreign);
  }
  CHECK_FALSE(decode_local_route(ByteView(ours).first(11)));
  CHECK_FALSE(decode_local_route(ByteView(ours).first(12)));  // to everything
  CHECK_FALSE(decode_local_route(ByteView(ours).first(14)));
}

}  // namespace
}  // namespace ipvsproxier::netlink
