#include "ipset/sets/printable_name.h"

#include <string_view>

#include <catch2/catch.hpp>

namespace ipvsproxier::ipset {
namespace {

TEST_CASE("a name in an error is one line without escapes of a terminal") {
  CHECK(printable_name("ip kube-ipvs vips") == "ip kube-ipvs vips");
  CHECK(printable_name("a\nb\x1b[2J\x7f") == R"(a\x0ab\x1b[2J\x7f)");
  CHECK(printable_name("\u009b") == R"(\xc2\x9b)");
  CHECK(printable_name(std::string_view("a\0", 2)) == R"(a\x00)");
  CHECK(printable_name("").empty());
}

}  // namespace
}  // namespace ipvsproxier::ipset
