#include <catch2/catch.hpp>

#include "proxier/access/no_proxy.h"

namespace ipvsproxier::access {
namespace {

TEST_CASE("NO_PROXY names hosts and their domains") {
  for (const auto* list : {"*", "api.example.com", "example.com", ".example.com", "*.example.com",
                           "EXAMPLE.com.", "a,b , example.com", "other api.example.com:6443"}) {
    INFO(list);
    CHECK(is_in_no_proxy(list, "api.example.com", "6443"));
  }
  for (const auto* list : {"", ",", ".", "*.", "ample.com", "example.co", "api.example.com.org",
                           "api.example.com:443", "10.0.0.0/8", "example.com/8", "a*"}) {
    INFO(list);
    CHECK_FALSE(is_in_no_proxy(list, "api.example.com", "6443"));
  }
}

TEST_CASE("NO_PROXY names addresses and ranges") {
  CHECK(is_in_no_proxy("10.96.0.1", "10.96.0.1", "443"));
  CHECK(is_in_no_proxy("10.96.0.1:443", "10.96.0.1", "443"));
  CHECK(is_in_no_proxy("localhost,10.0.0.0/8", "10.96.0.1", "443"));
  CHECK_FALSE(is_in_no_proxy("10.96.0.1:6443", "10.96.0.1", "443"));
  CHECK_FALSE(is_in_no_proxy("10.96.0.0/24", "10.96.1.1", "443"));
  CHECK_FALSE(is_in_no_proxy("0.0.1", "10.0.0.1", "443"));
  for (const auto* list : {"fd00::1", "[fd00::1]", "[fd00:0::1]:443", "fd00::/8"}) {
    INFO(list);
    CHECK(is_in_no_proxy(list, "[fd00::1]", "443"));
    CHECK(is_in_no_proxy(list, "fd00::1", "443"));
    CHECK_FALSE(is_in_no_proxy(list, "[fe00::2]", "443"));
  }
  CHECK_FALSE(is_in_no_proxy("[fd00::1]:6443", "[fd00::1]", "443"));
}

}  // namespace
}  // namespace ipvsproxier::access
