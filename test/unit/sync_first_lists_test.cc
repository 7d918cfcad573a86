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
  explicit Doubting(bool brakes = true, std::vector<netlink::IpPrefix> foreign = {})
      : FakeDaemon(
            {.options = {.families = {netlink::Family::ipv4}, .exclude_cidrs = std::move(foreign)},
             .doubt_first_lists =
                 brakes ? std::function<void()>([this] { ++doubts; }) : std::function<void()>()}) {}
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

TEST_CASE("the first reading of the kernel is not whole", "[first-lists]") {
  Doubting daemon;
  daemon.see(some(0, 30));
  const auto before = daemon.dump();
  auto cluster = some(0, 30);
  const std::string lack = GENERATE("Services", "endpoints", "one Service");
  if (lack == "Services") cluster.services.clear();
  if (lack != "one Service") cluster.slices.clear();
  if (lack == "one Service") cluster = some(0, 29);
  const std::string fault = GENERATE("list virtual services", "list real servers");
  CAPTURE(lack, fault);
  const bool is_doubtful = lack != "one Service";
  daemon.restart();
  daemon.ipvs.faults.fail(fault, {netlink::ErrorKind::timeout, 0, ""}, 3);
  daemon.see(cluster);
  if (is_doubtful) CHECK(daemon.dump() == before);
  daemon.wait(70s);
  CHECK(daemon.ipvs.faults.hits() == 3);
  CHECK(daemon.doubts == (is_doubtful ? 1 : 0));
  if (is_doubtful) {
    CHECK(daemon.dump() == before);
    daemon.see_again(cluster);
    daemon.wait(40s);
  }
  CHECK(daemon.differences() == kNone);
  CHECK(daemon.watch.broken.empty());
}

TEST_CASE("one virtual service that cannot be read delays nothing that is clear without it",
          "[first-lists]") {
  Doubting daemon;
  daemon.see(some(0, 30));
  auto cluster = some(0, 30);
  const auto emptied = GENERATE(14, 15, 30);
  CAPTURE(emptied);
  for (int i = 0; i < emptied; ++i) cluster.slices.erase({"default", "s" + std::to_string(i)});
  daemon.restart();
  const netlink::VirtualServiceKey last{ip("10.96.1.29"), netlink::Protocol::tcp, 80};
  daemon.ipvs.faults.fail("list real servers of virtual service " + to_string(last),
                          {netlink::ErrorKind::io, 0, ""});
  const auto report = daemon.see(cluster);
  const netlink::VirtualServiceKey first{ip("10.96.1.0"), netlink::Protocol::tcp, 80};
  const std::map<netlink::RealServerKey, std::uint32_t> both{{test::kE1, 1}, {test::kE2, 1}};
  CHECK((daemon.weights(first) == both) == (emptied != 14));
  CHECK(daemon.doubts == (emptied == 30 ? 1 : 0));
  CHECK((report.doubted > 0) == (emptied == 30));
  daemon.wait(70s);
  CHECK((daemon.weights(first) == both) == (emptied != 14));
  CHECK(daemon.ipvs.faults.hits() > 1);
  daemon.clear_faults();
  daemon.wait(120s);
  CHECK(daemon.doubts == (emptied == 30 ? 1 : 0));
  CHECK((daemon.differences() == kNone) == (emptied != 30));
}

TEST_CASE("what is not ours is not in doubt", "[first-lists]") {
  Doubting daemon(true, {test::prefix("192.168.7.0/24")});
  const int foreign = GENERATE(25, 40);
  CAPTURE(foreign);
  daemon.see(some(0, 30));
  std::vector<netlink::IpvsOp> ops;
  for (int i = 0; i < foreign; ++i)
    ops.emplace_back(netlink::AddService{
        {.key = {ip("192.168.7." + std::to_string(i)), netlink::Protocol::tcp, 80},
         .scheduler = netlink::ShortName("rr")}});
  for (const auto& status : daemon.ipvs.apply(ops)) REQUIRE(status);
  daemon.restart();
  // Of 31 virtual services of ours 6 stay, or 15 or 16: foreign ones would tip neither balance.
  SECTION("most of ours are missing") {
    CHECK(daemon.see(some(0, 5)).doubted == 25);
    CHECK(daemon.doubts == 1);
  }
  SECTION("most of ours are there") {
    CHECK(daemon.see(some(0, 15)).doubted == 0);
    CHECK(daemon.doubts == 0);
  }
  CHECK(daemon.ipvs.services().size() >= static_cast<std::size_t>(foreign));
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
