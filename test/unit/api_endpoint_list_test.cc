#include "proxier/api/endpoint_list.h"

#include <random>

#include <catch2/catch.hpp>

#include "test/support/ip.h"

namespace ipvsproxier::api {
namespace {

using test::ip;

class RandomEndpoints {
 public:
  explicit RandomEndpoints(std::uint32_t seed) : random_(seed) {}

  std::vector<Endpoint> list() {
    std::vector<Endpoint> endpoints(number(5));
    for (auto& endpoint : endpoints)
      endpoint = {.address = number(2) == 0 ? ip("10.0.0.7") : ip("fd00::7"),
                  .ready = number(2) == 0,
                  .serving = number(2) == 0,
                  .terminating = number(2) == 0,
                  .node_name = text(),
                  .zone = text(),
                  .target_name = text(),
                  .zone_hints = texts(),
                  .node_hints = texts()};
    return endpoints;
  }

 private:
  std::size_t number(std::size_t below) { return random_() % below; }
  // Lengths about where their own length takes another byte, and any bytes.
  std::string text() {
    constexpr std::size_t kLengths[] = {0, 0, 1, 15, 127, 128, 300, 20'000};
    std::string text(kLengths[number(std::size(kLengths))], ' ');
    for (auto& byte : text) byte = static_cast<char>(random_());
    return text;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> list(number(2) == 0 ? 0 : number(4));
    for (auto& one : list) one = text();
    return list;
  }

  std::mt19937 random_;
};

TEST_CASE("what is put into a list of endpoints comes out of it") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    const auto endpoints = RandomEndpoints(seed).list();
    const EndpointList list(endpoints);
    CHECK(list.size() == endpoints.size());
    CHECK(list.empty() == endpoints.empty());
    REQUIRE(list.unpack() == endpoints);
    CHECK(EndpointList(list.unpack()) == list);
  }
}

TEST_CASE("lists of endpoints are equal where their endpoints are, in their order") {
  const Endpoint a{.address = ip("10.0.0.1"), .node_name = "n1"};
  const Endpoint b{.address = ip("10.0.0.2"), .zone = "n1"};
  CHECK(EndpointList{a, b} == EndpointList{a, b});
  CHECK(EndpointList{a, b} != EndpointList{b, a});
  CHECK(EndpointList{a} != EndpointList{a, a});
  // Where a text stands counts.
  CHECK(EndpointList{{.zone = "n"}} != EndpointList{{.node_name = "n"}});
  CHECK(EndpointList{{.zone_hints = {"n"}}} != EndpointList{{.node_hints = {"n"}}});
  CHECK(EndpointList{{.zone_hints = {"a", "b"}}} != EndpointList{{.zone_hints = {"ab"}}});
}

TEST_CASE("an endpoint costs little more than its texts") {
  EndpointList list;
  for (int i = 0; i < 1000; ++i)
    list.push_back({.address = ip("10.0.0.1"), .node_name = "node-1234", .zone = "zone-1"});
  CHECK(list.bytes().size() == 1000 * (1 + 4 + 10 + 7 + 1));
}

}  // namespace
}  // namespace ipvsproxier::api
