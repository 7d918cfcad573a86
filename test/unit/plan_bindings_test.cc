#include "proxier/plan/bindings.h"

#include <catch2/catch.hpp>

#include "proxier/plan/diff.h"
#include "proxier/plan/planner.h"
#include "test/support/cluster_builder.h"
#include "test/support/kernel_model.h"
#include "test/unit/plan_options.h"

namespace ipvsproxier::plan {
namespace {

using netlink::IpAddress;
using test::ip;

IpAddress vip_at(std::uint32_t number) {
  return IpAddress::v4(0x0a600000U + number);
}

Bindings filled(std::size_t first, std::size_t second = 0, std::size_t third = 0) {
  Bindings bindings;
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < first; ++i) bindings.insert({vip_at(next++), 0});
  for (std::size_t i = 0; i < second; ++i) bindings.insert({vip_at(next++), 1});
  for (std::size_t i = 0; i < third; ++i) bindings.insert({vip_at(next++), 2});
  return bindings;
}

std::vector<Place> places_of(Rooms rooms, std::size_t count) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < count; ++i) places.push_back(rooms.next());
  return places;
}

TEST_CASE("links are filled one after another, and freed room is used again") {
  CHECK(places_of({filled(0), Places::all_links}, 2) == std::vector<Place>{0, 0});
  CHECK(places_of({filled(4095), Places::all_links}, 3) == std::vector<Place>{0, 1, 1});
  CHECK(places_of({filled(4096, 1023), Places::all_links}, 3) == std::vector<Place>{1, 2, 2});
  CHECK(places_of({filled(4095, 1022, 1024), Places::all_links}, 5) ==
        std::vector<Place>{0, 1, 1, 3, 3});
  // More than fit, as kube-proxy left them.
  CHECK(places_of({filled(6000), Places::all_links}, 1) == std::vector<Place>{1});
  CHECK(places_of({filled(6000, 1), Places::first_link}, 2) == std::vector<Place>{0, 0});

  const auto many = places_of({filled(0), Places::all_links}, 50'000);
  for (Place place = 1; place < many.back(); ++place)
    CHECK(std::count(many.begin(), many.end(), place) == kFurtherLinkHolds);
  CHECK(many.back() == 45);
}

TEST_CASE("bindings know what is where") {
  Bindings bindings;
  for (const auto place : std::vector<Place>{3, 0, 3}) bindings.insert({vip_at(1), place});
  bindings.insert({vip_at(2), 3});
  CHECK(bindings.places(vip_at(1)) == std::vector<Place>{0, 3});
  CHECK(bindings.count(0) == 1);
  CHECK(bindings.count(3) == 2);
  CHECK(bindings.count(9) == 0);
  CHECK(bindings.addresses() == AddressSet{vip_at(1), vip_at(2)});
  bindings.erase({vip_at(1), 1});
  bindings.erase({vip_at(1), 3});
  bindings.erase({vip_at(1), 3});
  CHECK(bindings.count(3) == 1);
  CHECK(bindings.contains(vip_at(1)));
  bindings.erase({vip_at(1), 0});
  CHECK_FALSE(bindings.contains(vip_at(1)));
}

// A kernel that holds web_service() with its address at these places.
struct World {
  DesiredState desired =
      plan(test::web_with({test::e1()}), test::vector_node(), test::options_v4()).state;
  test::KernelModel kernel = test::KernelModel::empty_for(desired);

  explicit World(const std::vector<Place>& places) {
    kernel.apply(diff(desired, kernel.state));
    kernel.state.addresses.emplace();
    for (const auto place : places) kernel.state.addresses->insert({ip("10.96.0.9"), place});
  }
  std::string changes() const { return to_text(diff(desired, kernel.state)); }
};

TEST_CASE("an address that is bound stays where it is") {
  CHECK(World({0}).changes().empty());
  CHECK(World({5}).changes().empty());
}

TEST_CASE("an address that is bound twice stays on the lower link") {
  CHECK(World({1, 4}).changes() ==
        "remove addresses\n  delete address 10.96.0.9/32 on kube-ipvs4\n");
  World fixed({1, 4});
  fixed.kernel.state.fixed_addresses = {ip("10.96.0.9")};
  CHECK(fixed.changes().empty());
}

TEST_CASE("an address that is no longer wanted leaves all links") {
  World world({1, 4});
  world.desired.addresses.clear();
  CHECK(world.changes() ==
        "remove addresses\n  delete address 10.96.0.9/32 on kube-ipvs1\n"
        "  delete address 10.96.0.9/32 on kube-ipvs4\n");
}

TEST_CASE("as kube-proxy has it, an address on a further link moves, bound all the time") {
  World world({1, 4});
  world.desired.places = Places::first_link;
  CHECK(world.changes() ==
        "add addresses\n  add address 10.96.0.9/32\n"
        "remove addresses\n  delete address 10.96.0.9/32 on kube-ipvs1\n"
        "  delete address 10.96.0.9/32 on kube-ipvs4\n");
  world.kernel.apply(diff(world.desired, world.kernel.state));
  CHECK(world.changes().empty());
  CHECK(world.kernel.violations == 0);
}

TEST_CASE("an address does not move where nothing may be exposed") {
  World world({1});
  world.desired.places = Places::first_link;
  SECTION("virtual services are unknown") {
    world.kernel.state.services.reset();
  }
  SECTION("rules are unknown") {
    world.kernel.state.rules.clear();
  }
  CHECK(world.changes().find("address") == std::string::npos);
}

TEST_CASE("an address moves from links to a local route and back, bound all the time") {
  World world({0, 4});
  world.desired.places = Places::local_table;
  CHECK(world.changes() ==
        "add addresses\n  add local route 10.96.0.9/32\n"
        "remove addresses\n  delete address 10.96.0.9/32\n"
        "  delete address 10.96.0.9/32 on kube-ipvs4\n");
  world.kernel.apply(diff(world.desired, world.kernel.state));
  CHECK(world.changes().empty());
  world.desired.places = GENERATE(Places::first_link, Places::all_links);
  CHECK(world.changes() ==
        "add addresses\n  add address 10.96.0.9/32\n"
        "remove addresses\n  delete local route 10.96.0.9/32\n");
  world.kernel.apply(diff(world.desired, world.kernel.state));
  CHECK(world.changes().empty());
  CHECK(world.kernel.violations == 0);
}

TEST_CASE("what is fixed on a link stays there, its local route does not") {
  World world({0, kLocalTable});
  world.kernel.state.fixed_addresses = {ip("10.96.0.9")};
  CHECK(world.changes() == "remove addresses\n  delete local route 10.96.0.9/32\n");
  world.desired.places = Places::local_table;
  CHECK(world.changes().empty());
  world.desired.addresses.clear();
  CHECK(world.changes() == "remove addresses\n  delete local route 10.96.0.9/32\n");
}

TEST_CASE("a VIP that is new gets a local route where those are asked for") {
  CHECK(places_of({filled(6000), Places::local_table}, 2) ==
        std::vector<Place>{kLocalTable, kLocalTable});
  World world({});
  PlannerOptions options = test::options_v4();
  options.bind_by_routes = true;
  CHECK(plan({}, test::vector_node(), options).state.places == Places::local_table);
  world.desired.places = Places::local_table;
  CHECK(world.changes() == "add addresses\n  add local route 10.96.0.9/32\n");
  CHECK(place_name(kLocalTable) == "table local");
  CHECK(place_name(7) == "kube-ipvs7");
}

}  // namespace
}  // namespace ipvsproxier::plan
