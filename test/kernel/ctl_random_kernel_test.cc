#include <algorithm>
#include <cstddef>
#include <random>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>

#include "test/kernel/ctl_compare.h"
#include "test/kernel/ctl_states.h"
#include "test/support/random_run.h"

namespace ipvsproxier::test {
namespace {

template <typename T>
const T& any_of(std::mt19937& random, const std::vector<T>& all) {
  return all[random() % all.size()];
}

std::multiset<std::string> sorted_lines(const std::string& text) {
  std::istringstream in(text);
  std::multiset<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.insert(line);
  return lines;
}

TEST_CASE("kernel: ipvsctl and ipvsadm print the same of random tables") {
  const auto states = static_cast<int>(seeds(200));
  constexpr int kRestoredEvery = 10;
  const CtlWorld world;
  std::mt19937 random(Catch::rngSeed());
  std::size_t lines = 0;
  for (int state = 0; state < states; ++state) {
    const bool restored = state % kRestoredEvery == 0;
    const auto table = random_table(random, !restored);
    INFO("state " << state << ":\n" << table);
    restore_table(table);
    send_traffic(random);
    const auto text = check_same({"-Ln", "list --ipvsadm"});
    lines += static_cast<std::size_t>(std::ranges::count(text, '\n'));
    check_same(any_of(random, table_options()));
    check_same(any_of(random, table_options()));
    if (state % 4 == 0) check_same(any_of(random, connection_options()));
    if (restored) {
      const auto saved = check_same({"-S -n", "list -o save"});
      restore_table(ctl({"list", "-o", "save"}).out);
      // The kernel may keep the entries in another order, and ipvsadm's is made of that.
      CHECK(sorted_lines(shell("ipvsadm -S -n")) == sorted_lines(saved));
    }
  }
  // Most of what was asked for was taken.
  CHECK(lines > 20 * static_cast<std::size_t>(states));
}

}  // namespace
}  // namespace ipvsproxier::test
