#include "netlink/links/loop_codec.h"

#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>

#include <catch2/catch.hpp>

#include "test/unit/netlink_messages.h"

namespace ipvsproxier::netlink {
namespace {

using test::payload;
using test::sent;
using test::to_hex;

constexpr std::array<std::uint8_t, 6> kAddress = {0x02, 'k', 'u', 'b', 'e', 'l'};

struct Told {
  std::string kind = "veth";
  unsigned flags = IFF_UP | IFF_NOARP;
  bool ours = true;        // the link-layer address
  bool elsewhere = false;  // the other end is in another namespace
  std::uint32_t localnet = 1;
};

Bytes told(const Told& what) {
  ifinfomsg header{};
  header.ifi_index = 7;
  header.ifi_flags = what.flags;
  MessageWriter out(RTM_NEWLINK, 0, bytes_of(header));
  out.put_string(IFLA_IFNAME, "kube-local0");
  out.put_u32(IFLA_LINK, 8);
  if (what.elsewhere) out.put_u32(IFLA_LINK_NETNSID, 0);
  auto address = kAddress;
  if (!what.ours) address[5] = 'x';
  out.put_bytes(IFLA_ADDRESS, address);
  {
    const auto info = out.nest(IFLA_LINKINFO);
    out.put_string(IFLA_INFO_KIND, what.kind);
  }
  {
    const auto spec = out.nest(IFLA_AF_SPEC);
    const auto family = out.nest(AF_INET);
    std::array<std::uint32_t, IPV4_DEVCONF_MAX> values{};
    values[IPV4_DEVCONF_ROUTE_LOCALNET - 1] = what.localnet;
    values[IPV4_DEVCONF_FORWARDING - 1] = 1;
    out.put_bytes(1, bytes_of(values));
  }
  return std::move(out).take();
}

LoopLink read_told(const Told& what) {
  const auto link = decode_loop_link(payload(told(what)));
  REQUIRE(link);
  return *link;
}

TEST_CASE("what a link lacks to be an end of a loop is read") {
  const auto whole = read_told({});
  CHECK(whole == LoopLink{.index = 7,
                          .name = "kube-local0",
                          .kind = "veth",
                          .other_end = 8,
                          .up = true,
                          .no_arp = true,
                          .has_address = true,
                          .takes_loopback = true});
  CHECK(is_settled(whole, true));
  CHECK_FALSE(is_settled(read_told({.flags = IFF_UP}), true));
  CHECK_FALSE(is_settled(read_told({.flags = IFF_NOARP}), true));
  CHECK_FALSE(is_settled(read_told({.ours = false}), true));
  CHECK_FALSE(is_settled(read_told({.localnet = 0}), true));
  CHECK(is_settled(read_told({.localnet = 0}), false));
  CHECK(read_told({.elsewhere = true}).other_end == 0);
  CHECK(read_told({.kind = "dummy"}).kind == "dummy");
}

TEST_CASE("a link that is cut off anywhere is malformed, or read within its bounds") {
  const auto message = told({});
  for (auto size = kMessageHeaderSize; size < message.size(); ++size) {
    const auto link =
        decode_loop_link(ByteView(message).subspan(kMessageHeaderSize, size - kMessageHeaderSize));
    if (link) CHECK(link->name == "kube-local0");
  }
}

TEST_CASE("a loop is asked for with both names and one link-layer address") {
  CHECK(sent(encode_new_loop("ab0", "ab1")) ==
        "00000000000000000000000000000000"  // ifinfomsg
        "08000300"
        "61623000"  // IFNAME
        "0a00010002"
        "6b7562656c"
        "0000"  // ADDRESS
        "3c00"
        "1280"  // LINKINFO
        "09000100"
        "7665746800000000"  // INFO_KIND
        "2c000280"          // INFO_DATA
        "28000100"          // PEER
        "00000000000000000000000000000000"
        "08000300"
        "61623100"
        "0a00010002"
        "6b7562656c"
        "0000");
}

TEST_CASE("only the first end of a loop may have loopback addresses on it") {
  const auto first = sent(encode_settle_loop(7, true));
  const auto second = sent(encode_settle_loop(8, false));
  // UP and NOARP.
  CHECK(
      first.starts_with("0000000007000000"
                        "81000000"
                        "81000000"));
  CHECK(
      second.starts_with("0000000008000000"
                         "81000000"
                         "81000000"));
  CHECK(first.find("1a80") != std::string::npos);
  CHECK(second.find("1a80") == std::string::npos);
}

TEST_CASE("routes of a loop are for one address, and have a metric of their own") {
  CHECK(sent(encode_loop_route(7, *IpAddress::parse("169.254.107.1"), false)) ==
        "02200000"
        "fe6bfd01"
        "00000000"
        "08000100"
        "a9fe6b01"
        "08000400"
        "07000000"
        "08000600"
        "6c000000");
  CHECK(sent(encode_loop_route(7, *IpAddress::parse("::1"), true)) ==
        "0a800000"
        "ff6bfe02"
        "00000000"
        "14000100"
        "00000000000000000000000000000001"
        "08000400"
        "07000000"
        "08000600"
        "6c000000");
}

}  // namespace
}  // namespace ipvsproxier::netlink
