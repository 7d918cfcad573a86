// Changes as they are folded into the cluster's state.

#include "proxier/model/cluster_state.h"

#include <random>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"

namespace ipvsproxier::model {
namespace {

using Names = std::set<api::NamespacedName>;
const api::NamespacedName kShopWeb{"default", "web"};

Changes change_of(api::Object object) {
  Changes changes;
  changes.put(std::move(object));
  return changes;
}

TEST_CASE("an object that is the same as before touches nothing") {
  ClusterState state;
  const auto web = test::web_service();
  const auto slice = test::slice_of(web, 8080, {test::e1()});
  CHECK(state.take(change_of(web)).services == Names{kShopWeb});
  CHECK(state.take(change_of(slice)).services == Names{kShopWeb});
  CHECK(state.take(change_of(web)).services.empty());
  CHECK(state.take(change_of(slice)).services.empty());
  api::Node node;
  node.name = "n1";
  CHECK(state.take(change_of(node)).node);
  CHECK_FALSE(state.take(change_of(node)).node);
}

TEST_CASE("what is deleted touches its Service; what was not there touches nothing") {
  ClusterState state;
  const auto web = test::web_service();
  const auto slice = test::slice_of(web, 8080, {test::e1()});
  state.put(web);
  state.put(slice);
  Changes gone;
  gone.slices[slice.name] = std::nullopt;
  gone.slices[{"default", "other"}] = std::nullopt;
  gone.services[{"default", "other"}] = std::nullopt;
  CHECK(state.take(gone).services == Names{kShopWeb});
  CHECK(state.slices.empty());
  CHECK(state.take(gone).services.empty());
  gone = {};
  gone.services[kShopWeb] = std::nullopt;
  CHECK(state.take(gone).services == Names{kShopWeb});
  CHECK(state.services.empty());
}

using Time = std::chrono::system_clock::time_point;

Time second(int number) {
  return Time(std::chrono::seconds(number));
}

api::EndpointSlice triggered(std::vector<api::Endpoint> endpoints, std::optional<Time> time) {
  auto slice = test::slice_of(test::web_service(), 8080, std::move(endpoints));
  slice.trigger.time = time;
  return slice;
}

TEST_CASE("a slice that really changed tells when the cluster changed") {
  ClusterState state;
  const auto is = [&](const api::EndpointSlice& slice) {
    return state.take(change_of(slice)).triggers;
  };
  CHECK(is(triggered({test::e1()}, second(5))) ==
        std::vector<Trigger>{{kShopWeb, netlink::Family::ipv4, second(5)}});
  CHECK(is(triggered({test::e1()}, second(6))).empty());
  CHECK(is(triggered({test::e2()}, std::nullopt)).empty());
  CHECK(is(triggered({test::e1()}, second(7))) ==
        std::vector<Trigger>{{kShopWeb, netlink::Family::ipv4, second(7)}});
}

TEST_CASE("of several changes of a slice the oldest time stays, and the newest state") {
  const auto [first, later, kept] =
      GENERATE(table<std::optional<Time>, std::optional<Time>, std::optional<Time>>({
          {second(1), second(2), second(1)},
          {second(2), second(1), second(1)},
          {second(1), std::nullopt, second(1)},
          {std::nullopt, second(2), second(2)},
          {std::nullopt, std::nullopt, std::nullopt},
      }));
  auto changes = change_of(triggered({test::e1()}, first));
  changes.merge(change_of(triggered({test::e2()}, later)));
  const auto& slice = changes.slices.begin()->second;
  CHECK(slice->trigger.time == kept);
  CHECK(slice->endpoints == api::EndpointList{test::e2()});

  Changes gone;
  gone.slices[slice->name] = std::nullopt;
  changes.merge(gone);
  CHECK_FALSE(changes.slices.begin()->second);
  changes.merge(change_of(triggered({test::e1()}, later)));
  CHECK(changes.slices.begin()->second->trigger.time == later);
}

TEST_CASE("a slice that changes its Service touches both") {
  ClusterState state;
  auto slice = test::slice_of(test::web_service(), 8080, {test::e1()});
  state.put(slice);
  slice.service = "shop";
  CHECK(state.take(change_of(slice)).services == Names{kShopWeb, {"default", "shop"}});
  CHECK(state.slices.size() == 1);
  slice.service = "";
  CHECK(state.take(change_of(slice)).services == Names{{"default", "shop"}});
  CHECK(state.slices.empty());
}

TEST_CASE("a slice speaks for Services of its own namespace alone") {
  ClusterState state;
  auto slice = test::slice_of(test::web_service(), 8080, {test::e1()});
  slice.name.ns = "elsewhere";
  CHECK(state.take(change_of(slice)).services == Names{{"elsewhere", "web"}});
  CHECK_FALSE(state.slices.contains(kShopWeb));
}

TEST_CASE("slices are found again whatever their names say of their Services") {
  const std::vector<std::string> services = {"", "a", "a-b", "a-b-c", "b", "-"};
  const std::vector<std::string> names = {"a",   "a-", "a-1", "a-b-1", "a-b-c-1",
                                          "b-1", "x",  "-",   "--1"};
  std::mt19937 random(11);
  ClusterState state;
  std::map<std::string, std::string> model;  // slice: Service
  for (int step = 0; step < 20'000; ++step) {
    const auto& name = names[random() % names.size()];
    const auto& service = services[random() % services.size()];
    auto slice =
        test::slice_of(test::web_service(), static_cast<std::uint16_t>(1 + random() % 2), {});
    slice.name = {"ns", name};
    slice.service = service;
    Changes changes;
    auto& change = changes.slices[slice.name];
    if (random() % 3 != 0) change = slice;
    const auto now = change ? service : "";
    const auto before = std::exchange(model[name], now);
    Names touched = state.take(changes).services;
    if (before != now) {
      Names expected;
      for (const auto& one : {before, now})
        if (!one.empty()) expected.insert({"ns", one});
      REQUIRE(touched == expected);
    }
    std::map<std::string, std::string> found;
    for (const auto& [owner, slices] : state.slices) {
      REQUIRE_FALSE(slices.empty());
      for (const auto& one : slices) REQUIRE(found.emplace(one.name.name, owner.name).second);
    }
    auto wanted = model;
    std::erase_if(wanted, [](const auto& entry) { return entry.second.empty(); });
    REQUIRE(found == wanted);
  }
}

TEST_CASE("of changes of one object the last counts") {
  auto changes = change_of(test::web_service());
  Changes later;
  later.services[kShopWeb] = std::nullopt;
  later.complete = true;
  changes.merge(later);
  REQUIRE(changes.services.at(kShopWeb) == std::nullopt);
  auto web = test::web_service();
  web.ports[0].port = 81;
  changes.merge(change_of(web));
  CHECK(changes.services.at(kShopWeb)->ports[0].port == 81);
  CHECK(changes.complete == true);
  CHECK_FALSE(changes.empty());
  CHECK(Changes{}.empty());
  CHECK_FALSE(changes.listed_again);
  changes.merge({.listed_again = true});
  changes.merge(change_of(web));
  CHECK(changes.listed_again);
  CHECK_FALSE(Changes{.listed_again = true}.empty());
}

}  // namespace
}  // namespace ipvsproxier::model
