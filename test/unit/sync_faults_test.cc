// Faults around each kernel table, on fakes: what failed is named and tried again, the rest is in
// place, nothing is taken away or shown unguarded because of it, and when the fault ends the kernel
// is as if it had never been.

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <random>

#include <catch2/catch.hpp>

#include "test/support/fake_daemon.h"
#include "test/support/random_cluster.h"
#include "test/support/random_run.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::Family;
using netlink::Operation;
using netlink::Protocol;
using test::FakeDaemon;
using test::FaultInjector;
using test::ip;
using test::kE1;
using test::kE2;
using test::kWeb;
using test::web_with;
using Lines = std::set<std::string>;

api::Service service(const std::string& name, const std::string& address,
                     Protocol protocol = Protocol::tcp) {
  auto result = test::web_service();
  result.name.name = name;
  result.cluster_ips = {ip(address)};
  result.ports[0].protocol = protocol;
  return result;
}

api::Service balanced(const std::string& name, int number) {
  auto result = service(name, "10.96.1." + std::to_string(number));
  result.type = api::ServiceType::load_balancer;
  result.ports[0].node_port = static_cast<std::uint16_t>(30000 + number);
  result.load_balancer_ips = {ip("192.0.2." + std::to_string(number))};
  result.external_ips = {ip("198.51.100." + std::to_string(number))};
  result.source_ranges = {test::prefix("203.0.113.0/24")};
  return result;
}

// Of everything something, and what goes with the next one.
model::ClusterState before_the_change() {
  const auto web = service("web", "10.96.0.9");
  const auto dns = service("dns", "10.96.0.53", Protocol::udp);
  const auto old = balanced("old", 1);
  const auto stays = balanced("stays", 2);
  return test::cluster_of({web, test::slice_of(web, 8080, {test::e1(), test::e2()}), dns,
                           test::slice_of(dns, 8053, {test::e1(), test::e2()}), old,
                           test::slice_of(old, 8080, {test::e1()}), stays,
                           test::slice_of(stays, 8080, {test::e1(), test::e2()})});
}

model::ClusterState after_the_change() {
  auto web = service("web", "10.96.0.9");
  web.affinity_seconds = 100;
  const auto dns = service("dns", "10.96.0.53", Protocol::udp);
  const auto fresh = balanced("fresh", 3);
  auto stays = balanced("stays", 2);
  stays.source_ranges = {test::prefix("203.0.113.0/24"), test::prefix("198.18.0.0/15")};
  const auto e3 = test::endpoint("10.244.1.5", "n2");
  return test::cluster_of({web, test::slice_of(web, 8080, {test::e1(), e3}), dns,
                           test::slice_of(dns, 8053, {test::e1()}), fresh,
                           test::slice_of(fresh, 8080, {test::e1()}), stays,
                           test::slice_of(stays, 8080, {test::e1(), e3})});
}

void track_flows(FakeDaemon& daemon) {
  for (std::uint16_t port = 4000; port < 4004; ++port)
    daemon.conntrack.track({ip("10.1.0.1"), port}, {ip("10.96.0.53"), 80},
                           {ip(port % 2 == 0 ? "10.244.0.3" : "10.244.1.4"), 8053});
}

struct Place {
  const char* name;  // of the table
  FaultInjector& (*faults)(FakeDaemon&);
  Operation operation;
  std::vector<const char*> parts;  // of what its operations say
};

const std::vector<Place>& places() {
  static const std::vector<Place> kPlaces = {
      {"ipvs services",
       [](FakeDaemon& daemon) -> FaultInjector& { return daemon.ipvs.faults; },
       Operation::ipvs_service,
       {"add virtual service", "edit virtual service", "delete virtual service", "list virtual",
        "list real", "virtual service"}},
      {"ipvs servers",
       [](FakeDaemon& daemon) -> FaultInjector& { return daemon.ipvs.faults; },
       Operation::ipvs_server,
       {"add real server", "edit real server", "delete real server"}},
      {"links",
       [](FakeDaemon& daemon) -> FaultInjector& { return daemon.links.faults; },
       Operation::address,
       {"create dummy link", "add address", "delete address", "list addresses", "address"}},
      {"sets",
       [](FakeDaemon& daemon) -> FaultInjector& { return daemon.sets.faults; },
       Operation::set,
       {"make set", "add KUBE", "remove KUBE", "list set", "KUBE-LOAD-BALANCER-FW", "KUBE"}},
      {"rules",
       [](FakeDaemon& daemon) -> FaultInjector& { return daemon.rules.faults; },
       Operation::rule,
       {"list IPv4", "write IPv4 nat", "write IPv4 filter", "IPv4"}},
      {"conntrack",
       [](FakeDaemon& daemon) -> FaultInjector& { return daemon.conntrack.faults; },
       Operation::generic,
       {"list UDP flows", "remove UDP flow"}},
  };
  return kPlaces;
}

// 0 stands for an answer that is lost after the operation was done.
constexpr std::array kErrors = {0, ENOBUFS, EBUSY, EAGAIN, ENOMEM, EPERM, ENOSPC, ETIMEDOUT};
// One of each kind that is treated differently.
constexpr std::array kFewErrors = {0, ENOBUFS, EBUSY, EPERM};

void break_it(FaultInjector& faults, const Place& place, const char* part, int error,
              int times = -1) {
  if (error == 0)
    faults.lose(part, times);
  else
    faults.fail(part, netlink::make_error(place.operation, error, ""), times);
}

// What an undisturbed daemon makes of it.
struct Undisturbed {
  Lines before, after;

  static const Undisturbed& get() {
    static const Undisturbed kResult = [] {
      Undisturbed result;
      FakeDaemon daemon;
      daemon.see(before_the_change());
      daemon.wait(60s);
      track_flows(daemon);
      result.before = daemon.dump();
      daemon.see(after_the_change());
      daemon.wait(60s);
      result.after = daemon.dump();
      CHECK(daemon.differences().empty());
      CHECK(daemon.watch.broken.empty());
      return result;
    }();
    return kResult;
  }
};

Lines difference(const Lines& left, const Lines& right) {
  Lines result;
  std::set_symmetric_difference(left.begin(), left.end(), right.begin(), right.end(),
                                std::inserter(result, result.end()));
  return result;
}

void check_quiet(FakeDaemon& daemon) {
  const auto writes = daemon.writes();
  const auto runs = daemon.runs();
  daemon.wait(60s);
  CHECK(daemon.writes() == writes);
  CHECK(daemon.runs() - runs <= 2);
}

TEST_CASE("the kernel ends as without the fault that was there from the start") {
  const auto& undisturbed = Undisturbed::get();
  for (const auto& place : places())
    for (const auto* part : place.parts)
      for (const int error : {0, EBUSY}) {
        INFO(place.name << ": " << part << ": " << error);
        FakeDaemon daemon;
        break_it(place.faults(daemon), place, part, error);
        daemon.see(before_the_change());
        daemon.wait(60s);
        // A reading has a run for each set, 42 in all.
        CHECK(daemon.runs() < 190);
        if (daemon.fault_hits() > 0) CHECK(daemon.says(part));
        daemon.clear_faults();
        daemon.wait(60s);
        track_flows(daemon);
        CHECK(difference(daemon.dump(), undisturbed.before) == Lines{});
        CHECK(daemon.watch.broken == std::vector<std::string>{});
        check_quiet(daemon);
      }
}

TEST_CASE("the kernel ends as without the fault that came in between") {
  const auto& undisturbed = Undisturbed::get();
  for (const auto& place : places())
    for (const auto* part : place.parts)
      for (const int error : kFewErrors) {
        INFO(place.name << ": " << part << ": " << error);
        FakeDaemon daemon;
        daemon.see(before_the_change());
        daemon.wait(10s);
        track_flows(daemon);
        const auto runs = daemon.runs();
        break_it(place.faults(daemon), place, part, error);
        daemon.see(after_the_change());
        daemon.wait(60s);
        CHECK(daemon.runs() - runs < 150);
        if (daemon.fault_hits() > 0) CHECK(daemon.says(part));
        daemon.clear_faults();
        daemon.wait(60s);
        CHECK(difference(daemon.dump(), undisturbed.after) == Lines{});
        CHECK(daemon.watch.broken == std::vector<std::string>{});
        check_quiet(daemon);
      }
}

TEST_CASE("one fault, once, is mended within seconds", "[item-2]") {
  const auto& undisturbed = Undisturbed::get();
  for (const auto& place : places())
    for (const auto* part : place.parts)
      for (const int error : kFewErrors) {
        INFO(place.name << ": " << part << ": " << error);
        FakeDaemon daemon;
        daemon.see(before_the_change());
        daemon.wait(10s);
        track_flows(daemon);
        break_it(place.faults(daemon), place, part, error, 1);
        daemon.see(after_the_change());
        daemon.wait(12s);  // draining included
        CHECK(difference(daemon.dump(), undisturbed.after) == Lines{});
        CHECK(daemon.watch.broken == std::vector<std::string>{});
      }
}

// Lines that speak of something else.
Lines without(Lines lines, const std::vector<std::string>& words) {
  std::erase_if(lines, [&](const std::string& line) {
    return std::any_of(words.begin(), words.end(),
                       [&](const auto& word) { return line.find(word) != std::string::npos; });
  });
  return lines;
}

TEST_CASE("what fails for one thing leaves the rest in place") {
  const auto& undisturbed = Undisturbed::get();
  const std::vector<std::pair<std::size_t, const char*>> things = {
      {0, "add virtual service 10.96.1.3:80"},
      {0, "add virtual service 192.0.2.3:80"},
      {0, "delete virtual service 192.0.2.1:80"},
      {1, "to virtual service 198.51.100.3:80"},
      {2, "add address 192.0.2.3"},
      {2, "delete address 192.0.2.1/"},
      {3, "add KUBE-LOAD-BALANCER 192.0.2.3"},
      {3, "add KUBE-LOAD-BALANCER-FW 192.0.2.3"},
      {3, "add KUBE-IPVS-IPS 198.51.100.3"},
      {3, "remove KUBE-LOAD-BALANCER-FW 192.0.2.1"},
      {3, "add KUBE-NODE-PORT-TCP 30003"},
      {5, "remove UDP flow 10.1.0.1:4001"}};
  for (const auto& [place, thing] : things)
    for (const int error : kFewErrors) {
      INFO(thing << ": " << error);
      FakeDaemon daemon;
      daemon.see(before_the_change());
      daemon.wait(10s);
      track_flows(daemon);
      break_it(places()[place].faults(daemon), places()[place], thing, error);
      CHECK(daemon.see(after_the_change()).failures > 0);
      daemon.wait(20s);
      CHECK(daemon.says(thing));
      // All that its Service, and the one that left, ask for.
      const std::vector<std::string> own = {"10.96.1.3",    "192.0.2.3", "198.51.100.3",
                                            "30003",        "10.96.1.1", "192.0.2.1",
                                            "198.51.100.1", "30001",     "10.1.0.1:4001"};
      CHECK(difference(without(daemon.dump(), own), without(undisturbed.after, own)) == Lines{});
      CHECK(daemon.watch.broken == std::vector<std::string>{});
    }
}

TEST_CASE("while this node's addresses cannot be read nothing is done, and not in a hurry") {
  FakeDaemon daemon;
  daemon.links.faults.fail("list addresses", netlink::make_error(Operation::address, EBUSY, ""));
  CHECK(daemon.see(web_with({test::e1()})).failures == 1);
  daemon.wait(60s);
  CHECK(daemon.runs() < 20);
  CHECK(daemon.weights(kWeb).empty());
  CHECK(daemon.says("list addresses"));
  daemon.clear_faults();
  daemon.wait(31s);
  CHECK(daemon.weights(kWeb).size() == 1);
}

TEST_CASE("a dummy link that could not be made again is tried again soon") {
  FakeDaemon daemon;
  daemon.see(web_with({test::e1()}));
  daemon.links.remove_link(plan::kDummyLink);
  daemon.links.faults.fail("create dummy link", netlink::make_error(Operation::link, ENOMEM, ""),
                           1);
  daemon.see(netlink::LinkEvents{.link_lost = true, .lost = {ip("10.96.0.9")}});
  CHECK_FALSE(daemon.is_bound("10.96.0.9"));
  daemon.wait(3s);
  CHECK(daemon.is_bound("10.96.0.9"));
}

TEST_CASE("a drain goes on counting while the kernel cannot be read") {
  DrainTimes times;
  times.timeout = 40s;
  FakeDaemon daemon({.drain = times});
  daemon.see(web_with({test::e1(), test::e2()}));
  daemon.ipvs.set_connections(kWeb, kE2, 5, 0);
  daemon.see(web_with({test::e1()}));
  daemon.wait(25s);
  const bool all = GENERATE(false, true);
  daemon.ipvs.faults.fail(all ? "list virtual services" : "list real servers",
                          netlink::make_error(Operation::ipvs_service, EBUSY, ""));
  daemon.wait(8s);  // a reading of the whole is among it
  daemon.clear_faults();
  daemon.wait(6s);
  CHECK(daemon.weights(kWeb).contains(kE2));
  daemon.wait(5s);
  CHECK_FALSE(daemon.weights(kWeb).contains(kE2));
}

TEST_CASE("a stale flow is removed though the answer about its real server was lost") {
  FakeDaemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}, Protocol::udp));
  daemon.conntrack.track({ip("10.1.0.1"), 4000}, {ip("10.96.0.9"), 80}, {kE2.address, kE2.port});
  const bool whole = GENERATE(false, true);
  daemon.ipvs.faults.lose(whole ? "delete virtual service" : "delete real server", 1);
  daemon.see(whole ? model::ClusterState{} : web_with({test::e1()}, Protocol::udp));
  daemon.wait(5s);
  CHECK(daemon.conntrack.list({.family = Family::ipv4}).value().empty());
}

TEST_CASE("what was added although the answer was lost goes before what guards it") {
  const std::string thing = GENERATE("add virtual service 192.0.2.1", "add address 192.0.2.1");
  INFO(thing);
  FakeDaemon daemon;
  daemon.see(web_with({test::e1()}));
  auto with_old = web_with({test::e1()});
  const auto old = balanced("old", 1);
  with_old.put(old);
  with_old.put(test::slice_of(old, 8080, {test::e1()}));
  daemon.ipvs.faults.lose(thing, 1);
  daemon.links.faults.lose(thing, 1);
  CHECK(daemon.see(with_old).failures > 0);
  daemon.see(web_with({test::e1()}));  // before the kernel is read again
  CHECK(daemon.watch.broken == std::vector<std::string>{});
  daemon.see(web_with({test::e2()}));
  daemon.see(with_old);  // all without another reading: what went is not taken for there
  daemon.wait(150ms);
  CHECK(daemon.weights({ip("192.0.2.1"), Protocol::tcp, 80}).size() == 1);
  CHECK(daemon.is_bound("192.0.2.1"));
  daemon.wait(12s);
  CHECK(daemon.differences() == Lines{});
}

TEST_CASE("a guard whose removal had no answer is there before what it guards comes back") {
  FakeDaemon daemon;
  auto with_old = web_with({test::e1()});
  const auto old = balanced("old", 1);
  with_old.put(old);
  with_old.put(test::slice_of(old, 8080, {test::e1()}));
  daemon.see(with_old);
  daemon.sets.faults.lose("remove KUBE-IPVS-IPS 192.0.2.1");
  CHECK(daemon.see(web_with({test::e1()})).failures > 0);
  daemon.sets.faults.clear();
  daemon.see(with_old);  // before the kernel is read again
  CHECK(daemon.is_bound("192.0.2.1"));
  CHECK(daemon.watch.broken == std::vector<std::string>{});
  daemon.wait(12s);
  CHECK(daemon.differences() == Lines{});
}

TEST_CASE("what cannot be read is not settled, whatever else succeeds") {
  FakeDaemon daemon;
  auto cluster = web_with({test::e1()});
  daemon.ipvs.faults.fail("list virtual services",
                          netlink::make_error(Operation::ipvs_service, EBUSY, ""));
  CHECK_FALSE(daemon.see(cluster).settled);
  auto dns = balanced("dns", 5);
  dns.external_policy_local = true;
  dns.health_check_node_port = 31005;
  cluster.put(dns);
  cluster.put(test::slice_of(dns, 8053, {test::e1()}));
  const auto report = daemon.see(cluster);
  CHECK_FALSE(report.settled);
  CHECK(report.health.empty());
  daemon.clear_faults();
  CHECK(daemon.wait(60s).settled);
}

TEST_CASE("a VIP that cannot be taken away keeps what guards it") {
  const auto before = before_the_change();
  auto after = before;
  after.services.erase({"default", "old"});
  after.slices.erase({"default", "old"});
  const std::string fault =
      GENERATE("delete virtual service 192.0.2.1", "delete address 192.0.2.1");
  INFO(fault);
  FakeDaemon daemon;
  daemon.see(before);
  auto& faults =
      fault.find("address") == std::string::npos ? daemon.ipvs.faults : daemon.links.faults;
  faults.fail(fault, netlink::make_error(Operation::generic, EBUSY, ""));
  daemon.see(after);
  daemon.wait(100s);
  CHECK(daemon.watch.broken == std::vector<std::string>{});
  // Other changes do not loosen it either.
  after.services.erase({"default", "stays"});
  daemon.see(after);
  daemon.wait(10s);
  CHECK(daemon.watch.broken == std::vector<std::string>{});
  daemon.clear_faults();
  daemon.wait(60s);
  CHECK(daemon.differences() == Lines{});
}

TEST_CASE("a set that cannot be read keeps its rules while what it guards is there") {
  const auto old = balanced("old", 1);
  FakeDaemon daemon;
  daemon.see(test::cluster_of({old, test::slice_of(old, 8080, {test::e1()})}));
  daemon.sets.faults.fail("list set KUBE-LOAD-BALANCER-FW",
                          netlink::make_error(Operation::set, EBUSY, ""));
  const bool stuck = GENERATE(false, true);
  if (stuck)
    daemon.ipvs.faults.fail("delete virtual service",
                            netlink::make_error(Operation::ipvs_service, EBUSY, ""));
  daemon.restart();
  daemon.see(model::ClusterState{});
  daemon.wait(20s);
  CHECK(daemon.watch.broken == std::vector<std::string>{});
  daemon.clear_faults();
  daemon.wait(60s);
  CHECK(daemon.differences() == Lines{});
}

// Each operation fails with a probability, in one of many ways.
class RandomFaults {
 public:
  explicit RandomFaults(std::uint32_t seed) : random_(seed) {}

  void begin(FakeDaemon& daemon, int percent) {
    for (auto* faults : {&daemon.ipvs.faults, &daemon.links.faults, &daemon.sets.faults,
                         &daemon.rules.faults, &daemon.conntrack.faults})
      faults->decide([this, percent](std::string_view) { return next(percent); });
  }

 private:
  std::optional<test::Fault> next(int percent) {
    if (number(1, 100) > percent) return std::nullopt;
    const int error = kErrors.at(static_cast<std::size_t>(number(0, kErrors.size() - 1)));
    if (error == 0) return test::Fault{netlink::make_error(Operation::generic, ENOBUFS, ""), true};
    return test::Fault{netlink::make_error(Operation::generic, error, "")};
  }
  int number(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }

  std::mt19937 random_;
};

TEST_CASE("random faults among random changes end where the plan is", "[item-15]") {
  for (std::uint32_t seed = 0; seed < test::seeds(12); ++seed) {
    INFO("seed " << seed);
    test::RandomCluster random(seed);
    RandomFaults faults(seed);
    FakeDaemon daemon({.drain = {}, .options = random.options()});
    auto cluster = random.cluster(12);
    for (int step = 0; step < 6; ++step) {
      INFO("step " << step);
      faults.begin(daemon, step % 2 == 0 ? 10 : 30);
      daemon.see(cluster);
      daemon.wait(2s);
      if (step == 3) daemon.restart();
      random.change(cluster);
      REQUIRE(daemon.watch.broken == std::vector<std::string>{});
    }
    daemon.see(cluster);
    daemon.clear_faults();
    daemon.wait(70s);
    CHECK(daemon.differences() == Lines{});
    CHECK(daemon.watch.broken == std::vector<std::string>{});
    check_quiet(daemon);
  }
}

}  // namespace
}  // namespace ipvsproxier::sync
