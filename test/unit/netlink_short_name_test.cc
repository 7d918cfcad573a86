#include "netlink/containers/short_name.h"

#include <catch2/catch.hpp>

namespace ipvsproxier::netlink {
namespace {

TEST_CASE("a short name is its text, up to 15 bytes or a NUL") {
  CHECK(ShortName().view().empty());
  CHECK(ShortName().empty());
  CHECK(ShortName("") == ShortName());
  CHECK(ShortName("rr").view() == "rr");
  CHECK_FALSE(ShortName("rr").empty());
  CHECK(ShortName("abcdefghijklmno").view() == "abcdefghijklmno");
  CHECK(ShortName(std::string("abcdefghijklmnop")).view() == "abcdefghijklmno");
  CHECK(ShortName(std::string_view("a\0b", 3)) == ShortName("a"));
  CHECK(ShortName("rr") != ShortName("r"));
  CHECK(ShortName("r") < ShortName("rr"));
  CHECK(ShortName("mh") == "mh");
}

}  // namespace
}  // namespace ipvsproxier::netlink
