// After a start the first lists ask for the removal of most of what the kernel has.

#include <functional>
#include <iterator>

#include <catch2/catch.hpp>

#include "proxier/sync/holding.h"
#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using test::ip;

using DumpLines = std::set<std::string>;

const DumpLines kNone;

// default/web, and default/s<first> to s<end - 1>, with two endpoints each.
model::ClusterState some(int first, int end) {
  auto cluster = test::web_with({test::e1(), test::e2()});
  for (int i = first; i < end; ++i) {
    auto service = test::web_service();
    service.name = {"default", "s" + std::to_string(i)};
    service.cluster_ips = {ip("10.96.1." + std::to_string(i))};
    cluster.put(service);
    cluster.put(test::slice_of(service, 8080, {test::e1(), test::e2()}));
  }
  return cluster;
}

struct Doubting : test::FakeDaemon {
  std::size_t doubts = 0;
  explicit Doubting(bool brakes = true)
      : FakeDaemon({.doubt_first_lists = brakes ? std::function<void()>([this] { ++doubts; })
                                                : std::function<void()>()}) {}
  std::string wrong() const {
    std::string lines;
    ask([&](const Inspection& inspection) {
      for (const auto& line : inspection.standing.wrong) lines += line + "\n";
    });
    return lines;
  }
};

TEST_CASE("most virtual services of the kernel are missing from the first lists", "[first-lists]") {
  Doubting daemon;
  daemon.see(some(0, 30));
  CHECK(daemon.doubts == 0);
  const auto before = daemon.dump();
  daemon.restart();
  auto report = daemon.see(some(0, 5));
  CHECK(daemon.doubts == 1);
  CHECK(report.settled);
  CHECK(report.doubted == 25);
  CHECK(daemon.dump() == before);
  CHECK(daemon.says("the first lists ask for 6 of the 31 virtual services that the kernel has"));
  CHECK_THAT(daemon.wrong(), Catch::Contains("lack 25 virtual and real servers"));
  daemon.wait(70s);  // it is read back
  CHECK(daemon.dump() == before);
  CHECK(daemon.doubts == 1);

  SECTION("they go when lists lack them again") {
    report = daemon.see_again(some(0, 5));
    CHECK(report.doubted == 0);
    CHECK(daemon.differences() == kNone);
    CHECK(daemon.says("the first lists were repeated"));
    CHECK(daemon.wrong().empty());
    // Once is enough.
    daemon.see_again(some(0, 0));
    CHECK(daemon.differences() == kNone);
    CHECK(daemon.doubts == 1);
  }
  SECTION("they stay when lists have them again") {
    daemon.see_again(some(0, 30));
    CHECK(daemon.dump() == before);
    CHECK(daemon.differences() == kNone);
  }
  SECTION("what changes meanwhile is done, removals too") {
    daemon.see(some(0, 6));
    daemon.see(some(1, 6));
    CHECK_FALSE(daemon.is_bound("10.96.1.0"));
    CHECK(daemon.is_bound("10.96.1.5"));
    CHECK(daemon.is_bound("10.96.1.20"));
    daemon.see(some(1, 5));
    CHECK_FALSE(daemon.is_bound("10.96.1.5"));
    daemon.see_again(some(1, 5));
    CHECK(daemon.differences() == kNone);
  }
  CHECK(daemon.watch.broken.empty());
}

TEST_CASE("first lists without endpoints leave those of the kernel", "[first-lists]") {
  Doubting daemon;
  daemon.see(some(0, 30));
  const auto before = daemon.dump();
  auto cluster = some(0, 30);
  cluster.slices.clear();
  daemon.restart();
  CHECK(daemon.see(cluster).doubted == 62);
  CHECK(daemon.doubts == 1);
  CHECK(daemon.dump() == before);
  daemon.see_again(cluster);
  daemon.wait(40s);
  CHECK(daemon.differences() == kNone);
  CHECK(daemon.watch.broken.empty());
}

TEST_CASE("first lists that are believed", "[first-lists]") {
  const auto after = [](const model::ClusterState& before, const model::ClusterState& cluster,
                        bool brakes = true) {
    Doubting daemon(brakes);
    daemon.see(before);
    daemon.restart();
    daemon.see(cluster);
    CHECK(daemon.doubts == 0);
    daemon.wait(40s);
    CHECK(daemon.differences() == kNone);
  };
  SECTION("more than half is there") {
    after(some(0, 30), some(0, 15));
  }
  SECTION("there were few") {
    after(some(0, 18), some(0, 0));
  }
  SECTION("the brake is off") {
    after(some(0, 30), some(0, 0), false);
  }
  SECTION("other endpoints have taken the place of the old ones") {
    auto cluster = some(0, 30);
    for (auto& [name, slices] : cluster.slices) {
      const auto slice = name.name + "-1";
      test::edit_slice(slices, slice, [](auto& one) { one.endpoints = std::vector{test::e1()}; });
    }
    after(some(0, 30), cluster);
  }
  SECTION("the kernel is empty") {
    Doubting daemon;
    daemon.see(some(0, 30));
    daemon.see(some(0, 0));  // a list of the same process is the reflector's to doubt
    CHECK(daemon.doubts == 0);
    CHECK(daemon.differences() == kNone);
  }
}

}  // namespace
}  // namespace ipvsproxier::sync
