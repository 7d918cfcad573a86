// The daemon and a server whose answers come badly, or not at all.

#include <chrono>

#include <catch2/catch.hpp>

#include "test/kernel/api_world.h"
#include "test/kernel/kernel_state.h"

namespace ipvsproxier::test {
namespace {

using Clock = std::chrono::steady_clock;

bool asked_nothing(const ApiWorld& world) {
  return world.asked(Resource::services).empty() &&
         world.asked(Resource::endpoint_slices).empty() && world.asked(Resource::nodes).empty();
}

bool only_watched_objects(const ApiWorld& world) {
  return world.only_watched(Resource::services) && world.only_watched(Resource::endpoint_slices);
}

TEST_CASE("api: torn into bits, lists and watches are what they are in one piece", "[transfer]") {
  ApiWorld world;
  world.server().set_faults({.tear = 20});
  world.follow();
  for (int i = 0; i < 3; ++i) world.disturb();
  world.check_reached();
  CHECK(asked_nothing(world));
  CHECK_FALSE(world.daemon().logs("again in", 0));
  world.finish();
}

TEST_CASE("api: a byte a second is waited for, and counts when it is complete", "[transfer]") {
  ApiWorld world;
  world.follow();
  world.server().set_faults({.bytes_per_second = 1});
  world.disturb();
  const auto until = Clock::now() + std::chrono::seconds(4);
  while (Clock::now() < until) world.judge().look();
  world.check_still(small_cluster());
  world.server().set_faults({.bytes_per_second = 2000});
  world.check_reached();
  CHECK(asked_nothing(world));
  world.finish();
}

TEST_CASE("api: a server that stops answering is waited for, and nothing changes", "[transfer]") {
  ApiWorld world;
  world.follow();
  world.server().set_faults({.silent = true});
  world.disturb();
  const auto until = Clock::now() + std::chrono::seconds(3);
  while (Clock::now() < until) world.judge().look();
  world.check_still(small_cluster());
  world.server().clear_faults();
  world.check_reached();
  CHECK(asked_nothing(world));
  world.finish();
}

TEST_CASE("api: after a reset the watches go on where they were", "[transfer]") {
  ApiWorld world;
  world.follow();
  world.disturb();
  world.server().reset_connections();
  world.disturb();
  world.check_told("services: " + world.server().url() + ": ");
  world.check_told("; again in 0.");
  world.check_reached();
  CHECK(only_watched_objects(world));
  world.check_told("services: followed again");
  world.finish();
}

TEST_CASE("api: bodies that break off are taken as far as they came, and asked for again",
          "[transfer]") {
  ApiWorld world;
  world.follow();
  world.server().set_faults({.cut_after = 700});
  world.disturb();
  CHECK(world.was_asked(Resource::endpoint_slices, 2));
  world.check_right();
  world.server().clear_faults();
  world.check_reached();
  CHECK(only_watched_objects(world));
  world.finish();
}

// Packets of the server's port, as when the network between is cut; in table raw, which is
// nobody's.
class Cut {
 public:
  explicit Cut(ApiServer& server) : port_(std::to_string(server.port())) { run("-A"); }
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;
  ~Cut() { mend(); }

  void mend() {
    if (!mended_) run("-D");
    mended_ = true;
  }

 private:
  void run(const std::string& how) const {
    for (const auto* side : {"--dport ", "--sport "})
      shell("iptables -t raw " + how + " PREROUTING -p tcp " + side + port_ + " -j DROP");
  }

  std::string port_;
  bool mended_ = false;
};

// The clock is that of the question: the daemon must not need longer than 30 s.
TEST_CASE("api: a server that vanishes is noticed within 30 s", "[transfer]") {
  ApiWorld world;
  shell("iptables -t raw -S");  // from now on there is this table
  world.follow();
  {
    Cut cut(world.server());
    world.disturb();
    const auto begin = Clock::now();
    // Alone, or in front of others that fail with it.
    const auto told_of = [&world](const std::string& resource) {
      return world.daemon().logs(resource + ": " + world.server().url() + ": ", 0) ||
             world.daemon().logs(resource + ", ", 0);
    };
    while (Clock::now() - begin < std::chrono::seconds(30))
      if (told_of("services") && told_of("endpointslices")) break;
    INFO(world.daemon().log());
    CHECK(Clock::now() - begin < std::chrono::seconds(30));
    CHECK(difference(facts_of(small_cluster()), world.judge().seen()) == "");
    world.check_right();
    cut.mend();
  }
  world.check_reached(60'000);
  CHECK(only_watched_objects(world));
  world.finish();
}

TEST_CASE("api: while the server is away nothing is removed, and then it is followed from there",
          "[transfer]") {
  ApiWorld world;
  world.follow();
  world.server().stop();
  world.check_told("Connection refused");
  world.disturb();
  world.check_still(small_cluster());
  REQUIRE(world.server().resume());
  world.check_reached(60'000);
  CHECK(only_watched_objects(world));
  world.finish();
}

}  // namespace
}  // namespace ipvsproxier::test
