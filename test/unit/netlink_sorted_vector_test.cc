#include "netlink/containers/sorted_vector.h"

#include <map>
#include <random>
#include <string>

#include <catch2/catch.hpp>

namespace ipvsproxier::netlink {
namespace {

struct Keyed {
  int key = 0;
  std::string value;

  friend auto operator<=>(const Keyed&, const Keyed&) = default;
};
using Rows = SortedVector<Keyed, &Keyed::key>;

TEST_CASE("a sorted vector with keys is a map") {
  Rows rows;
  std::map<int, std::string> model;
  std::mt19937 random(7);
  for (int step = 0; step < 5000; ++step) {
    const int key = static_cast<int>(random() % 60);
    const auto value = std::to_string(step);
    switch (random() % 3) {
      case 0:
        REQUIRE(rows.insert({key, value}) == model.emplace(key, value).second);
        break;
      case 1:
        rows.insert_or_assign({key, value});
        model.insert_or_assign(key, value);
        break;
      default:
        rows.erase(key);
        model.erase(key);
    }
    REQUIRE(rows.contains(key) == model.contains(key));
    REQUIRE(rows.size() == model.size());
  }
  std::map<int, std::string> found;
  for (const auto& [key, value] : rows) found.emplace(key, value);
  CHECK(found == model);
}

TEST_CASE("a sorted vector is made of any list; of what has one key the last stays") {
  const Rows rows({{3, "a"}, {1, "b"}, {3, "c"}, {2, "d"}, {1, "e"}});
  CHECK(rows == Rows({{1, "e"}, {2, "d"}, {3, "c"}}));
  CHECK(rows.find(2)->value == "d");
  CHECK(rows.find(4) == rows.end());
  CHECK(Rows(std::vector<Keyed>()).empty());
}

TEST_CASE("the difference of sorted vectors") {
  const SortedVector<int> a = {5, 1, 3};
  const SortedVector<int> b = {3, 4};
  CHECK(difference(a, b) == std::vector{1, 5});
  CHECK(difference(b, a) == std::vector{4});
  CHECK(difference(a, a).empty());
}

}  // namespace
}  // namespace ipvsproxier::netlink
