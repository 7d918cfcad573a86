// An API server that lists far fewer objects than there were: what goes, and when.

#include <regex>

#include <catch2/catch.hpp>

#include "test/kernel/api_world.h"
#include "test/kernel/kernel_state.h"
#include "test/support/raw_http.h"

namespace ipvsproxier::test {
namespace {

constexpr int kMany = 30;
// The sync period, for which is held what lists lack: what is looked at meanwhile takes a busy
// machine seconds.
constexpr const char* kHeld = "30s";
constexpr std::uint16_t kMetricsPort = 10249;

std::string name_of(int i) {
  return "many-" + std::to_string(i);
}

std::vector<std::string> names_of_many() {
  std::vector<std::string> names;
  for (int i = 0; i < kMany; ++i) names.push_back(name_of(i));
  return names;
}

void put_many(ApiWorld& world) {
  std::vector<ApiService> services;
  for (int i = 0; i < kMany; ++i)
    services.push_back({.name = name_of(i),
                        .address = "10.96.3." + std::to_string(i + 1),
                        .endpoints = {"10.244.3." + std::to_string(i + 1)}});
  world.put_all(services);
  world.check_reached();
}

bool metric_says(const std::string& line) {
  return eventually(
      [&] {
        return http_get(kMetricsPort, "/metrics").body.find(line + "\n") != std::string::npos;
      },
      15'000);
}

TEST_CASE("api: what most of is missing after a restore stays for a sync period", "[brake]") {
  ApiWorld world({.sync_period = kHeld});
  world.follow();
  put_many(world);
  const auto before = world.cluster();
  world.server().stop();
  world.lose(names_of_many(), 150);
  REQUIRE(world.server().resume());
  world.check_told("services: the list lacks 30 of 34; they stay until another list lacks them");
  world.check_told("endpointslices: the list lacks 30 of 34; they stay");
  CHECK(metric_says("ipvsproxier_mass_removal_held{resource=\"services\"} 30"));
  world.check_still(before);
  // What changes meanwhile is done.
  world.put({.name = "new", .address = "10.96.4.1", .endpoints = {"10.244.4.1"}});
  auto with_new = before;
  with_new["new"] = world.cluster().at("new");
  CHECK(eventually([&] {
    world.judge().look();
    return difference(facts_of(with_new), world.judge().seen()).empty();
  }));
  world.check_told("services: nothing that lists lack is kept any more");
  CHECK(metric_says("ipvsproxier_mass_removal_held{resource=\"services\"} 0"));
  world.finish();
}

TEST_CASE("api: with the brake off it goes at once", "[brake]") {
  ApiWorld world({.flags = {"--mass-removal-brake=false"}});
  world.follow();
  put_many(world);
  world.server().stop();
  world.lose(names_of_many(), 150);
  REQUIRE(world.server().resume());
  world.check_told(" new or changed, 30 gone");
  world.finish();
  // How many of the rest are new depends on how far the broken watch had told them.
  const std::regex gone("services: 4 listed; [0-4] new or changed, 30 gone");
  CHECK(std::regex_search(world.daemon().log(), gone));
  CHECK(world.daemon().log().find("they stay until") == std::string::npos);
}

TEST_CASE("api: after a start an empty store takes nothing for a sync period", "[brake]") {
  ApiWorld world({.sync_period = kHeld});
  world.follow();
  put_many(world);
  const auto before = world.cluster();
  REQUIRE(world.daemon().terminate() == 0);
  world.lose(names_of_many(), 150);
  world.restart();
  world.check_told("the first lists ask for 4 of the 34 virtual services that the kernel has");
  world.check_healthy();
  world.check_still(before);
  world.check_told("the first lists were repeated: what these lack is removed");
  world.finish();
}

}  // namespace
}  // namespace ipvsproxier::test
