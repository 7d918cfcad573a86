#pragma once

// What every SetTable keeps that lists in parts: the same cases for the fake and for the scratch
// kernel. Worlds are those of set_contract.h; more than 600 elements are more than one part.
//
//   TEST_CASE("...") { test::check_set_parts_contract<World>(); }

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "test/contract/set_contract.h"

namespace ipvsproxier::test {

// The rest of a listing in parts behind the first, which is taken; how many parts there were.
inline std::size_t rest_of_listing(SetTable& table, std::vector<Element>& elements) {
  for (std::size_t parts = 1;; ++parts) {
    const auto part = table.next_list();
    REQUIRE(part);
    elements.insert(elements.end(), part->set.elements.begin(), part->set.elements.end());
    if (part->last) return parts + 1;
  }
}

template <typename World>
void check_set_parts_contract() {
  World world;
  SetTable& table = world.table();
  const SetSpec spec = contract_spec(SetKind::hash_ip_port, Family::ipv4);
  const auto range = [](std::uint32_t first, std::uint32_t end) {
    std::vector<Element> elements;
    for (std::uint32_t i = first; i < end; ++i)
      elements.emplace_back(IpPortElement{contract_ip(Family::ipv4, i), Protocol::tcp, 80});
    return elements;
  };
  const auto put = [&](bool add, const std::vector<Element>& elements) {
    check_all_succeeded(table.apply(spec, contract_ops(add, elements)), elements.size());
  };

  SECTION("a small set is one part, and one that is missing none") {
    require_created(table, spec);
    const auto only = table.begin_list(spec.name);
    REQUIRE(only);
    REQUIRE(only->has_value());
    CHECK((*only)->last);
    CHECK((*only)->set.spec == spec);
    CHECK(table.next_list().error().kind == ErrorKind::busy);
    const auto none = table.begin_list("no-such-set");
    REQUIRE(none);
    CHECK_FALSE(none->has_value());
    CHECK(table.begin_list("").error().kind == ErrorKind::malformed);
  }
  SECTION("what is not touched meanwhile is in it once, though the set grows") {
    require_created(table, spec);
    put(true, range(1, 4001));
    const auto first = table.begin_list(spec.name);
    REQUIRE(first);
    REQUIRE(first->has_value());
    REQUIRE_FALSE((*first)->last);
    CHECK((*first)->set.spec.max_elements == spec.max_elements);
    auto elements = (*first)->set.elements;
    put(true, range(10001, 14001));
    put(false, range(3001, 4001));
    CHECK(contract_listing(table, spec.name).size() ==
          7000);  // another listing does not disturb it
    CHECK(rest_of_listing(table, elements) > 2);
    std::sort(elements.begin(), elements.end());
    const auto untouched = range(1, 3001);
    CHECK(std::vector<Element>(elements.begin(), std::upper_bound(elements.begin(), elements.end(),
                                                                  untouched.back())) == untouched);
  }
  SECTION("a set may be replaced or destroyed while it is listed: that ends the listing") {
    require_created(table, spec);
    put(true, range(1, 4001));
    REQUIRE_FALSE((*table.begin_list(spec.name))->last);
    auto larger = spec;
    larger.max_elements = 2 * spec.max_elements;
    require_created(table, larger);
    CHECK(table.next_list().error().kind == ErrorKind::busy);
    REQUIRE_FALSE((*table.begin_list(spec.name))->last);
    REQUIRE(table.destroy(spec.name));
    CHECK(table.next_list().error().kind == ErrorKind::busy);
  }
  SECTION("a listing that was left begins anew") {
    require_created(table, spec);
    put(true, range(1, 4001));
    REQUIRE_FALSE((*table.begin_list(spec.name))->last);
    auto elements = (*table.begin_list(spec.name))->set.elements;
    rest_of_listing(table, elements);
    std::sort(elements.begin(), elements.end());
    CHECK(elements == range(1, 4001));
  }
}

}  // namespace ipvsproxier::test
