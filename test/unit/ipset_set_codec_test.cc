#include "ipset/sets/set_codec.h"

#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "netlink/nl_codec.h"
#include "test/support/hex.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::Bytes;
using netlink::ByteView;
using netlink::ErrorKind;
using test::from_hex;
using test::to_hex;

// Payloads of listings as a kernel 6.1 sent them for sets made with ipset 7.17; the set's name is
// one letter.

// hash:ip,port: 10.96.0.10,udp:53 and 10.96.0.10,tcp:53
constexpr std::string_view kIpPort =
    "020000000500010006000000060002004100000011000300686173683a69702c706f727400000000"
    "050005000200000005000400060000003c0007800800124000000400080013400001000005001500"
    "0c00000008001140cdb2178b080019400000000008001a4000000120080018400000000244000880"
    "200007800c000180080001000a60000a06000440003500000500070006000000200007800c000180"
    "080001000a60000a06000440003500000500070011000000";

// hash:ip,port,net family inet6 maxelem 1000: fd00::10,sctp:443,fd00:1::/64 and, marked nomatch,
// fd00::11,tcp:80,fd00:2::/64
constexpr std::string_view kIpPortNet6 =
    "020000000500010006000000060002004200000015000300686173683a69702c706f72742c6e6574"
    "00000000050005000a00000005000400080000003c000780080012400000040008001340000003e8"
    "050015000c000000080011401b0b6a48080019400000000008001a40000005b00800184000000002"
    "a4000880540007801800018014000200fd0000000000000000000000000000111800148014000200"
    "fd000002000000000000000000000000060004400050000005001500400000000500070006000000"
    "08000840000000044c0007801800018014000200fd00000000000000000000000000001018001480"
    "14000200fd0000010000000000000000000000000600044001bb0000050015004000000005000700"
    "84000000";

// bitmap:port range 0-65535: 30080
constexpr std::string_view kPorts =
    "0200000005000100060000000600020043000000100003006269746d61703a706f72740005000500"
    "0000000005000400030000002c000780060004400000000006000540ffff00000800194000000000"
    "08001a40000020480800184000000001100008800c0007800600044075800000";

// hash:ip,port,ip: 10.244.0.3,tcp:8080,10.244.0.3
constexpr std::string_view kIpPortIp =
    "020000000500010006000000060002004400000014000300686173683a69702c706f72742c697000"
    "050005000200000005000400060000003c0007800800124000000400080013400001000005001500"
    "0c00000008001140b603446d080019400000000008001a4000000100080018400000000130000880"
    "2c0007800c000180080001000af400030c001480080001000af40003060004401f90000005000700"
    "06000000";

// hash:ip family inet6: ::10.0.0.1, fd00::1, fd00::2, fd00::3
constexpr std::string_view kIp6 =
    "02000000050001000600000006000200450000000c000300686173683a697000050005000a000000"
    "05000400050000003c00078008001240000004000800134000010000050015000c00000008001140"
    "485584df080019400000000008001a40000001c80800184000000004740008801c00078018000180"
    "140002000000000000000000000000000a0000011c0007801800018014000200fd00000000000000"
    "00000000000000011c0007801800018014000200fd0000000000000000000000000000021c000780"
    "1800018014000200fd000000000000000000000000000003";

// hash:mac, empty
constexpr std::string_view kForeign =
    "02000000050001000600000006000200460000000d000300686173683a6d61630000000005000500"
    "0000000005000400010000003c00078008001240000004000800134000010000050015000c000000"
    "0800114039f7ad42080019400000000008001a40000000c0080018400000000004000880";

// hash:ip timeout 60 counters, empty
constexpr std::string_view kWithOptions =
    "02000000050001000600000006000200470000000c000300686173683a6970000500050002000000"
    "05000400050000004c00078008001240000004000800134000010000050015000c00000008001140"
    "b06b18f4080019400000000008001a40000000c00800184000000000080006400000003c08000840"
    "0000000804000880";

// bitmap:port range 1-100, empty
constexpr std::string_view kPortRange =
    "0200000005000100060000000600020048000000100003006269746d61703a706f72740005000500"
    "0000000005000400030000002c000780060004400001000006000540006400000800194000000000"
    "08001a4000000058080018400000000004000880";

SetListing listing_of(std::string_view hex) {
  SetListing listing;
  const Status status = listing.add(from_hex(hex));
  INFO((status ? std::string() : netlink::to_string(status.error())));
  REQUIRE(status);
  return listing;
}

ListedSet set_of(std::string_view hex) {
  auto set = listing_of(hex).take();
  INFO((set ? std::string() : netlink::to_string(set.error())));
  REQUIRE(set);
  return *set;
}

std::vector<std::string> texts_of(const ListedSet& set) {
  std::vector<std::string> texts;
  for (const Element& element : set.elements) texts.push_back(to_string(element));
  return texts;
}

using Texts = std::vector<std::string>;

TEST_CASE("recorded listings of all kinds decode") {
  const ListedSet ip_port = set_of(kIpPort);
  CHECK(ip_port.spec == SetSpec{.name = "A", .kind = SetKind::hash_ip_port});
  CHECK(texts_of(ip_port) == Texts{"10.96.0.10,tcp:53", "10.96.0.10,udp:53"});

  const ListedSet ip_port_net = set_of(kIpPortNet6);
  CHECK(ip_port_net.spec == SetSpec{.name = "B",
                                    .kind = SetKind::hash_ip_port_net,
                                    .family = Family::ipv6,
                                    .hash_size = 1024,
                                    .max_elements = 1000});
  CHECK(texts_of(ip_port_net) == Texts{"fd00::10,sctp:443,fd00:1::/64"});

  CHECK(set_of(kPorts).spec == SetSpec{.name = "C", .kind = SetKind::bitmap_port});
  CHECK(texts_of(set_of(kPorts)) == Texts{"30080"});

  CHECK(set_of(kIpPortIp).spec.kind == SetKind::hash_ip_port_ip);
  CHECK(texts_of(set_of(kIpPortIp)) == Texts{"10.244.0.3,tcp:8080,10.244.0.3"});

  const ListedSet ip = set_of(kIp6);
  CHECK(ip.spec.kind == SetKind::hash_ip);
  REQUIRE(ip.elements.size() == 4);
  CHECK(texts_of(ip) == Texts{"::10.0.0.1", "fd00::1", "fd00::2", "fd00::3"});
}

TEST_CASE("headers tell what a set is") {
  const SetHeader header = listing_of(kIpPortNet6).header().value();
  CHECK(header == SetHeader{.name = "B",
                            .type = "hash:ip,port,net",
                            .revision = 8,
                            .family = Family::ipv6,
                            .hash_size = 1024,
                            .max_elements = 1000,
                            .options = {}});
  CHECK(listing_of(kPorts).header()->family == std::nullopt);
  CHECK(listing_of(kPorts).header()->options.empty());
  CHECK(listing_of(kPortRange).header()->options == Texts{"range 1-100"});
  CHECK(listing_of(kWithOptions).header()->options == Texts{"timeout", "counters"});
  CHECK(listing_of(kForeign).header()->type == "hash:mac");
}

TEST_CASE("a set of a type that is not ours is unsupported") {
  const auto set = listing_of(kForeign).take();
  REQUIRE_FALSE(set);
  CHECK(set.error().kind == ErrorKind::unsupported);
  CHECK(set.error().where == "set F has type hash:mac");
}

TEST_CASE("a listing in several messages is one set, each element once") {
  // The second message of a dump carries name and elements, no header.
  netlink::MessageWriter writer(0, 0, from_hex("02000000"));
  writer.put_u8(1, 6);
  writer.put_string(2, "A");
  {
    const auto elements = writer.nest(8);
    for (const auto& [number, port] :
         std::vector<std::pair<std::uint8_t, std::uint16_t>>{{6, 53}, {132, 9000}, {1, 7}}) {
      const auto element = writer.nest(7);
      {
        const auto ip = writer.nest(1);
        writer.put_bytes(1, from_hex("0a60000a"));
      }
      writer.put_be16(4, port);
      writer.put_u8(7, number);
    }
  }
  const Bytes message = std::move(writer).take();
  SetListing listing = listing_of(kIpPort);
  REQUIRE(listing.add(ByteView(message).subspan(netlink::kMessageHeaderSize)));
  const auto set = std::move(listing).take();
  REQUIRE(set);
  REQUIRE(set->elements.size() == 4);
  // ICMP, which somebody else put in, has no name here but keeps its number.
  CHECK(std::get<IpPortElement>(set->elements[0]).protocol == static_cast<Protocol>(1));
  CHECK(to_string(set->elements[1]) == "10.96.0.10,tcp:53");
  CHECK(to_string(set->elements[2]) == "10.96.0.10,udp:53");
  CHECK(to_string(set->elements[3]) == "10.96.0.10,sctp:9000");
}

TEST_CASE("messages that do not belong to the listing are malformed") {
  SetListing listing = listing_of(kIpPort);
  CHECK(listing.add(from_hex(kPorts)).error().kind == ErrorKind::malformed);
  CHECK(SetListing().take().error().kind == ErrorKind::malformed);
  CHECK(SetListing().add(Bytes{}).error().kind == ErrorKind::malformed);
  CHECK(SetListing().add(from_hex("02000000")).error().kind == ErrorKind::malformed);
  // Only a name: no header, and none came before.
  CHECK(SetListing().add(from_hex("020000000600020041000000")).error().kind ==
        ErrorKind::malformed);
}

TEST_CASE("a truncated listing is refused or shorter, never read beyond its end") {
  for (const std::string_view hex : {kIpPort, kIpPortNet6, kPorts, kIpPortIp, kIp6}) {
    const Bytes whole = from_hex(hex);
    const std::size_t all = set_of(hex).elements.size();
    for (std::size_t size = 0; size < whole.size(); ++size) {
      // A copy of its own, so that a sanitizer sees a read behind it.
      const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      SetListing listing;
      if (!listing.add(part)) continue;
      const auto set = std::move(listing).take();
      REQUIRE(set);
      CHECK(set->elements.size() < all);
    }
  }
}

TEST_CASE("an element that lacks a part, or has one of a wrong size, is malformed") {
  const std::string good(kIpPort);
  const auto broken = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    return SetListing().add(from_hex(text));
  };
  REQUIRE(SetListing().add(from_hex(good)));
  // The address as another attribute; the port as another; the address of 3 bytes.
  CHECK(broken("0c000180080001000a60000a", "0c000f80080001000a60000a").error().kind ==
        ErrorKind::malformed);
  CHECK(broken("0600044000350000", "0600064000350000").error().kind == ErrorKind::malformed);
  CHECK(broken("080001000a60000a", "070001000a60000a").error().kind == ErrorKind::malformed);
}

TEST_CASE("a network without a length is one address") {
  std::string text(kIpPortNet6);
  const std::string length = "0500150040000000";
  for (auto at = text.find(length); at != std::string::npos; at = text.find(length))
    text.replace(at, length.size(), "05001e0040000000");  // another attribute
  CHECK(texts_of(set_of(text)) == Texts{"fd00::10,sctp:443,fd00:1::/128"});
}

TEST_CASE("the list request is what the kernel expects") {
  // nlmsghdr (LIST of subsystem 6, REQUEST | DUMP), nfgenmsg (inet), PROTOCOL 6, SETNAME "A".
  CHECK(to_hex(list_request("A", ListDepth::elements)) ==
        "24000000"
        "0706"
        "0103"
        "00000000"
        "00000000"
        "02000000"
        "0500010006000000"
        "0600020041000000");
  // FLAGS, in network order: IPSET_FLAG_LIST_HEADER.
  CHECK(to_hex(list_request("A", ListDepth::header)) ==
        "2c000000"
        "0706"
        "0103"
        "00000000"
        "00000000"
        "02000000"
        "0500010006000000"
        "0600020041000000"
        "0800064000000004");
}

TEST_CASE("the difference between sets is named") {
  const SetHeader actual{.name = "S",
                         .type = "hash:ip,port",
                         .revision = 5,
                         .family = Family::ipv4,
                         .hash_size = 4096,
                         .max_elements = 65536,
                         .options = {}};
  const SetSpec wanted{.name = "S", .kind = SetKind::hash_ip_port, .family = Family::ipv4};
  CHECK(difference(actual, wanted) == "");

  SetSpec other = wanted;
  other.kind = SetKind::hash_ip;
  CHECK(difference(actual, other) == "type hash:ip,port, wanted hash:ip");
  other = wanted;
  other.family = Family::ipv6;
  other.max_elements = 10;
  CHECK(difference(actual, other) == "family inet, wanted inet6; maxelem 65536, wanted 10");

  SetHeader with_option = actual;
  with_option.options = {"timeout"};
  CHECK(difference(with_option, wanted) == "timeout, wanted none");

  // A bitmap has no family: the same set serves both owners' specifications.
  const SetHeader bitmap{.name = "P", .type = "bitmap:port"};
  for (const Family family : netlink::kFamilies) {
    CHECK(difference(bitmap, SetSpec{.name = "P", .kind = SetKind::bitmap_port, .family = family})
              .empty());
  }
}

}  // namespace
}  // namespace ipvsproxier::ipset
