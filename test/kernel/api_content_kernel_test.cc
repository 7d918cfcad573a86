// The daemon and a server that says strange things: old news, news twice, nothing, nonsense.

#include <chrono>

#include <catch2/catch.hpp>

#include "test/kernel/api_world.h"
#include "test/support/api_server/objects.h"

namespace ipvsproxier::test {
namespace {

using Asks = std::vector<std::string>;

constexpr std::array kTold{Resource::services, Resource::endpoint_slices};

void tell_all(ApiWorld& world, const Faults& faults) {
  for (const auto resource : kResources) world.server().set_faults(resource, faults);
}

TEST_CASE("api: a server that has not caught up yet is asked again when it says", "[content]") {
  ApiWorld world;
  world.follow();
  tell_all(world, {.answers = {{.code = 504,
                                .reason = "Timeout",
                                .message = "Timeout: Too large resource version: 300, current: 200",
                                .retry_after_seconds = 1,
                                .times = 1,
                                .asked = Asked::watches}},
                   .bookmarks_only = true});
  world.disturb();
  world.server().end_watches();
  for (const auto resource : kTold) {
    REQUIRE(world.was_asked(resource, 2));
    CHECK(world.asked(resource).front().ends_with(" -> 504"));
  }
  world.check_told("Too large resource version: 300, current: 200; again in 1.");
  world.check_still(small_cluster());
  world.server().clear_faults();
  world.finish();
}

// Levels of managedFields: an API server of Kubernetes 1.36 stores 10,000.
std::string nested_fields(int levels) {
  std::string fields;
  for (int i = 0; i < levels; ++i) fields += R"({"f:a":)";
  return fields + "{}" + std::string(static_cast<std::size_t>(levels), '}');
}

TEST_CASE("api: whatever one tenant writes, everybody else's Services are done", "[content]") {
  ApiWorld world;
  world.follow();
  const std::vector<std::string> endpoints{"10.244.3.1"};
  world.put_raw({.name = "deep", .address = "10.96.2.1", .endpoints = endpoints},
                nested_fields(155));
  world.put_raw({.name = "deeper", .address = "10.96.2.2", .endpoints = endpoints},
                nested_fields(9'990));
  world.put_raw({.name = "bytes", .address = "10.96.2.3", .endpoints = endpoints},
                "{\"f:\xff\":{}}");
  // Of this one nothing can be made: it stays as it was.
  world.put_raw(world.cluster().at("web"), "{]");
  world.put({.name = "after", .address = "10.96.2.4", .endpoints = endpoints});
  world.check_reached();
  world.check_told("services: Service default/web: is no JSON: ");
  CHECK(world.asked(Resource::services).empty());
  world.check_right();

  REQUIRE(world.daemon().terminate() == 0);
  world.put({.name = "unseen", .address = "10.96.2.5", .endpoints = endpoints});
  world.restart();
  world.check_told("objects that cannot be read: 1; 1 virtual services and 0 real servers");
  world.check_told("synced: ");
  world.check_reached();
  world.check_healthy();
  world.check_right();
  world.remove("after");
  world.put({.name = "later", .address = "10.96.2.6", .endpoints = endpoints});
  world.check_reached();
  auto web = world.cluster().at("web");
  web.endpoints = {"10.244.1.99"};
  world.put(web);
  world.check_reached();
  world.finish();
}

// Versions and objects are older than those that the daemon knows, and true.
TEST_CASE("api: a server that was restored from a backup is listed anew", "[content]") {
  ApiWorld world;
  world.follow();
  for (int i = 0; i < 3; ++i) world.disturb();
  world.check_reached();
  world.server().clear_requests();
  world.server().stop();
  world.disturb();
  world.restore(150);
  REQUIRE(world.server().version() < 200);
  REQUIRE(world.server().resume());
  world.check_told("services: " + world.server().url() + ": the server went back from version ");
  world.check_reached(60'000);
  CHECK(world.asked(Resource::services) == Asks{"stream"});
  world.disturb();
  world.finish();
}

TEST_CASE("api: events that come twice are done once", "[content]") {
  ApiWorld world;
  world.follow();
  tell_all(world, {.duplicate = true});
  for (int i = 0; i < 3; ++i) world.disturb();
  world.check_reached();
  CHECK(world.asked(Resource::services).empty());
  world.finish();
}

TEST_CASE("api: events that come last first end in the newest state", "[content]") {
  ApiWorld world;
  world.follow();
  const auto before = world.cluster();
  tell_all(world, {.bookmarks_only = true});
  // Its removal is told last, the Service that came after it first.
  const auto steady = world.cluster().at("steady");
  world.remove("steady");
  world.put({.name = "steady", .address = "10.96.0.21", .endpoints = steady.endpoints});
  auto web = world.cluster().at("web");
  for (const auto* endpoint : {"10.244.1.31", "10.244.1.32", "10.244.1.33"}) {
    web.endpoints = {endpoint};
    world.put(web);
  }
  world.disturb();
  world.disturb();
  world.check_still(before);
  tell_all(world, {.reorder = true});
  world.check_reached();
  CHECK(world.asked(Resource::services).empty());
  CHECK(world.asked(Resource::endpoint_slices).empty());
  world.finish();
}

TEST_CASE("api: where there are only bookmarks the next watch begins at the last of them",
          "[content]") {
  ApiWorld world;
  world.follow();
  tell_all(world, {.bookmarks_only = true});
  world.disturb();
  world.disturb();
  for (const auto resource : kResources) world.server().send_bookmark(resource);
  world.check_still(small_cluster());
  world.server().end_watches();
  for (const auto resource : kResources) REQUIRE(world.was_asked(resource, 1));
  CHECK(world.asked(Resource::nodes) == Asks{"watch " + std::to_string(world.server().version())});
  world.check_still(small_cluster());
  world.server().clear_faults();
  world.check_reached();
  for (const auto resource : kTold) CHECK(world.only_watched(resource));
  world.finish();
}

TEST_CASE("api: an event that is no JSON costs its object alone", "[content]") {
  ApiWorld world;
  world.follow();
  tell_all(world, {.malformed = true});
  world.disturb();
  for (const auto* kind : {"services: Service default/extra-1: is no JSON",
                           "endpointslices: EndpointSlice default/web-"})
    world.check_told(kind);
  for (const auto resource : kTold) CHECK(world.asked(resource).empty());
  // What they became is known with the next list, or when they change again.
  world.server().clear_faults();
  world.server().expire_watches();
  world.disturb();
  world.check_reached();
  // Words that are no event at all.
  world.server().clear_requests();
  world.server().send_raw(Resource::services, "<html>busy</html>\n");
  REQUIRE(world.was_asked(Resource::services, 1));
  world.disturb();
  world.check_reached();
  CHECK(world.only_watched(Resource::services));
  world.finish();
}

TEST_CASE("api: an object that makes no sense stays as it was, and is named", "[content]") {
  ApiWorld world;
  world.follow();
  world.server().send_raw(
      Resource::services,
      R"({"type":"MODIFIED","object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"web",)"
      R"("namespace":"default","resourceVersion":"900"},"spec":{"clusterIP":"10.96.0.10",)"
      R"("clusterIPs":["10.96.0.10"],"ports":[{"port":"eighty"}]}}})"
      "\n");
  world.check_told("default/web");
  world.check_told("it stays as it was");
  world.check_still(small_cluster());
  CHECK(world.asked(Resource::services).empty());
  world.finish();
}

}  // namespace
}  // namespace ipvsproxier::test
