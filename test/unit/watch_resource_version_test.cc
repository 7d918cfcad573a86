#include <string>

#include <catch2/catch.hpp>

#include "proxier/access/transport.h"
#include "proxier/watch/resource_version.h"

namespace ipvsproxier::watch {
namespace {

TEST_CASE("versions are compared as numbers of any length") {
  CHECK(compare_versions("9", "10") == std::strong_ordering::less);
  CHECK(compare_versions("10", "10") == std::strong_ordering::equal);
  CHECK(compare_versions("101", "99") == std::strong_ordering::greater);
  CHECK(compare_versions("99999999999999999999999", "100000000000000000000000") ==
        std::strong_ordering::less);
}

TEST_CASE("what is no number is not compared") {
  for (const auto* odd : {"", "0", "010", "1a", "abc", "-1", "1 "}) {
    INFO(odd);
    CHECK(compare_versions(odd, "5") == std::nullopt);
    CHECK(compare_versions("5", odd) == std::nullopt);
    CHECK_FALSE(is_old(odd, "5"));
    CHECK_FALSE(is_old("5", odd));
  }
}

TEST_CASE("the same version is old, a newer one is not") {
  CHECK(is_old("7", "7"));
  CHECK(is_old("7", "12"));
  CHECK_FALSE(is_old("12", "7"));
}

TEST_CASE("queries are encoded") {
  CHECK(access::encode_query("!service.kubernetes.io/headless") ==
        "%21service.kubernetes.io%2Fheadless");
  CHECK(access::encode_query("eyJ2-_~=&+ ") == "eyJ2-_~%3D%26%2B%20");
  CHECK(access::encode_query("\xc3\xa9") == "%C3%A9");
}

}  // namespace
}  // namespace ipvsproxier::watch
