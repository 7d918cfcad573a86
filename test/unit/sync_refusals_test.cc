// What the kernel refuses for what it is, an address that no host can have, is a problem of the
// object that names it: not of this node, nor of the other family.

#include <cerrno>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <catch2/catch.hpp>

#include "proxier/sync/publisher.h"
#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"
#include "test/support/test_clock.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::ErrorKind;
using netlink::Family;
using test::endpoint;
using test::FakeDaemon;
using test::ip;
using test::kE1;
using test::kWeb;
using Families = std::set<Family>;

constexpr const char* kNoHost = "239.1.1.1";

api::Service numbered(int number, Family family = Family::ipv4) {
  auto service = test::web_service();
  service.name.name = "s" + std::to_string(number);
  const bool is_v4 = family == Family::ipv4;
  service.ip_families = {family};
  service.cluster_ips = {ip((is_v4 ? "10.96.1." : "fd00:96::") + std::to_string(number))};
  return service;
}

// So many Services of the family, the first `bad` of which have an endpoint that no host can have,
// or this one.
std::vector<api::Object> services(int count, int bad, Family family,
                                  const std::string& bad_endpoint = {}) {
  std::vector<api::Object> objects;
  const bool is_v4 = family == Family::ipv4;
  for (int i = 1; i <= count; ++i) {
    auto service = numbered(i, family);
    service.name.name += is_v4 ? "-v4" : "-v6";
    std::vector<api::Endpoint> endpoints{endpoint(is_v4 ? "10.244.0.3" : "fd00:244::3", "n1")};
    const std::string no_host = is_v4 ? kNoHost : "ff0e::1";
    if (i <= bad)
      endpoints.push_back(endpoint(bad_endpoint.empty() ? no_host : bad_endpoint, "n2"));
    objects.emplace_back(test::slice_of(service, 8080, endpoints));
    objects.emplace_back(std::move(service));
  }
  return objects;
}

model::ClusterState both(std::vector<api::Object> one, std::vector<api::Object> other) {
  std::move(other.begin(), other.end(), std::back_inserter(one));
  return test::cluster_of(std::move(one));
}

std::size_t count_in(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::vector<std::string> refused_now(const FakeDaemon& daemon) {
  std::vector<std::string> lines;
  daemon.ask([&](const Inspection& inspection) {
    for (const auto& [thing, entry] : inspection.refusals.all()) lines.push_back(to_string(entry));
  });
  return lines;
}

TEST_CASE("an endpoint that the kernel refuses harms nobody else") {
  FakeDaemon daemon;
  const auto report = daemon.see(test::web_with({test::e1(), endpoint(kNoHost, "n2")}));
  CHECK(report.settled);
  CHECK(report.well == Families{Family::ipv4});
  CHECK(report.refused == 1);
  CHECK(report.refusals.at(Family::ipv4).virtual_services == 1);
  CHECK(report.failures == 0);
  CHECK_FALSE(report.complete());
  CHECK(daemon.weights(kWeb).contains(kE1));
  CHECK(refused_now(daemon) ==
        std::vector<std::string>{
            "Service default/web: add real server 239.1.1.1:8080 weight 1 to virtual "
            "service 10.96.0.9:80/TCP: address: Invalid argument (malformed)"});
  CHECK(daemon.says("Service default/web: add real server 239.1.1.1:8080"));

  // It is tried again ever more rarely, in silence.
  const auto lines = count_in(daemon.log(), "\n");
  std::size_t tries = 0;
  daemon.ipvs.after = [&](const netlink::IpvsOp&) { ++tries; };
  daemon.wait(10min);
  CHECK(tries >= 8);
  CHECK(tries <= 11);
  tries = 0;
  daemon.wait(1h);
  CHECK(tries >= 11);
  CHECK(tries <= 13);
  CHECK(count_in(daemon.log(), "\n") == lines);

  // The object changes.
  CHECK(daemon.see(test::web_with({test::e1(), test::e2()})).refused == 0);
  CHECK(daemon.says("no longer refused: Service default/web"));
  CHECK(refused_now(daemon).empty());
  tries = 0;
  daemon.wait(1h);
  CHECK(tries == 0);
}

TEST_CASE("another reason for a refusal is told") {
  FakeDaemon daemon;
  daemon.see(test::web_with({test::e1(), endpoint(kNoHost, "n2")}));
  daemon.see(test::web_with({test::e1(), test::e2(), endpoint(kNoHost, "n2")}));
  CHECK(count_in(daemon.log(), "the kernel refuses") == 1);
  daemon.see(test::web_with({test::e1(), endpoint("224.0.0.1", "n2")}));
  CHECK(count_in(daemon.log(), "the kernel refuses") == 2);
  CHECK(daemon.says("add real server 224.0.0.1:8080"));
}

TEST_CASE("an address that cannot be bound is refused to its Service alone") {
  FakeDaemon daemon({.options = {}});
  auto web = test::web_service();
  web.cluster_ips = {ip("10.96.0.9"), ip("fd00:96::9")};
  web.ip_families = {Family::ipv4, Family::ipv6};
  web.external_ips = {ip("ff0e::1")};
  const auto cluster =
      test::cluster_of({web, test::slice_of(web, 8080, {test::e1()}),
                        test::slice_of(web, 8080, {endpoint("fd00:244::3", "n1")}, "v6")});
  auto report = daemon.see(cluster);
  CHECK(report.settled);
  CHECK(report.refused == 1);
  CHECK(report.refusals.at(Family::ipv6).addresses == 1);
  CHECK(daemon.is_bound("fd00:96::9"));
  CHECK(daemon.says("Service default/web: add address ff0e::1/128"));
  // Another try touches nothing else.
  daemon.wait(100s);
  const auto writes = daemon.writes();
  const auto runs = daemon.runs();
  daemon.wait(5min);
  CHECK(daemon.writes() - writes <= 2);
  CHECK(daemon.runs() - runs <= 14);
}

TEST_CASE("a set element that is refused hides what it guards, and that is all") {
  FakeDaemon daemon;
  daemon.sets.faults.fail("add KUBE-CLUSTER-IP 10.96.1.1",
                          {ErrorKind::malformed, 0, "Null-valued element"});
  auto report = daemon.see(both(services(3, 0, Family::ipv4), {}));
  REQUIRE(daemon.fault_hits() > 0);
  CHECK(report.settled);
  CHECK(report.failures == 0);
  CHECK(report.refusals.at(Family::ipv4).elements == 1);
  CHECK_FALSE(daemon.is_bound("10.96.1.1"));
  CHECK(daemon.is_bound("10.96.1.2"));
  CHECK(daemon.says("Service default/s1-v4"));
  daemon.clear_faults();
  daemon.wait(5min);
  CHECK(daemon.is_bound("10.96.1.1"));
  CHECK(refused_now(daemon).empty());
  CHECK(daemon.watch.broken.empty());
}

TEST_CASE("more than a tenth of a family's virtual services is this node's, ten at least") {
  struct Row {
    int count, bad;
    bool well;
  };
  for (const auto& row :
       {Row{9, 9, true}, Row{10, 10, false}, Row{100, 10, true}, Row{100, 11, false}}) {
    INFO(row.bad << " of " << row.count);
    FakeDaemon daemon({.options = {}});
    daemon.ipvs.faults.fail("add real server [fd00:244::bad]", {ErrorKind::malformed, EINVAL, ""});
    const auto report =
        daemon.see(both(services(100, 0, Family::ipv4),
                        services(row.count, row.bad, Family::ipv6, "fd00:244::bad")));
    CHECK(report.well.contains(Family::ipv4));
    CHECK(report.well.contains(Family::ipv6) == row.well);
    CHECK(report.settled == row.well);
    CHECK(daemon.says("more than a tenth of all: taken for a fault of this node") != row.well);
    if (row.well) continue;
    const auto mended =
        daemon.see(both(services(100, 0, Family::ipv4), services(row.count, 0, Family::ipv6)));
    CHECK(mended.settled);
    CHECK(daemon.says("IPv6: refusals are no longer taken for a fault of this node"));
  }
}

// So many Services of each namespace have an endpoint that the kernel refuses, of ten each.
std::vector<api::Object> in_namespaces(const std::vector<int>& bad, const std::string& endpoint) {
  std::vector<api::Object> objects;
  for (std::size_t i = 0; i < bad.size(); ++i)
    for (auto& object : services(10, bad[i], Family::ipv4, endpoint)) {
      const auto ns = fmt::format("ns{}", i);
      if (auto* service = std::get_if<api::Service>(&object)) {
        service->name.ns = ns;
        const auto last = service->cluster_ips.front().bytes()[3];
        service->cluster_ips = {ip(fmt::format("10.96.{}.{}", i + 1, last))};
      }
      if (auto* slice = std::get_if<api::EndpointSlice>(&object)) slice->name.ns = ns;
      objects.push_back(std::move(object));
    }
  return objects;
}

TEST_CASE("refusals are this node's if they are of three namespaces, none with more than half") {
  struct Row {
    std::vector<int> bad;  // of each namespace
    bool well;
  };
  for (const auto& [bad, well] :
       {Row{{10, 0, 0, 0}, true}, Row{{6, 6, 0, 0}, true}, Row{{7, 3, 3, 0}, true},
        Row{{6, 3, 3, 0}, false}, Row{{4, 4, 4, 0}, false}, Row{{3, 3, 3, 0}, true},
        // With fewer than three namespaces that have Services, ten suffice.
        Row{{10, 0}, false}, Row{{9, 0}, true}}) {
    INFO(fmt::format("{}", fmt::join(bad, ", ")));
    FakeDaemon daemon;
    daemon.ipvs.faults.fail("add real server 10.244.9.9:", {ErrorKind::malformed, EINVAL, ""});
    const auto report = daemon.see(test::cluster_of(in_namespaces(bad, "10.244.9.9")));
    CHECK(report.refused > 0);
    CHECK(report.well.contains(Family::ipv4) == well);
    CHECK(daemon.says("taken for a fault of this node") != well);
  }
}

// net/ipv4/fib_frontend.c, fib_add_ifaddr: the last address of a network is its broadcast address;
// before Linux 5.14 the first one was as well.
TEST_CASE("a broadcast address of a network of this node is its object's own fault") {
  FakeDaemon daemon;
  daemon.links.add_link("docker0", "bridge");
  daemon.links.add_address({"docker0", ip("172.17.0.1"), 16});
  daemon.see(netlink::LinkEvents{.lost = {}, .others_changed = true});
  const std::string broadcast = GENERATE("10.0.0.255", "10.0.0.0", "172.17.255.255");
  INFO(broadcast);
  daemon.ipvs.faults.fail("add real server " + broadcast, {ErrorKind::malformed, EINVAL, ""});
  auto report = daemon.see(test::cluster_of(in_namespaces({5, 5, 5}, broadcast)));
  CHECK(report.refused == 15);
  CHECK(report.well.contains(Family::ipv4));
  // An address within these networks is not.
  daemon.ipvs.faults.fail("add real server 172.17.0.255", {ErrorKind::malformed, EINVAL, ""});
  report = daemon.see(test::cluster_of(in_namespaces({5, 5, 5}, "172.17.0.255")));
  CHECK_FALSE(report.well.contains(Family::ipv4));
  // It is one of the networks that the node has from now on.
  daemon.links.add_address({"docker0", ip("172.17.0.2"), 24});
  daemon.see(netlink::LinkEvents{.lost = {}, .others_changed = true});
  daemon.wait(1min);
  report = daemon.see(netlink::LinkEvents{.lost = {}, .others_changed = true});
  CHECK(report.well.contains(Family::ipv4));
}

// net/ipv6/addrconf_core.c, __ipv6_addr_type: link-local addresses are the node's own at most.
TEST_CASE("a link-local endpoint of IPv6 is its object's own fault") {
  FakeDaemon daemon({.options = {}});
  const auto report =
      daemon.see(both(services(5, 0, Family::ipv4), services(20, 20, Family::ipv6, "fe80::dead")));
  CHECK(report.refusals.at(Family::ipv6).virtual_services == 20);
  CHECK(report.settled);
}

TEST_CASE("Services with addresses that no host can have never turn the node red, however many") {
  FakeDaemon daemon({.options = {}});
  auto some = services(20, 20, Family::ipv6);
  for (auto& object : some)
    if (auto* service = std::get_if<api::Service>(&object)) {
      service->external_ips = {ip("ff0e::7")};
      service->ports[0].port =
          static_cast<std::uint16_t>(1000 + service->cluster_ips[0].bytes()[15]);
    }
  const auto report = daemon.see(both(services(5, 0, Family::ipv4), some));
  CHECK(report.refusals.at(Family::ipv6).virtual_services >= 20);
  CHECK(report.refusals.at(Family::ipv6).addresses == 1);
  CHECK(report.settled);
  CHECK(report.well == Families{Family::ipv4, Family::ipv6});
}

TEST_CASE("addresses that no host can have do not hide what is this node's fault") {
  FakeDaemon daemon({.options = {}});
  daemon.ipvs.faults.fail("add real server [fd00:244::bad]", {ErrorKind::malformed, EINVAL, ""});
  auto some = services(30, 12, Family::ipv6, "fd00:244::bad");
  for (auto& object : services(200, 200, Family::ipv4))
    if (auto* service = std::get_if<api::Service>(&object)) {
      service->name.name += "-of-nobody";
      service->ip_families = {Family::ipv6};
      service->cluster_ips = {ip(fmt::format("fd00:97::{:x}", service->cluster_ips[0].bytes()[3]))};
      some.emplace_back(test::slice_of(*service, 8080, {endpoint("ff0e::1", "n2")}));
      some.push_back(object);
    }
  const auto report = daemon.see(both(services(5, 0, Family::ipv4), some));
  CHECK(report.refusals.at(Family::ipv6).virtual_services >= 12);
  CHECK_FALSE(report.well.contains(Family::ipv6));
}

TEST_CASE("what is taken for a fault of this node is tried again within a sync period") {
  FakeDaemon daemon({.options = {}});
  daemon.ipvs.faults.fail("add real server", {ErrorKind::malformed, EINVAL, ""});
  daemon.see(both(services(20, 0, Family::ipv4), services(20, 0, Family::ipv6)));
  daemon.wait(20min);
  CHECK(daemon.says("taken for a fault of this node"));
  daemon.clear_faults();
  daemon.wait(30s);
  CHECK(daemon.differences() == std::set<std::string>{});
}

TEST_CASE("one Service with many ports and addresses never turns the node red") {
  FakeDaemon daemon({.options = {}});
  auto bad = numbered(1, Family::ipv6);
  bad.ports.clear();
  for (std::uint16_t port = 1; port <= 20; ++port)
    bad.ports.push_back({.name = "p" + std::to_string(port), .port = port});
  auto slice =
      test::slice_of(bad, 8080, {endpoint("fd00:244::3", "n1"), endpoint("ff0e::1", "n2")});
  slice.ports.clear();
  for (const auto& port : bad.ports) slice.ports.push_back({.name = port.name, .port = 8080});
  auto some = services(5, 0, Family::ipv6);
  some.emplace_back(slice);
  some.emplace_back(bad);
  const auto report = daemon.see(both(services(5, 0, Family::ipv4), some));
  CHECK(report.refusals.at(Family::ipv6).virtual_services == 20);
  CHECK(report.settled);
  CHECK(report.well == Families{Family::ipv4, Family::ipv6});
}

TEST_CASE("a family of which nothing serves is not well, however few they are") {
  FakeDaemon daemon({.options = {}});
  daemon.links.faults.fail("add address fd00:96::", {ErrorKind::malformed, EADDRNOTAVAIL, ""});
  const auto report = daemon.see(both(services(5, 0, Family::ipv4), services(3, 0, Family::ipv6)));
  CHECK(report.well == Families{Family::ipv4});
  CHECK_FALSE(report.settled);
}

TEST_CASE("a thousand bad endpoints of one Service are one virtual service") {
  FakeDaemon daemon;
  std::vector<api::Endpoint> endpoints{test::e1()};
  for (int i = 0; i < 1000; ++i)
    endpoints.push_back(
        endpoint("239.1." + std::to_string(i / 250) + "." + std::to_string(i % 250), "n2"));
  auto report = daemon.see(test::web_with(endpoints));
  CHECK(report.settled);
  CHECK(report.refused == 1);
  CHECK(count_in(daemon.log(), "239.1.") == 1);
  CHECK(daemon.says("and 999 more of it"));
}

TEST_CASE("Services that flip all the time are told of so often a minute, and others in between") {
  constexpr std::size_t kMinutes = 2;
  FakeDaemon daemon;
  daemon.see(both(services(20, 0, Family::ipv4), {}));
  const auto before = count_in(daemon.log(), "\n");
  for (std::size_t i = 0; i < kMinutes * 120; ++i) {
    daemon.see(both(services(20, i % 2 == 0 ? 3 : 0, Family::ipv4), {}));
    daemon.wait(500ms);
  }
  const auto lines = count_in(daemon.log(), "\n") - before;
  INFO(lines << " lines");
  CHECK(count_in(daemon.log(), "the kernel refuses this one") >= kMinutes);
  // Refusals that begin and end, syncs, and how many of each were left out.
  CHECK(lines <= kMinutes * (30 + 60 + 2));
  // What an object makes an error of is told all the same.
  auto cluster = both(services(20, 0, Family::ipv4), {});
  auto other = numbered(99);
  other.cluster_ips = {ip("10.96.1.1")};
  cluster.put(other);
  daemon.see(cluster);
  CHECK(count_in(daemon.log(), "s99") >= 1);
}

TEST_CASE("what is denied, or has no memory, is the node's, of its family") {
  const int error = GENERATE(EACCES, EPERM, ENOMEM, ENOSPC, EOPNOTSUPP);
  FakeDaemon daemon({.options = {}});
  daemon.links.faults.fail("add address fd00:",
                           netlink::make_error(netlink::Operation::address, error, ""));
  const auto report = daemon.see(both(services(2, 0, Family::ipv4), services(2, 0, Family::ipv6)));
  CHECK(report.well == Families{Family::ipv4});
  CHECK(report.refused == 0);
  CHECK(report.failures == 2);
  daemon.clear_faults();
  CHECK(daemon.wait(1min).settled);
}

TEST_CASE("health follows the node, with an endpoint refused") {
  test::TestClock clock;
  serve::Status status({.sync_period = 30s}, clock.clock());
  serve::Metrics metrics({.families = {Family::ipv4}, .version = "1.2.3"});
  Publisher publisher(status, metrics, {Family::ipv4});
  status.set_node_eligible(true);
  FakeDaemon daemon;
  publisher.started();
  auto web = test::web_service();
  web.type = api::ServiceType::load_balancer;
  web.external_policy_local = true;
  web.health_check_node_port = 31000;
  publisher.began(true);
  auto report = daemon.see(
      test::cluster_of({web, test::slice_of(web, 8080, {test::e1(), endpoint(kNoHost, "n1")})}));
  REQUIRE(report.health.services.size() == 1);
  CHECK(report.health.services.at(web.name)->ipv4_endpoints == 2);
  publisher.ended(std::move(report), 1ms);
  CHECK(status.health().ready());
  clock.advance(10min);
  CHECK(status.health().ready());
  const auto text = metrics.exposition(status);
  CHECK(text.find("ipvsproxier_refused{ip_family=\"IPv4\",kind=\"ipvs\"} 1") != std::string::npos);
  CHECK(text.find("ipvsproxier_refused{ip_family=\"IPv4\",kind=\"link\"} 0") != std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::sync
