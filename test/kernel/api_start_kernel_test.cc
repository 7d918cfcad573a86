// The daemon's start while the server misbehaves: until every first list is complete, the kernel
// stays as it was found.

#include <chrono>

#include <catch2/catch.hpp>

#include "test/kernel/api_world.h"
#include "test/kernel/kernel_state.h"
#include "test/support/api_server/objects.h"
#include "test/support/paths.h"
#include "test/support/raw_http.h"

namespace ipvsproxier::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint16_t kHealth = 10256;

struct FirstListFault {
  const char* what;
  Faults faults;
  std::string told;      // by the daemon
  std::size_t requests;  // that are answered at least while the fault lasts
};

const FirstListFault kFirstListFaults[] = {
    {"broken off", {.cut_after = 900}, "; again in ", 2},
    {"refused", {.answers = {{.code = 500, .message = "etcd is gone"}}}, "etcd is gone", 2},
    {"sent away",
     {.answers = {{.code = 429, .message = "slow down", .retry_after_seconds = 1}}},
     "slow down; again in 1.",
     2},
    {"forbidden", {.answers = {{.code = 403, .message = "who are you"}}}, "who are you", 2},
    {"trickling", {.bytes_per_second = 20}, "nodes: 1 listed", 1},
    {"silent", {.silent = true}, "nodes: 1 listed", 1},
    {"without an answer", {.silent_answer = true}, "nodes: 1 listed", 0},
};

// Of what the kernel has when the daemon starts.
void check_untouched(ApiWorld& world, const Facts& before) {
  const auto until = Clock::now() + std::chrono::seconds(1);
  while (Clock::now() < until) world.judge().look();
  CHECK(difference(before, world.judge().seen()) == "");
  CHECK(world.judge().verdict() == "");
  CHECK(world.daemon().runs());
  CHECK(http_get(kHealth, "/healthz").status == 503);
}

TEST_CASE("api: an empty kernel stays empty until every first list is complete", "[start]") {
  ApiWorld world;
  const auto& fault = kFirstListFaults[GENERATE(0, 4)];
  INFO(fault.what);
  world.server().set_faults(Resource::endpoint_slices, fault.faults);
  world.daemon().start();
  world.check_told(fault.told);
  world.check_told("services: 4 listed");
  REQUIRE(world.was_asked(Resource::endpoint_slices, fault.requests));
  check_untouched(world, {});
  world.server().clear_faults();
  world.follow_on();
  world.finish();
}

TEST_CASE("api: what an earlier daemon left stays until every first list is complete", "[start]") {
  ApiWorld world;
  world.follow();
  for (const auto& fault : kFirstListFaults) {
    INFO(fault.what);
    REQUIRE(world.daemon().terminate() == 0);
    const auto before = facts_of(world.cluster());
    world.disturb();
    world.server().set_faults(Resource::endpoint_slices, fault.faults);
    world.restart();
    world.check_told(fault.told);
    world.check_told("services: 5 listed");
    REQUIRE(world.was_asked(Resource::endpoint_slices, fault.requests));
    check_untouched(world, before);
    world.server().clear_faults();
    world.check_reached(60'000);
  }
  world.finish();
}

TEST_CASE("api: ipvsctl status tells of a watch that is refused, and of the kernel", "[start]") {
  ApiWorld world;
  const auto status = [&] { return shell(ipvsctl_word() + " status 2>&1; echo status $?"); };
  const auto tells = [&](const std::string& text) {
    return [&, text] { return status().find(text) != std::string::npos; };
  };
  CHECK(tells("status 2")());
  CHECK(tells("this kernel      Linux ")());
  world.server().set_faults(Resource::endpoint_slices,
                            {.answers = {{.code = 403, .message = "who?"}}});
  // What a proxy in between says need not be UTF-8.
  world.server().set_faults(
      Resource::nodes,
      {.answers = {{.code = 502, .message = "no M\xfcnchen\xc2\x9b", .plain_text = true}}});
  world.daemon().start();
  CHECK(eventually(tells("; it is tried again: ")));
  CHECK(eventually(tells("no M\xef\xbf\xbdnchen\\u009b")));
  INFO(status());
  CHECK(tells("who?")());
  world.check_told("no M\\xfcnchen\\u009b");
  CHECK(tells("status 1")());
  world.server().clear_faults();
  world.follow_on();
  CHECK(eventually(tells("status 0")));
  CHECK(tells("IPVS 1.2.1, ")());
  CHECK(tells("\nschedulers       rr")());
  world.finish();
}

TEST_CASE("api: --check names Nodes that look alike, and Services with addresses of Nodes",
          "[start]") {
  ApiWorld world({.flags = {"--check"}});
  const auto checked = [&] {
    world.daemon().mark();
    world.daemon().start();
    world.daemon().wait_for_end();
    return world.daemon().log();
  };
  const auto outside = [](std::string service, const std::string& address) {
    const std::string place = R"("type":)";
    return service.insert(service.find(place), R"("externalIPs":[")" + address + R"("],)");
  };
  REQUIRE(world.server().put_all(
      {make_node("n2", "203.0.113.9"),
       outside(make_service("shop", "own", "10.96.0.80"), "203.0.113.8"),
       outside(make_service("shop", "of-n2", "10.96.0.81"), "203.0.113.9")}));
  auto log = checked();
  INFO(log);
  CHECK(log.find("limit   Service shop/of-n2: it asks for addresses of other Nodes (203.0.113.9 of "
                 "Node n2)") != std::string::npos);
  CHECK(log.find("Service shop/own") == std::string::npos);
  CHECK(log.find("no Node") == std::string::npos);
  CHECK(log.find("6 of 6 questions answered") != std::string::npos);

  REQUIRE(world.server().remove(Resource::nodes, "n1"));
  REQUIRE(world.server().put(make_node("N1.example.internal", "203.0.113.7")));
  log = checked();
  CHECK(log.find("no Node n1: ") != std::string::npos);
  CHECK(log.find("alike: N1.example.internal") != std::string::npos);

  // Whoever writes large Services does not make the check fail for others.
  for (int i = 0; i < 20; ++i)
    REQUIRE(world.server().put(
        inflate(make_service("large", "s" + std::to_string(i), "10.96.9." + std::to_string(i + 1)),
                std::size_t{1} << 20U)));
  log = checked();
  INFO(log);
  // Either it is larger than what is read, or it takes too long on a slow machine.
  CHECK(log.find("note    not read: list some Services: ") != std::string::npos);
  CHECK(log.find("API server: list") == std::string::npos);
}

// As an API server answers for a group that it does not have.
const Faults kAbsent{
    .answers = {{.code = 404, .message = "404 page not found\n", .plain_text = true}}};

std::size_t times_told(ApiWorld& world, const std::string& text) {
  std::size_t times = 0;
  const auto log = world.daemon().log();
  for (auto at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++times;
  return times;
}

TEST_CASE("api: EndpointSlices that a server does not have are one problem, until it has them",
          "[start]") {
  ApiWorld world;
  const std::string problem = world.server().url() +
                              ": the server has no EndpointSlice of discovery.k8s.io/v1: it "
                              "answered 404";
  world.follow();
  // An upgrade takes them away under the daemon: Services go on.
  world.server().set_faults(Resource::endpoint_slices, kAbsent);
  world.server().end_watches();
  world.check_told(problem);
  world.put({.name = "alone", .address = "10.96.0.77", .endpoints = {}});
  world.check_reached();
  REQUIRE(world.was_asked(Resource::endpoint_slices, 4));
  CHECK(shell(ipvsctl_word() + " status; true").find(problem) != std::string::npos);
  CHECK(times_told(world, problem) == 1);

  // A daemon that starts has nothing else to go by: all stays as it was.
  REQUIRE(world.daemon().terminate() == 0);
  const auto before = facts_of(world.cluster());
  world.disturb();
  world.restart();
  world.check_told(problem);
  world.check_told("services: 6 listed");
  check_untouched(world, before);
  world.server().clear_faults();
  world.check_reached(60'000);
  world.finish();
}

// By pages as well, where the server has no streaming lists.
TEST_CASE("api: a first list by pages that breaks off is nothing", "[start]") {
  ApiWorld world({.server = {.streaming_lists = false}});
  world.server().set_faults(Resource::services, {.cut_after = 900});
  world.daemon().start();
  world.check_told("endpointslices: 4 listed");
  REQUIRE(world.was_asked(Resource::services, 3));
  CHECK(world.asked(Resource::services).at(0) == "stream -> 422");
  CHECK(world.asked(Resource::services).at(1) == "page");
  check_untouched(world, {});
  world.server().clear_faults();
  world.follow_on();
  world.disturb();
  world.finish();
}

// A minute, by the daemon's clock.
TEST_CASE("api: a first list without a word for a minute is asked for on a new connection",
          "[start]") {
  ApiWorld world;
  world.server().set_faults(Resource::services, {.silent = true});
  world.daemon().start();
  REQUIRE(world.was_asked(Resource::services, 2, 90'000));
  world.check_told("services: " + world.server().url() + ": the server says nothing");
  check_untouched(world, {});
  world.server().clear_faults();
  world.follow_on();
  world.finish();
}

}  // namespace
}  // namespace ipvsproxier::test
