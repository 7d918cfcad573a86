// The daemon and a server that ends watches, refuses requests, or is not who it should be.

#include <chrono>
#include <fstream>

#include <catch2/catch.hpp>

#include "test/kernel/api_world.h"
#include "test/kernel/netlink_tap.h"
#include "test/support/api_server/certificates.h"

namespace ipvsproxier::test {
namespace {

using Clock = std::chrono::steady_clock;
using Asks = std::vector<std::string>;

constexpr std::array kObjects{Resource::services, Resource::endpoint_slices};

void end_watches(ApiWorld& world) {
  world.server().end_watches();
}

// Of the watches that are asked for later. Events stay held back until the faults are cleared.
void refuse(ApiWorld& world, FaultAnswer answer) {
  answer.asked = Asked::watches;
  for (const auto resource : kResources)
    world.server().set_faults(resource, {.answers = {answer}, .bookmarks_only = true});
}

// What the daemon asks for is the last version that it saw.
std::string watch_from(const ApiWorld& world, Resource resource) {
  const auto asks = world.asked(resource);
  REQUIRE_FALSE(asks.empty());
  return asks.front().substr(0, asks.front().find(" ->"));
}

TEST_CASE("api: a watch that ends is followed by the next, without a list and without a word",
          "[answers]") {
  ApiWorld world;
  world.follow();
  for (int i = 0; i < 2; ++i) {
    world.disturb();
    end_watches(world);
    world.disturb();
    world.check_reached();
  }
  for (const auto resource : kResources) CHECK(world.only_watched(resource));
  CHECK_FALSE(world.daemon().logs("again in", 0));
  world.finish();
}

TEST_CASE("api: an expired version makes a new list, whose difference is what is done",
          "[answers]") {
  ApiWorld world;
  world.follow();
  // What happens meanwhile is not told: the list must find it.
  SECTION("410 as status") {
    refuse(world, {.code = 410, .reason = "Expired", .message = "too old", .times = 1});
    world.disturb();
    world.disturb();
    world.server().compact();
    end_watches(world);
    for (const auto resource : kObjects) {
      REQUIRE(world.was_asked(resource, 2));
      const auto first = watch_from(world, resource);
      CHECK(world.asked(resource) == Asks{first + " -> 410", "stream"});
    }
    world.check_told("410 Expired: too old; going on at once");
  }
  SECTION("410 as event") {
    for (const auto resource : kResources)
      world.server().set_faults(resource, {.bookmarks_only = true});
    world.disturb();
    world.disturb();
    world.server().compact();
    world.server().expire_watches();
    for (const auto resource : kObjects) {
      REQUIRE(world.was_asked(resource, 1));
      CHECK(world.asked(resource) == Asks{"stream"});
    }
    world.check_told("the watch ended with 410 Expired");
  }
  // While events are still held back.
  world.check_reached();
  world.server().clear_faults();
  world.disturb();
  world.finish();
}

TEST_CASE("api: a list that says what is known already writes nothing", "[answers]") {
  ApiWorld world;
  world.follow();
  NetlinkTap tap(world.netns());
  world.server().compact();
  world.server().expire_watches();
  for (const auto* told : {"services: 4 listed; 0 new or changed, 0 gone",
                           "endpointslices: 4 listed; 0 new or changed, 0 gone",
                           "nodes: 1 listed; 0 new or changed, 0 gone"})
    world.check_told(told);
  world.judge().look(20);
  CHECK(tap.take() == WriteRequests{});
  world.put({.name = "late", .address = "10.96.0.99", .endpoints = {"10.244.1.99"}});
  world.check_reached();
  // A virtual service and its real server, the address, an element in two sets.
  const auto writes = tap.take();
  CHECK(writes.ipvs == 2);
  CHECK(writes.links == 1);
  CHECK(writes.sets == 2);
  world.finish();
}

// As behind kubectl proxy: each watch has a connection of its own.
TEST_CASE("api: without TLS everything is followed as well", "[answers]") {
  ApiWorld world({.plain = true});
  world.follow();
  world.disturb();
  world.check_reached();
  CHECK(world.server().connections() >= kResources.size());
  world.finish();
}

TEST_CASE("api: 429 is asked again when Retry-After is over, not before", "[answers]") {
  ApiWorld world;
  world.follow();
  refuse(world, {.code = 429, .message = "slow down", .retry_after_seconds = 2, .times = 1});
  world.disturb();
  const auto begin = Clock::now();
  end_watches(world);
  for (const auto resource : kResources) REQUIRE(world.was_asked(resource, 2));
  CHECK(Clock::now() - begin >= std::chrono::seconds(2));
  world.check_told("services: " + world.server().url() +
                   ": the server answered 429 TooManyRequests: slow down; again in 2.");
  for (const auto resource : kObjects) {
    const auto first = watch_from(world, resource);
    CHECK(world.asked(resource) == Asks{first + " -> 429", first});
  }
  world.check_still(small_cluster());
  world.server().clear_faults();
  world.finish();
}

TEST_CASE("api: 503 is asked again after a while, from where the watch was", "[answers]") {
  ApiWorld world;
  world.follow();
  refuse(world, {.code = 503, .message = "starting", .times = 2});
  world.disturb();
  end_watches(world);
  for (const auto resource : kObjects) {
    REQUIRE(world.was_asked(resource, 3));
    const auto first = watch_from(world, resource);
    CHECK(world.asked(resource) == Asks{first + " -> 503", first + " -> 503", first});
  }
  world.check_told("503 ServiceUnavailable: starting; again in ");
  world.check_still(small_cluster());
  world.server().clear_faults();
  world.finish();
}

TEST_CASE("api: an error without a rule is asked again once, then there is a new list",
          "[answers]") {
  ApiWorld world;
  world.follow();
  FaultAnswer error{.code = 500, .message = "etcd is gone", .times = 2};
  std::string told = "500 InternalError: etcd is gone; again in ";
  SECTION("500") {}
  SECTION("502 of a proxy in between") {
    error.code = 502;
    error.plain_text = true;
    told = "the server answered 502: etcd is gone; again in ";
  }
  refuse(world, error);
  world.disturb();
  end_watches(world);
  for (const auto resource : kObjects) {
    REQUIRE(world.was_asked(resource, 3));
    const auto failed = watch_from(world, resource) + " -> " + std::to_string(error.code);
    CHECK(world.asked(resource) == Asks{failed, failed, "stream"});
  }
  world.check_told(told);
  // The list tells what the watches held back.
  world.check_reached();
  world.server().clear_faults();
  world.disturb();
  world.finish();
}

TEST_CASE("api: 401 reads the token again, until it is one that the server takes", "[answers]") {
  const TempDir dir;
  const auto token_file = dir.path() / "token";
  std::ofstream(token_file) << "first\n";
  ApiWorld world({.server = {.token = "first"}, .client = {.token_file = token_file.string()}});
  world.follow();
  world.server().set_token("second");
  world.disturb();
  world.check_reached();  // running watches go on
  end_watches(world);
  const auto before = world.cluster();
  world.disturb();
  for (const auto resource : kObjects) REQUIRE(world.was_asked(resource, 3));
  world.check_told("the server answered 401 Unauthorized: Unauthorized; ");
  CHECK_FALSE(world.daemon().logs("services: followed again", 0));
  world.check_still(before);
  std::ofstream(token_file) << "second\n";
  world.check_reached(40'000);
  CHECK(world.only_watched(Resource::services));
  CHECK(world.only_watched(Resource::endpoint_slices));
  CHECK(world.server().requests().back().credential == "token second");
  world.check_told("services: followed again");
  world.finish();
}

struct Identity {
  const char* what;
  CertificateWish wish;
  const char* authority;  // "": the one that is trusted
  const char* told;
};

const Identity kWrongIdentities[] = {
    {"of another authority", server_wish(), "other",
     "SSL certificate problem: unable to get local issuer certificate"},
    // As after a cluster was made again: kubeadm calls each of its authorities "kubernetes".
    {"of another authority with the same name", server_wish(), "cluster", "; again in "},
    {"that has expired",
     {.dns_names = {"localhost"}, .addresses = {"127.0.0.1"}, .expired = true},
     "",
     "SSL certificate problem: certificate has expired"},
    {"of another name",
     {.dns_names = {"elsewhere"}, .addresses = {"127.0.0.2"}},
     "",
     "no alternative certificate subject name matches target host name '127.0.0.1'"},
};

TEST_CASE("api: a server with a wrong certificate is not believed, whatever it says", "[answers]") {
  const auto authority = make_authority("cluster").value();
  const auto tls = [](const Certificate& from, const CertificateWish& wish) {
    const auto shown = issue(from, wish).value();
    return ServerTls{.certificate = shown.certificate, .key = shown.key};
  };
  ApiWorld world({.server = {.tls = tls(authority, server_wish())},
                  .client = {.authority = authority.certificate}});
  world.follow();
  for (const auto& identity : kWrongIdentities) {
    INFO(identity.what);
    const auto before = world.cluster();
    const std::string other = identity.authority;
    REQUIRE(world.server().set_tls(
        tls(other.empty() ? authority : make_authority(other).value(), identity.wish)));
    world.server().clear_requests();
    world.disturb();
    world.check_told(identity.told);
    world.daemon().mark();
    world.check_still(before);
    CHECK(world.server().requests().empty());
    REQUIRE(world.server().set_tls(tls(authority, server_wish())));
    world.check_reached(60'000);
    CHECK(world.only_watched(Resource::services));
    CHECK(world.only_watched(Resource::endpoint_slices));
  }
  world.finish();
}

}  // namespace
}  // namespace ipvsproxier::test
