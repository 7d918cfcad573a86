#include "test/support/random_run.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace ipvsproxier::test {
namespace {

std::vector<int> up_to(int count) {
  std::vector<int> result;
  for (int i = 0; i < count; ++i) result.push_back(i);
  return result;
}

bool has(const std::vector<int>& steps, int step) {
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

TEST_CASE("only the steps that make an input fail are left, in their order") {
  const auto fails = [](const std::vector<int>& steps) { return has(steps, 7) && has(steps, 61); };
  CHECK(shrink(up_to(100), fails) == std::vector<int>{7, 61});
  CHECK(shrink(up_to(1), [](const auto& steps) { return steps.empty() || has(steps, 0); }).empty());
}

TEST_CASE("shrinking ends after so many tries with what it has") {
  int asked = 0;
  const auto fails = [&](const std::vector<int>& steps) {
    ++asked;
    return has(steps, 99);
  };
  const auto left = shrink(up_to(100), fails, 1);
  CHECK(asked == 1);
  CHECK(left.size() == 50);
  CHECK(has(left, 99));
}

}  // namespace
}  // namespace ipvsproxier::test
