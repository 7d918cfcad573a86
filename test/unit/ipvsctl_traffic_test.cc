#include "cmd/ipvsctl/top/traffic.h"

#include <catch2/catch.hpp>

#include "test/fakes/fake_ipvs_reader.h"

namespace ipvsproxier::ctl {
namespace {

using namespace netlink;
using namespace std::chrono_literals;
using test::FakeIpvsReader;
using test::read_server;
using test::read_service;

TimePoint at(std::chrono::milliseconds time) {
  return TimePoint(time);
}

Counters packets(std::uint64_t number) {
  return {.connections = number / 10,
          .packets_in = number,
          .packets_out = 2 * number,
          .bytes_in = 100 * number,
          .bytes_out = 200 * number};
}

Rates packet_rates(double number) {
  return {.connections = number / 10,
          .packets_in = number,
          .packets_out = 2 * number,
          .bytes_in = 100 * number,
          .bytes_out = 200 * number};
}

TEST_CASE("traffic: a rate is the growth divided by the exact time") {
  Meter meter;
  meter.take(packets(1000), at(0ms));
  CHECK_FALSE(meter.rates());
  meter.take(packets(2000), at(2500ms));
  CHECK(meter.rates() == packet_rates(400));
  meter.take(packets(2030), at(5500ms));
  CHECK(meter.rates() == packet_rates(10));
}

TEST_CASE("traffic: counters that stand still between two sums of the kernel do not mean silence") {
  Meter meter;
  // A hundred packets a second, read twice a second, summed up every two.
  meter.take(packets(0), at(0ms));
  for (int halves = 1; halves <= 40; ++halves) {
    const auto summed = static_cast<std::uint64_t>(halves / 4) * 200;
    meter.take(packets(summed), at(500ms * halves));
    if (halves >= 4) CHECK(meter.rates() == packet_rates(100));
  }
  // The first sum that is seen was long in the making, whenever reading began.
  Meter late;
  late.take(packets(0), at(0ms));
  late.take(packets(200), at(500ms));
  CHECK(late.rates() == packet_rates(100));
}

TEST_CASE("traffic: silence is seen once a sum must have come") {
  Meter meter;
  meter.take(packets(0), at(0ms));
  meter.take(packets(100), at(2000ms));
  meter.take(packets(100), at(4000ms));
  CHECK(meter.rates() == packet_rates(50));
  meter.take(packets(100), at(4100ms));
  CHECK(meter.rates() == Rates{});
}

TEST_CASE("traffic: counters that go back begin anew") {
  Meter meter;
  meter.take(packets(1000), at(0ms));
  meter.take(packets(2000), at(2000ms));
  meter.take(packets(10), at(4000ms));
  CHECK_FALSE(meter.rates());
  meter.take(packets(30), at(6000ms));
  CHECK(meter.rates() == packet_rates(10));
}

TEST_CASE("traffic: counters beyond 32 bits") {
  Meter meter;
  constexpr std::uint64_t kBase = 0xffff'ffff'0000;
  meter.take(packets(kBase), at(0ms));
  meter.take(packets(kBase + 4'000'000'000), at(2000ms));
  CHECK(meter.rates()->packets_in == 2e9);
}

ServiceCount counted(std::uint16_t port, TimePoint time, std::vector<ServerCount> servers) {
  return {.key = {.address = IpAddress::v4(0x0a000001), .port = port},
          .at = time,
          .counters = packets(100),
          .servers = std::move(servers)};
}

ServerCount server(std::uint32_t host, std::uint32_t active, std::uint64_t number) {
  return {.key = {.address = IpAddress::v4(host), .port = 80},
          .active = active,
          .inactive = 1,
          .counters = packets(number)};
}

TEST_CASE("traffic: entries are told apart in any order, come and go") {
  Traffic traffic;
  traffic.take(
      {counted(80, at(0ms), {server(3, 5, 0), server(1, 7, 0)}), counted(81, at(1ms), {})});
  traffic.take(
      {counted(82, at(2000ms), {}),
       counted(80, at(2000ms), {server(2, 1, 500), server(1, 8, 200), server(3, 4, 400)})});
  REQUIRE(traffic.services().size() == 2);
  const auto& [key, service] = *traffic.services().begin();
  CHECK(key.port == 80);
  CHECK(service.meter.rates() == Rates{});  // it stood still
  REQUIRE(service.servers.size() == 3);
  CHECK(service.servers[0].active == 8);
  CHECK(service.servers[0].meter.rates() == packet_rates(100));
  CHECK_FALSE(service.servers[1].meter.rates());
  CHECK(service.servers[2].meter.rates() == packet_rates(200));
}

TEST_CASE("traffic: one pass over the table reads every counter") {
  auto one = read_server("10.1.0.2", 8080);
  one.listed.active_connections = 3;
  one.listed.inactive_connections = 4;
  one.traffic = {
      .connections = 1, .packets_in = 2, .packets_out = 3, .bytes_in = 4, .bytes_out = 5};
  auto service = read_service("10.0.0.1", 80);
  service.traffic.packets_in = 9;
  FakeIpvsReader reader({{service, {one}}, {read_service("fd00::1", 80), {}}});
  const auto counts = read_counts(reader, [] { return TimePoint(7ms); });
  REQUIRE(counts);
  REQUIRE(counts->size() == 2);
  CHECK((*counts)[0].at == at(7ms));
  CHECK((*counts)[0].counters.packets_in == 9);
  REQUIRE((*counts)[0].servers.size() == 1);
  const auto& read = (*counts)[0].servers[0];
  CHECK(read.active == 3);
  CHECK(read.inactive == 4);
  CHECK(
      read.counters ==
      Counters{.connections = 1, .packets_in = 2, .packets_out = 3, .bytes_in = 4, .bytes_out = 5});
}

}  // namespace
}  // namespace ipvsproxier::ctl
