// Much at once: the kernel gets right, and the daemon's memory is that of what it keeps, not of
// what it was told.

#include <chrono>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/kernel/api_world.h"
#include "test/support/api_server/objects.h"

namespace ipvsproxier::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMegabyte = 1'000'000;
constexpr int kLongest = 240'000;  // ms, on a busy machine

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST_CASE("api: an object of 10 MB is programmed, and only while it is read does it take memory",
          "[large]") {
  constexpr std::size_t kObject = 10 * kMegabyte;
  ApiWorld world;
  world.follow();
  const auto before = world.daemon().memory();
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
    world.server().expire_watches();
    world.check_told("services: 6 listed");
  }
  world.disturb();
  world.check_reached();
  const auto after = world.daemon().memory();
  WARN(fmt::format("an object of {} MB: peak {:.1f} MB, kept {:.1f} MB above {:.1f} MB",
                   kObject / kMegabyte, double(after.peak - before.now) / kMegabyte,
                   (double(after.now) - double(before.now)) / kMegabyte,
                   double(before.now) / kMegabyte));
  CHECK(after.peak < before.peak + 8 * kObject);
  CHECK(after.now < before.now + kObject / 2);
  world.finish();
}

void list_again(ApiWorld& world, Resource resource) {
  world.server().compact();
  world.daemon().mark();
  world.server().expire_watches(resource);
}

// As of an object that many controllers write to.
std::string with_managed_fields(const std::string& object, std::size_t bytes) {
  std::string entries;
  for (std::size_t manager = 0; entries.size() < bytes; ++manager) {
    entries +=
        fmt::format(R"({}{{"manager":"controller-{}","operation":"Update","apiVersion":"v1",)"
                    R"("fieldsType":"FieldsV1","fieldsV1":{{)",
                    manager == 0 ? "" : ",", manager);
    for (int field = 0; field < 20; ++field)
      entries += fmt::format(R"({}"f:field-{:06}":{{".":{{}}}})", field == 0 ? "" : ",", field);
    entries += "}}";
  }
  const std::string place = R"("metadata":{)";
  auto larger = object;
  larger.insert(larger.find(place) + place.size(), R"("managedFields":[)" + entries + "],");
  return larger;
}

TEST_CASE("api: what is not kept takes no memory, however much it is", "[large]") {
  constexpr std::size_t kCount = 1'000;
  constexpr std::size_t kNotKept = 50'000;
  ApiWorld world;
  world.follow();
  const auto before = world.daemon().memory();
  for (std::size_t i = 0; i < kCount; ++i)
    REQUIRE(world.server().put(with_managed_fields(
        make_slice("bulk", fmt::format("other-{:06}", i), {"10.245.0.1", "10.245.0.2"}),
        kNotKept)));
  // Behind them.
  world.disturb();
  world.check_reached(kLongest);
  const auto watched = world.daemon().memory();
  list_again(world, Resource::endpoint_slices);
  CHECK(world.daemon().logs("endpointslices: 1005 listed; 0 new or changed, 0 gone", kLongest));
  const auto listed = world.daemon().memory();
  WARN(fmt::format(
      "{:.1f} MB of managed fields: peak {:.1f} MB above {:.1f} MB, after a list {:.1f}",
      double(kCount * kNotKept) / kMegabyte, double(watched.peak - before.now) / kMegabyte,
      double(before.now) / kMegabyte, double(listed.peak - before.now) / kMegabyte));
  CHECK(listed.peak < before.peak + kCount * kNotKept / 4);
  world.disturb();
  world.finish();
}

// Endpoint slices without a Service: they have no effect in the kernel, but are kept.
std::vector<std::string> slices_of_nobody(std::size_t count) {
  std::vector<std::string> slices;
  for (std::size_t i = 0; i < count; ++i) {
    const auto third = i / 250 % 250;
    const auto fourth = i % 250 + 1;
    slices.push_back(make_slice(
        "bulk", fmt::format("other-{:06}", i),
        {fmt::format("10.245.{}.{}", third, fourth), fmt::format("10.246.{}.{}", third, fourth)}));
  }
  return slices;
}

TEST_CASE("api: a hundred thousand objects are programmed and followed", "[large]") {
  constexpr std::size_t kCount = 100'000;
  constexpr std::size_t kWithService = 200;
  // What a slice with two endpoints takes in the daemon: measured 3.0 KB, with what the allocator
  // keeps of the first list.
  constexpr std::size_t kPerObject = 3'500;
  constexpr std::size_t kWithoutObjects = 40 * kMegabyte;
  ApiWorld world;
  std::vector<ApiService> services;
  for (std::size_t i = 0; i < kWithService; ++i)
    services.push_back({.name = fmt::format("many-{}", i),
                        .address = fmt::format("10.96.100.{}", i + 1),
                        .endpoints = {fmt::format("10.244.100.{}", i + 1)}});
  world.put_all(services);
  auto begin = Clock::now();
  REQUIRE(world.server().put_all(slices_of_nobody(kCount - 2 * kWithService)));
  world.server().compact();
  const auto put = seconds_since(begin);
  const auto told =
      kCount * world.server().object(Resource::endpoint_slices, "other-000000-0", "bulk").size();

  begin = Clock::now();
  world.follow(kLongest);
  const auto programmed = seconds_since(begin);
  const auto listed = world.daemon().memory();

  begin = Clock::now();
  world.disturb();
  world.check_reached();
  const auto changed = seconds_since(begin);
  WARN(
      fmt::format("{} objects, {:.1f} MB: put in {:.1f} s, programmed in {:.1f} s, a change in "
                  "{:.2f} s; memory {:.1f} MB, peak {:.1f} MB",
                  kCount, double(told) / kMegabyte, put, programmed, changed,
                  double(listed.now) / kMegabyte, double(listed.peak) / kMegabyte));
  CHECK(listed.peak < kWithoutObjects + kCount * kPerObject);
  world.finish();
}

}  // namespace
}  // namespace ipvsproxier::test
