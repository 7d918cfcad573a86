#include "netlink/ip_address.h"

#include <catch2/catch.hpp>

namespace ipvsproxier::netlink {
namespace {

TEST_CASE("addresses parse and print canonically") {
  const auto [text, printed] = GENERATE(table<std::string, std::string>({
      {"10.0.0.1", "10.0.0.1"},
      {"010.000.000.009", "10.0.0.9"},
      {"0.0.0.0", "0.0.0.0"},
      {"255.255.255.255", "255.255.255.255"},
      {"FD00:0:0:0::1", "fd00::1"},
      {"::", "::"},
      {"::ffff:10.0.0.1", "10.0.0.1"},
  }));
  const auto address = IpAddress::parse(text);
  REQUIRE(address);
  CHECK(address->to_string() == printed);
  CHECK(IpAddress::parse(printed) == address);
}

TEST_CASE("what is no address is refused") {
  const std::string text = GENERATE("", "10.0.0", "10.0.0.256", "10.0.0.1.2", "10.0.0.", "a.b.c.d",
                                    "10.0.0.1/8", "fe80::1%eth0", ":::", "1 0.0.0.1", "-1.0.0.0");
  CHECK_FALSE(IpAddress::parse(text));
}

TEST_CASE("addresses order by family, then numerically") {
  CHECK(*IpAddress::parse("9.255.255.255") < *IpAddress::parse("10.0.0.0"));
  CHECK(*IpAddress::parse("255.255.255.255") < *IpAddress::parse("::"));
}

TEST_CASE("loopback and link-local") {
  CHECK(IpAddress::parse("127.0.0.53")->is_loopback());
  CHECK(IpAddress::parse("::1")->is_loopback());
  CHECK_FALSE(IpAddress::parse("::2")->is_loopback());
  CHECK_FALSE(IpAddress::parse("100::1")->is_loopback());
  CHECK(IpAddress::parse("169.254.20.10")->is_link_local());
  CHECK(IpAddress::parse("febf::1")->is_link_local());
  CHECK_FALSE(IpAddress::parse("fec0::1")->is_link_local());
}

TEST_CASE("prefixes clear host bits, print their length and contain") {
  const auto prefix = IpPrefix::parse("10.1.2.3/20");
  REQUIRE(prefix);
  CHECK(prefix->to_string() == "10.1.0.0/20");
  CHECK(prefix->contains(*IpAddress::parse("10.1.15.255")));
  CHECK_FALSE(prefix->contains(*IpAddress::parse("10.1.16.0")));
  CHECK_FALSE(prefix->contains(*IpAddress::parse("::")));
  CHECK(IpPrefix::parse("fd00:1::/33")->contains(*IpAddress::parse("fd00:1:7fff::1")));
  CHECK_FALSE(IpPrefix::parse("fd00:1::/33")->contains(*IpAddress::parse("fd00:1:8000::1")));
  CHECK(IpPrefix::parse("0.0.0.0/0")->contains(*IpAddress::parse("1.2.3.4")));
  CHECK(IpPrefix::parse("1.2.3.4/32")->to_string() == "1.2.3.4/32");
}

// net.ParseCIDR of Go masks all 16 bytes, and takes for IPv4 what is IPv4-mapped then.
TEST_CASE("prefixes of IPv4-mapped addresses are read as Go reads them") {
  const auto [text, read] = GENERATE(table<std::string, std::string>({
      {"::ffff:10.0.0.0/104", "10.0.0.0/8"},
      {"::ffff:10.1.2.3/128", "10.1.2.3/32"},
      {"::ffff:a01:203/120", "10.1.2.0/24"},
      {"::ffff:10.0.0.0/96", "0.0.0.0/0"},
      {"::ffff:10.0.0.0/95", "::fffe:0:0/95"},
      {"::ffff:10.0.0.0/88", "::ff00:0:0/88"},
      {"::ffff:10.0.0.0/24", "::/24"},
      {"::ffff:10.0.0.0/0", "::/0"},
  }));
  INFO(text);
  const auto prefix = IpPrefix::parse(text);
  REQUIRE(prefix);
  CHECK(prefix->to_string() == read);
  CHECK_FALSE(IpPrefix::parse("::ffff:10.0.0.0/129"));
}

TEST_CASE("what is no prefix is refused") {
  const std::string text = GENERATE("10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1",
                                    "/8", "10.0.0.0/8 ");
  CHECK_FALSE(IpPrefix::parse(text));
}

TEST_CASE("address with port") {
  CHECK(to_string(*IpAddress::parse("10.0.0.1"), 80) == "10.0.0.1:80");
  CHECK(to_string(*IpAddress::parse("fd00::1"), 80) == "[fd00::1]:80");
}

}  // namespace
}  // namespace ipvsproxier::netlink
