// Much at once: the kernel gets right, and the daemon's memory is that of what it keeps, not of
// what it was told.

#include <chrono>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/kernel/api_world.h"
#include "test/support/api_server/objects.h"

namespace ipvsproxier::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMegabyte = 1'000'000;
constexpr int kLongest = 240'000;  // ms, on a busy machine

struct Memory {
  std::size_t now = 0;   // bytes
  std::size_t peak = 0;  // since the process began
};

Memory memory_of(Daemon& daemon) {
  std::ifstream status(fmt::format("/proc/{}/status", daemon.pid()));
  Memory memory;
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    std::size_t kilobytes = 0;
    words >> name >> kilobytes;
    if (name == "VmRSS:") memory.now = kilobytes * 1024;
    if (name == "VmHWM:") memory.peak = kilobytes * 1024;
  }
  if (memory.peak == 0) throw std::runtime_error("no memory of the daemon");
  return memory;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST_CASE("api: an object of 10 MB is programmed, and only while it is read does it take memory",
          "[large]") {
  constexpr std::size_t kObject = 10 * kMegabyte;
  ApiWorld world;
  world.follow();
  const auto before = memory_of(world.daemon());
  const ApiService huge{
      .name = "huge", .address = "10.96.9.9", .endpoints = {"10.244.9.1", "10.244.9.2"}};
  world.put_inflated(huge, kObject);
  world.disturb();
  world.check_reached();
  REQUIRE(world.server().object(Resource::services, "huge", "default").size() > kObject);
  // By a list too, of either kind.
  for (const bool streaming : {true, false}) {
    world.server().set_streaming_lists(streaming);
    world.server().compact();
    world.daemon().mark();
    for (const auto resource : kResources) world.server().expire_watches(resource);
    world.check_told("services: 6 listed");
  }
  world.disturb();
  world.check_reached();
  const auto after = memory_of(world.daemon());
  WARN(fmt::format("an object of {} MB: peak {:.1f} MB, kept {:.1f} MB above {:.1f} MB",
                   kObject / kMegabyte, double(after.peak - before.now) / kMegabyte,
                   (double(after.now) - double(before.now)) / kMegabyte,
                   double(before.now) / kMegabyte));
  CHECK(after.peak < before.peak + 8 * kObject);
  CHECK(after.now < before.now + kObject / 2);
  world.finish();
}

TEST_CASE("api: a hundred thousand objects", "[large]") {
  constexpr std::size_t kCount = 100'000;
  constexpr std::size_t kWithService = 200;
  constexpr std::size_t kObject = 2'000;
  ApiWorld world;
  std::vector<ApiService> services;
  for (std::size_t i = 0; i < kWithService; ++i)
    services.push_back({.name = fmt::format("many-{}", i),
                        .address = fmt::format("10.96.100.{}", i + 1),
                        .endpoints = {fmt::format("10.244.100.{}", i + 1)}});
  world.put_all(services);
  std::vector<std::string> others;
  for (std::size_t i = 0; i < kCount - 2 * kWithService; ++i) {
    const auto third = i / 250 % 250;
    const auto fourth = i % 250 + 1;
    others.push_back(inflate(make_slice("bulk", fmt::format("other-{:06}", i),
                                        {fmt::format("10.245.{}.{}", third, fourth),
                                         fmt::format("10.246.{}.{}", third, fourth)}),
                             kObject));
  }
  auto begin = Clock::now();
  REQUIRE(world.server().put_all(others));
  others = {};
  world.server().compact();
  const auto put_seconds = seconds_since(begin);
  const auto told =
      kCount * world.server().object(Resource::endpoint_slices, "other-000000-0", "bulk").size();

  begin = Clock::now();
  world.follow(kLongest);
  const auto list_seconds = seconds_since(begin);
  const auto listed = memory_of(world.daemon());
  CHECK(world.server().count(Resource::endpoint_slices) > 99'000);

  // Again, with a difference.
  begin = Clock::now();
  world.server().set_faults(Resource::endpoint_slices, {.bookmarks_only = true});
  world.disturb();
  world.server().compact();
  world.server().expire_watches(Resource::endpoint_slices);
  world.check_reached(kLongest);
  const auto relist_seconds = seconds_since(begin);
  const auto relisted = memory_of(world.daemon());
  world.server().clear_faults();

  // A change among so many.
  begin = Clock::now();
  world.disturb();
  world.check_reached();
  const auto change_seconds = seconds_since(begin);
  WARN(fmt::format(
      "{} objects, {:.1f} MB: put {:.1f} s, programmed {:.1f} s, listed again {:.1f} s, a change "
      "{:.2f} s; memory {:.1f} MB, peak {:.1f} MB, after the second list {:.1f} MB, peak {:.1f} MB",
      kCount, double(told) / kMegabyte, put_seconds, list_seconds, relist_seconds, change_seconds,
      double(listed.now) / kMegabyte, double(listed.peak) / kMegabyte,
      double(relisted.now) / kMegabyte, double(relisted.peak) / kMegabyte));
  CHECK(listed.peak < told);
  CHECK(relisted.peak < told);
  world.finish();
}

}  // namespace
}  // namespace ipvsproxier::test
