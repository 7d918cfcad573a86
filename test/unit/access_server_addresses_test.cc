// By which addresses the API server is reached.

#include "proxier/access/server_addresses.h"

#include <chrono>
#include <set>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

#include "test/fakes/manual_timers.h"
#include "test/support/ip.h"

namespace ipvsproxier::access {
namespace {

using namespace std::chrono_literals;
using test::ip;
using Set = std::set<netlink::IpAddress>;

struct Told {
  test::ManualTimers timers;
  Set last;
  int times = 0;
  ServerAddresses addresses{timers, [this](const Set& now) {
                              last = now;
                              ++times;
                            }};
};

TEST_CASE("the API server's addresses: that of its URL, and those that answer") {
  Told told;
  told.addresses.answered("https://192.0.2.1:6443", ip("192.0.2.1"));
  CHECK(told.last == Set{ip("192.0.2.1")});
  told.addresses.answered("https://192.0.2.1:6443", ip("192.0.2.1"));
  CHECK(told.times == 1);
  // A proxy, or another server behind the same name.
  told.addresses.answered("https://[fd00::1]", ip("192.0.2.7"));
  told.timers.advance(ServerAddresses::kLookupAgain);
  told.addresses.answered("https://[fd00::1]", ip("192.0.2.7"));
  CHECK(told.last == Set{ip("192.0.2.1"), ip("192.0.2.7"), ip("fd00::1")});
  told.timers.advance(ServerAddresses::kRemembered - 30s);
  told.addresses.answered("https://[fd00::1]", ip("192.0.2.8"));
  CHECK(told.last == Set{ip("192.0.2.7"), ip("192.0.2.8"), ip("fd00::1")});
  CHECK(told.times == 4);
}

TEST_CASE("the API server's addresses: all of its host name, looked up on the side") {
  Told told;
  told.addresses.answered("https://localhost:6443", ip("192.0.2.1"));
  CHECK(told.last == Set{ip("192.0.2.1")});
  for (int i = 0; i < 3000 && told.times < 2; ++i) {
    told.timers.advance(200ms);
    std::this_thread::sleep_for(10ms);
  }
  CHECK(told.last.contains(ip("192.0.2.1")));
  CHECK(told.last.size() > 1);
  for (const auto& address : told.last)
    CHECK((address == ip("192.0.2.1") || address.is_loopback()));
  // Ends in the middle of one.
  told.timers.advance(ServerAddresses::kLookupAgain);
  told.addresses.answered("https://localhost:6443", ip("192.0.2.1"));
}

}  // namespace
}  // namespace ipvsproxier::access
