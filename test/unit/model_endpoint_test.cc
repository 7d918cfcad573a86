// kube-proxy's model of EndpointSlices (docs/kube-proxy.md, section 8).

#include "proxier/model/endpoint.h"

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"

namespace ipvsproxier::model {
namespace {

using netlink::Family;
using netlink::Protocol;
using test::endpoint;

SlicesByName named(std::vector<api::EndpointSlice> slices) {
  SlicesByName result;
  for (auto& slice : slices) result.insert(slice);
  return result;
}

std::vector<std::string> keys(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> result;
  for (const auto& one : endpoints) result.push_back(to_string(one.key));
  return result;
}

TEST_CASE("slices of a Service join by port name and protocol") {
  const auto service = test::web_service();
  auto a = test::slice_of(service, 8080, {endpoint("10.244.1.4", "n2")}, "a");
  auto b = test::slice_of(service, 8080, {endpoint("10.244.0.3", "n1")}, "b");
  b.ports.push_back({"metrics", Protocol::tcp, 9090});
  const auto slices = named({a, b});
  const auto result = endpoints_of(service.name, slices, Family::ipv4, "n1", "z1");
  REQUIRE(result.size() == 2);
  const auto& main = result.at({service.name, "", Protocol::tcp});
  CHECK(keys(main) == std::vector<std::string>{"10.244.0.3:8080", "10.244.1.4:8080"});
  CHECK(main[0].local);
  CHECK_FALSE(main[1].local);
  CHECK(keys(result.at({service.name, "metrics", Protocol::tcp})) ==
        std::vector<std::string>{"10.244.0.3:9090"});
}

TEST_CASE("slices of the other family are left out, and ports without endpoints") {
  const auto service = test::web_service();
  const auto slices = named({test::slice_of(service, 80, {endpoint("fd00::1", "n1")}, "a"),
                             test::slice_of(service, 80, {}, "b")});
  CHECK(endpoints_of(service.name, slices, Family::ipv4, "n1", "z1").empty());
  CHECK(endpoints_of(service.name, slices, Family::ipv6, "n1", "z1").size() == 1);
}

// The endpoint that is left of these, which have one address: all in one slice, or each in its own.
Endpoint settled(const std::vector<api::Endpoint>& twins, bool in_one_slice,
                 Duplicates duplicates = Duplicates::ready_wins) {
  const auto service = test::web_service();
  std::vector<api::EndpointSlice> slices;
  if (in_one_slice)
    slices.push_back(test::slice_of(service, 80, twins, "a"));
  else
    for (const auto& twin : twins)
      slices.push_back(test::slice_of(service, 80, {twin}, fmt::format("s{}", slices.size())));
  const auto result =
      endpoints_of(service.name, named(slices), Family::ipv4, "n1", "z1", nullptr, duplicates);
  const auto& list = result.begin()->second;
  REQUIRE(list.size() == 1);
  return list[0];
}

// One that is ready, not ready, or ending: it is not ready and still serves.
api::Endpoint twin(bool ready, bool terminating = false) {
  auto result = endpoint("10.244.0.3", "n1");
  result.ready = ready;
  result.serving = ready || terminating;
  result.terminating = terminating;
  return result;
}

TEST_CASE("of duplicates the one that is ready wins, in any order, in one slice or in several") {
  const bool in_one_slice = GENERATE(true, false);
  for (const auto& other : {twin(false), twin(false, true)}) {
    for (const auto& twins : {std::vector{twin(true), other}, std::vector{other, twin(true)},
                              std::vector{other, twin(true), other}}) {
      const auto left = settled(twins, in_one_slice);
      CHECK(left.ready);
      CHECK_FALSE(left.terminating);
    }
  }
}

TEST_CASE("of duplicates that are equally ready the later one wins unless it is terminating") {
  const bool in_one_slice = GENERATE(true, false);
  CHECK_FALSE(settled({twin(false, true), twin(false)}, in_one_slice).terminating);
  CHECK_FALSE(settled({twin(false), twin(false, true)}, in_one_slice).terminating);
  auto elsewhere = twin(true);
  elsewhere.node_name = "n2";
  CHECK_FALSE(settled({twin(true), elsewhere}, in_one_slice).local);
  elsewhere.terminating = true;
  CHECK(settled({twin(true), elsewhere}, in_one_slice).local);
}

TEST_CASE("as in kube-proxy the later duplicate wins unless it is terminating") {
  const bool in_one_slice = GENERATE(true, false);
  const auto ready = [&](const std::vector<api::Endpoint>& twins) {
    return settled(twins, in_one_slice, Duplicates::later_wins).ready;
  };
  CHECK_FALSE(ready({twin(true), twin(false)}));
  CHECK(ready({twin(false), twin(true)}));
  CHECK(ready({twin(true), twin(false, true)}));
}

TEST_CASE("hints of an endpoint are for this node and its zone, or for others") {
  const auto service = test::web_service();
  auto one = endpoint("10.244.0.3", "n1");
  const auto hint_in = [&](std::string_view zone) {
    const auto slices = named({test::slice_of(service, 80, {one}, "a")});
    const auto found = endpoints_of(service.name, slices, Family::ipv4, "n1", zone);
    return std::pair(found.begin()->second[0].node_hint, found.begin()->second[0].zone_hint);
  };
  CHECK(hint_in("z1") == std::pair(Hint::none, Hint::none));
  one.zone_hints = {"z2", "z1"};
  CHECK(hint_in("z1") == std::pair(Hint::none, Hint::ours));
  CHECK(hint_in("z3") == std::pair(Hint::none, Hint::others));
  CHECK(hint_in("") == std::pair(Hint::none, Hint::others));
  one.node_hints = {"n2"};
  CHECK(hint_in("z2") == std::pair(Hint::others, Hint::ours));
  one.node_hints.push_back("n1");
  CHECK(hint_in("z2") == std::pair(Hint::ours, Hint::ours));
}

TEST_CASE("a slice without a Service belongs to nobody") {
  auto slice = test::slice_of(test::web_service(), 80, {endpoint("10.244.0.3", "n1")});
  slice.service.clear();
  CHECK(test::cluster_of({slice}).slices.empty());
}

TEST_CASE(
    "ports times endpoints of one Service's slices have a bound: what is beyond is left out") {
  const auto service = test::web_service();
  const auto slice = [&](const std::string& name, std::size_t ports, std::size_t endpoints) {
    auto result = test::slice_of(service, 1, {}, name);
    result.ports.clear();
    for (std::size_t i = 1; i <= ports; ++i)
      result.ports.push_back({fmt::format("p{}", i), Protocol::tcp, static_cast<std::uint16_t>(i)});
    for (std::size_t i = 0; i < endpoints; ++i)
      result.endpoints.push_back(
          endpoint(fmt::format("10.{}.{}.{}", name == "c" ? 1 : 0, i / 256, i % 256), "n1"));
    return result;
  };
  const auto slices = named({slice("a", 2000, 100), slice("b", 10'000, 1000), slice("c", 1, 50)});
  CHECK(count_endpoints(slices, Family::ipv4) == 200'000 + 10'000'000 + 50);
  const auto found = endpoints_of(service.name, slices, Family::ipv4, "n1", "z1");
  CHECK(found.size() == 2000);
  CHECK(found.at({service.name, "p1", Protocol::tcp}).size() == 150);
  CHECK(found.at({service.name, "p2000", Protocol::tcp}).size() == 100);
}

}  // namespace
}  // namespace ipvsproxier::model
