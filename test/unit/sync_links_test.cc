// VIPs on more links than one: the reconciler on fakes.

#include <cerrno>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::ErrorKind;
using netlink::IpAddress;
using test::ip;

using Daemon = test::FakeDaemon;
using Lines = std::vector<std::string>;

IpAddress numbered_vip(std::uint32_t number) {
  return IpAddress::v4(0x0a610000U + number);
}

// Services with the addresses of these numbers; a hundred addresses a Service.
model::ClusterState cluster_with(std::uint32_t first, std::uint32_t count) {
  std::vector<api::Object> objects;
  for (std::uint32_t next = first; next < first + count;) {
    auto service = test::web_service();
    service.name.name = "s" + std::to_string(next);
    service.cluster_ips = {numbered_vip(next++)};
    for (int i = 1; i < 100 && next < first + count; ++i)
      service.external_ips.push_back(numbered_vip(next++));
    objects.emplace_back(std::move(service));
  }
  return test::cluster_of(std::move(objects));
}

// Links of ours with the number of their addresses.
Lines held(const Daemon& daemon) {
  std::map<std::string, int> counts;
  for (const auto& one : daemon.links.addresses())
    if (plan::dummy_number(one.link)) ++counts[one.link];
  Lines lines;
  for (const auto& [link, count] : counts) lines.push_back(link + " " + std::to_string(count));
  return lines;
}

Lines our_links(Daemon& daemon) {
  Lines lines;
  const auto links = daemon.links.list_links().value();
  for (const auto& link : links)
    if (plan::dummy_number(link)) lines.push_back(link);
  return lines;
}

TEST_CASE("VIPs that kube-ipvs0 does not hold go to further links, and stay there", "[slow]") {
  Daemon daemon;
  const auto all = cluster_with(0, 5200);
  const auto report = daemon.see(all);
  CHECK(report.complete());
  CHECK(report.written.links == 3);
  const Lines wanted{"kube-ipvs0 4096", "kube-ipvs1 1024", "kube-ipvs2 80"};
  CHECK(held(daemon) == wanted);

  // Neither another process nor room before them moves them.
  daemon.restart();
  const auto before = daemon.writes();
  CHECK(daemon.see(all).complete());
  CHECK(daemon.writes() == before);

  daemon.see(cluster_with(100, 5100));
  CHECK(held(daemon) == Lines{"kube-ipvs0 3996", "kube-ipvs1 1024", "kube-ipvs2 80"});
  daemon.see(cluster_with(100, 5250));
  CHECK(held(daemon) == Lines{"kube-ipvs0 4096", "kube-ipvs1 1024", "kube-ipvs2 130"});

  // A link that is empty goes; the first stays.
  daemon.see(cluster_with(100, 5000));
  CHECK(our_links(daemon) == Lines{"kube-ipvs0", "kube-ipvs1"});
  daemon.see(cluster_with(0, 0));
  CHECK(our_links(daemon) == Lines{"kube-ipvs0"});
  CHECK(daemon.watch.broken == Lines{});
}

TEST_CASE(
    "loopback is no Service's, and link-local addresses leave with theirs, but as kube-proxy") {
  for (const bool compat : {false, true}) {
    INFO(compat);
    plan::PlannerOptions options;
    if (compat) options.differences = plan::kKubeProxyCompat;
    Daemon daemon({.drain = {}, .options = options, .remove_nft_leftovers = {}});
    auto web = test::web_service();
    web.cluster_ips.push_back(ip("fd00:96::9"));
    web.ip_families.push_back(netlink::Family::ipv6);
    web.load_balancer_ips = {ip("127.8.8.8"), ip("fe80::97:1")};
    daemon.see(test::cluster_of({web}));
    daemon.wait(5min);  // the kernel is read back
    const auto writes = daemon.writes();
    daemon.wait(5min);
    CHECK(daemon.writes() == writes);
    CHECK(daemon.is_bound("127.8.8.8") == compat);
    CHECK(daemon.is_bound("fe80::97:1"));
    daemon.see(model::ClusterState{});
    daemon.wait(5min);
    CHECK_FALSE(daemon.is_bound("10.96.0.9"));
    CHECK(daemon.is_bound("127.8.8.8") == compat);
    CHECK(daemon.is_bound("fe80::97:1") == compat);
  }
}

TEST_CASE("up to what kube-ipvs0 holds there is no further link, and as kube-proxy has it never") {
  const bool compat = GENERATE(false, true);
  test::FakeDaemonSettings settings;
  settings.options.differences.spread_addresses = !compat;
  Daemon daemon(settings);
  const std::uint32_t count = compat ? 4200 : 4096;
  CHECK(daemon.see(cluster_with(0, count)).complete());
  CHECK(held(daemon) == Lines{"kube-ipvs0 " + std::to_string(count)});
  CHECK(our_links(daemon) == Lines{"kube-ipvs0"});
}

TEST_CASE("a further link that others take is made again with its addresses") {
  Daemon daemon;
  daemon.see(cluster_with(0, 4100));
  netlink::LinkEvents events;
  for (std::uint32_t i = 4096; i < 4100; ++i) events.lost.insert(numbered_vip(i));
  SECTION("it is gone") {
    daemon.links.remove_link("kube-ipvs1");
    events.link_lost = true;
  }
  SECTION("it is empty") {
    for (const auto& address : events.lost)
      daemon.links.remove_address({"kube-ipvs1", address, 32});
  }
  daemon.see(events);
  CHECK(held(daemon) == Lines{"kube-ipvs0 4096", "kube-ipvs1 4"});
  CHECK(
      daemon.says("others removed address 10.97.16.0, 10.97.16.1, 10.97.16.2, 10.97.16.3 from "
                  "kube-ipvs1: adding it again"));
}

TEST_CASE("what others made of our links' names is theirs") {
  Daemon daemon;
  daemon.links.add_link("kube-ipvs1", "veth");
  daemon.links.add_address({"kube-ipvs1", ip("10.9.9.9"), 32});
  const auto report = daemon.see(cluster_with(0, 4100));
  CHECK(report.failures == 5);  // the link, and four addresses that wait for it
  CHECK(daemon.says("make link kube-ipvs1"));
  CHECK(daemon.links.contains("kube-ipvs1", ip("10.9.9.9")));
  daemon.links.remove_link("kube-ipvs1");
  daemon.wait(5s);
  CHECK(held(daemon) == Lines{"kube-ipvs0 4096", "kube-ipvs1 4"});
}

TEST_CASE("an address whose addition got no answer goes from the link that may have it") {
  Daemon daemon;
  daemon.see(cluster_with(0, 4096));
  daemon.links.faults.lose("add address 10.97.16.0/32", 1);
  auto more = cluster_with(0, 4097);
  daemon.see(more);
  CHECK(daemon.links.contains("kube-ipvs1", numbered_vip(4096)));
  daemon.see(cluster_with(0, 4096));
  CHECK_FALSE(daemon.links.is_bound(numbered_vip(4096)));
  CHECK(daemon.watch.broken == Lines{});
}

TEST_CASE("an address that cannot be added to its new link stays on its old one") {
  test::FakeDaemonSettings settings;
  settings.options.differences.spread_addresses = false;
  Daemon daemon(settings);
  daemon.links.add_link("kube-ipvs1", "dummy");
  daemon.links.add_address({"kube-ipvs1", ip("10.96.0.9"), 32});
  daemon.links.faults.fail("add address 10.96.0.9", {ErrorKind::io, EIO, ""}, 1);
  daemon.see(test::web_with({test::e1()}));
  CHECK(held(daemon) == Lines{"kube-ipvs1 1"});
  daemon.wait(5s);
  CHECK(held(daemon) == Lines{"kube-ipvs0 1"});
  CHECK(our_links(daemon) == Lines{"kube-ipvs0"});
  CHECK(daemon.watch.broken == Lines{});
}

test::FakeDaemonSettings by_routes() {
  test::FakeDaemonSettings settings;
  settings.options.bind_by_routes = true;
  return settings;
}

TEST_CASE("VIPs are bound by local routes, which another process finds", "[slow]") {
  Daemon daemon(by_routes());
  const auto report = daemon.see(cluster_with(0, 5200));
  CHECK(report.complete());
  CHECK(report.written.addresses == 5200);
  CHECK(held(daemon) == Lines{});
  CHECK(our_links(daemon) == Lines{"kube-ipvs0"});
  CHECK(daemon.links.local_routes().size() == 5200);

  daemon.restart();
  const auto before = daemon.writes();
  CHECK(daemon.see(cluster_with(0, 5200)).complete());
  CHECK(daemon.writes() == before);
  daemon.see(cluster_with(100, 100));
  CHECK(daemon.links.local_routes().size() == 100);
  CHECK(daemon.watch.broken == Lines{});
}

TEST_CASE("a local route that others removed is told and added again") {
  Daemon daemon(by_routes());
  daemon.see(test::web_with({test::e1()}));
  daemon.links.remove_local_route(ip("10.96.0.9"));
  SECTION("by an event") {
    netlink::LinkEvents events;
    events.lost = {ip("10.96.0.9")};
    CHECK(daemon.see(events).repairs == 1);
    CHECK(daemon.says("others removed address 10.96.0.9 from table local: adding it again"));
  }
  SECTION("by reading the kernel") {
    daemon.wait(60s);
    CHECK(daemon.says("others changed the kernel; repairing: add local route 10.96.0.9/32"));
  }
  CHECK(daemon.links.local_routes() == std::set{ip("10.96.0.9")});
}

TEST_CASE("routes that cannot be listed leave every binding as it is") {
  Daemon daemon(by_routes());
  daemon.see(test::web_with({test::e1()}));
  daemon.restart();
  daemon.links.faults.fail("list local routes", {ErrorKind::io, EIO, ""}, 1);
  const auto before = daemon.links.writes();
  CHECK_FALSE(daemon.see(test::web_with({test::e1()})).complete());
  CHECK(daemon.links.writes() == before);
  daemon.wait(60s);
  CHECK(daemon.links.local_routes() == std::set{ip("10.96.0.9")});
}

TEST_CASE("an address that gets no local route stays on its link until it does, and back") {
  Daemon daemon;
  daemon.see(test::web_with({test::e1()}));
  CHECK(held(daemon) == Lines{"kube-ipvs0 1"});
  daemon.links.faults.fail("add local route 10.96.0.9", {ErrorKind::io, EIO, ""}, 1);
  daemon.restart(by_routes().options);
  daemon.see(test::web_with({test::e1()}));
  CHECK(held(daemon) == Lines{"kube-ipvs0 1"});
  daemon.wait(60s);
  CHECK(held(daemon) == Lines{});
  CHECK(daemon.links.local_routes() == std::set{ip("10.96.0.9")});

  daemon.links.faults.fail("add address 10.96.0.9", {ErrorKind::io, EIO, ""}, 1);
  daemon.restart(test::FakeDaemonSettings{}.options);
  daemon.see(test::web_with({test::e1()}));
  CHECK(daemon.links.local_routes() == std::set{ip("10.96.0.9")});
  daemon.wait(60s);
  CHECK(held(daemon) == Lines{"kube-ipvs0 1"});
  CHECK(daemon.links.local_routes().empty());
  CHECK(daemon.watch.broken == Lines{});
}

}  // namespace
}  // namespace ipvsproxier::sync
