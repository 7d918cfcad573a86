#include <catch2/catch.hpp>

#include "proxier/loop/backoff.h"

namespace ipvsproxier::loop {
namespace {

using std::chrono::milliseconds;

TEST_CASE("a back-off doubles up to its most") {
  const Backoff backoff{.first = milliseconds(500), .most = milliseconds(30'000)};
  CHECK(backoff.delay(1, 0) == milliseconds(500));
  CHECK(backoff.delay(2, 0) == milliseconds(1'000));
  CHECK(backoff.delay(6, 0) == milliseconds(16'000));
  CHECK(backoff.delay(7, 0) == milliseconds(30'000));
  CHECK(backoff.delay(4'000'000'000U, 0) == milliseconds(30'000));
}

TEST_CASE("a first delay above the most is the most") {
  CHECK(Backoff{.first = milliseconds(9), .most = milliseconds(5)}.delay(1, 0) == milliseconds(5));
}

TEST_CASE("jitter takes at most a quarter off") {
  const Backoff backoff{.first = milliseconds(1'000), .most = milliseconds(4'000)};
  CHECK(backoff.delay(1, 0.5) == milliseconds(875));
  CHECK(backoff.delay(3, 0.999) == milliseconds(3'001));
  CHECK(backoff.delay(9, 0.999) == milliseconds(3'001));
}

}  // namespace
}  // namespace ipvsproxier::loop
