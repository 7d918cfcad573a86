#include <sys/resource.h>

#include <algorithm>

#include <catch2/catch.hpp>

#include "cmd/ipvs_proxier/process.h"

namespace ipvsproxier::cmd {
namespace {

rlimit descriptors() {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  return limit;
}

TEST_CASE("the limit of open descriptors is raised to the hard one") {
  const auto before = descriptors();
  REQUIRE(before.rlim_max > 512);
  auto low = before;
  low.rlim_cur = 256;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  CHECK(raise_descriptor_limit().has_value());
  CHECK(descriptors().rlim_cur == std::min<rlim_t>(before.rlim_max, kMostDescriptors));
  CHECK(descriptors().rlim_max == before.rlim_max);
  CHECK(raise_descriptor_limit().has_value());
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}

}  // namespace
}  // namespace ipvsproxier::cmd
