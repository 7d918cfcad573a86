// What a run of the reconciler did, as its report and as metrics.

#include "proxier/sync/publisher.h"

#include <cerrno>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"
#include "test/support/test_clock.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using netlink::ErrorKind;
using netlink::Family;
using netlink::FlowEnd;
using netlink::Protocol;
using test::ip;
using test::kWeb;
using test::web_with;

using Triggers = std::vector<model::Trigger>;
using Wall = std::chrono::system_clock::time_point;

constexpr Wall kBegin{1'700'000'000s};

// web_with() whose slice the cluster changed at `time`.
model::ClusterState web_at(Wall time, std::vector<api::Endpoint> endpoints) {
  auto cluster = web_with(std::move(endpoints));
  test::edit_slice(cluster.slices.at({"default", "web"}), "web-1",
                   [&](auto& slice) { slice.trigger.time = time; });
  return cluster;
}

Triggers web_triggers(Wall time) {
  return {{{"default", "web"}, Family::ipv4, time}};
}

TEST_CASE("a change of endpoints is reported when the kernel has it", "[item-3]") {
  test::FakeDaemon daemon;
  CHECK(daemon.see(web_at(kBegin, {test::e1()})).programmed == web_triggers(kBegin));
  CHECK(daemon.see(web_at(kBegin + 1s, {test::e1()})).programmed.empty());
  daemon.ipvs.faults.fail("add real server", {ErrorKind::io, EIO, ""}, 2);
  CHECK(daemon.see(web_at(kBegin + 2s, {test::e1(), test::e2()})).programmed.empty());
  CHECK(daemon.wait(600ms).programmed.empty());
  CHECK(daemon.wait(10s).programmed == web_triggers(kBegin + 2s));
}

TEST_CASE("families whose rules the kernel refuses are reported") {
  test::FakeDaemon daemon;
  daemon.rules.faults.fail("write", {ErrorKind::io, EIO, ""}, 1);
  CHECK(daemon.see(web_with({test::e1()})).rules_failed == std::set{Family::ipv4});
  CHECK(daemon.wait(10s).rules_failed.empty());
}

struct PublisherRig {
  test::TestClock clock{kBegin};
  serve::Status status{{}, clock.clock()};
  serve::Metrics metrics{{.families = {Family::ipv4, Family::ipv6}, .version = "1"}};
  Publisher publisher{status, metrics, {Family::ipv4, Family::ipv6}};

  std::string text() const { return metrics.exposition(status); }
};

// Services of both families on a node whose kernel takes no address of IPv6.
TEST_CASE("a family that the kernel refuses counts only if the Node has an address of it") {
  const bool has_ipv6 = GENERATE(false, true);
  test::FakeDaemon daemon({.options = {}});
  daemon.links.faults.fail("add address fd00:", {ErrorKind::denied, EACCES, ""});
  auto web = test::web_service();
  web.cluster_ips = {ip("10.96.0.9"), ip("fd00:96::9")};
  web.ip_families = {Family::ipv4, Family::ipv6};
  auto cluster = test::cluster_of({web, test::slice_of(web, 8080, {test::e1()})});
  cluster.node = api::Node{.name = "n1", .internal_ips = {ip("10.0.0.1")}};
  if (has_ipv6) cluster.node->internal_ips.push_back(ip("fd00:10::1"));
  daemon.see(cluster);
  const auto report = daemon.wait(2min);
  CHECK_FALSE(report.well.contains(Family::ipv6));
  CHECK(report.well.contains(Family::ipv4));
  CHECK(report.aside == (has_ipv6 ? std::set<Family>{} : std::set{Family::ipv6}));

  PublisherRig rig;
  rig.publisher.started();
  rig.publisher.began(true);
  rig.publisher.ended(report, 1s);
  CHECK(rig.status.families_healthy() == !has_ipv6);
  CHECK(rig.status.wrong().empty() == has_ipv6);
  daemon.clear_faults();
  CHECK(daemon.wait(10min).aside.empty());
}

TEST_CASE("looks at stale flows are reported by family, with what failed") {
  test::FakeDaemon daemon;
  CHECK(daemon.see(web_with({test::e1()})).purges.size() == 1);          // flows before the Service
  CHECK(daemon.see(web_with({test::e1(), test::e2()})).purges.empty());  // no UDP
  const auto first = daemon.see(web_with({test::e1(), test::e2()}, Protocol::udp));
  REQUIRE(first.purges.size() == 1);
  CHECK(first.purges.at(Family::ipv4).removed == 0);
  for (std::uint16_t port = 4001; port <= 4003; ++port)
    daemon.conntrack.track({ip("10.1.0.1"), port}, {ip("10.96.0.9"), 80}, {ip("10.244.1.4"), 8080});
  daemon.conntrack.faults.fail("remove UDP flow", {ErrorKind::io, EIO, ""}, 1);
  const auto report = daemon.see(web_with({test::e1()}, Protocol::udp));
  REQUIRE(report.purges.size() == 1);
  CHECK(report.purges.at(Family::ipv4).removed == 2);
  CHECK(report.purges.at(Family::ipv4).failed == 1);
  CHECK(report.requests.conntrack == 4);  // one listing
}

TEST_CASE("requests are those since the last report") {
  test::FakeDaemon daemon;
  const auto first = daemon.see(web_with({test::e1()}));
  CHECK(first.requests.ipvs == daemon.ipvs.writes());
  CHECK(first.requests.ipvs > 0);
  CHECK(daemon.see(web_with({test::e1()})).requests.ipvs == 0);
}

TEST_CASE("Services without local endpoints are reported") {
  test::FakeDaemon daemon;
  auto cluster = web_with({test::e2()});
  cluster.services.at({"default", "web"}).internal_policy_local = true;
  const auto report = daemon.see(cluster);
  CHECK(report.lack == std::map<Family, plan::LocalLack>{{Family::ipv4, {.internal = 1}}});
}

TEST_CASE("a report becomes metrics") {
  PublisherRig rig;
  rig.clock.advance(10s);
  SyncReport report;
  report.rules_failed = {Family::ipv6};
  report.purges[Family::ipv4] = {.removed = 3, .failed = 2, .took = 3ms};
  report.lack[Family::ipv4] = {.internal = 1, .external = 2};
  report.requests = {.ipvs = 10, .links = 11, .sets = 12, .conntrack = 13};
  report.failed.ipvs = 4;
  report.flows_unreadable = true;
  report.firewall_drops = 2;
  report.refusals[Family::ipv6].by_foreign = 3;
  rig.publisher.ended(std::move(report), 1ms);
  const auto text = rig.text();
  for (const auto* line :
       {R"(sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"} 0)",
        R"(sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv6"} 1)",
        R"(conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 3)",
        R"(conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"} 1)",
        R"(conntrack_reconciler_sync_duration_seconds_bucket{ip_family="IPv4",le="0.002"} 0)",
        R"(conntrack_reconciler_sync_duration_seconds_bucket{ip_family="IPv4",le="0.004"} 1)",
        R"(conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv6"} 0)",
        R"(no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"} 1)",
        R"(no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 2)",
        R"(netlink_messages_total{kind="ipvs"} 10)", R"(netlink_messages_total{kind="link"} 11)",
        R"(netlink_messages_total{kind="set"} 12)",
        R"(netlink_messages_total{kind="conntrack"} 13)", R"(netlink_errors_total{kind="ipvs"} 4)",
        R"(netlink_errors_total{kind="conntrack"} 2)", "ipvsproxier_udp_flows_unreadable 1",
        "ipvsproxier_firewall_drops 2",
        R"(ipvsproxier_services_meeting_foreign{ip_family="IPv4"} 0)",
        R"(ipvsproxier_services_meeting_foreign{ip_family="IPv6"} 3)"})
    CHECK_THAT(text, Contains(std::string(line) + "\n"));
}

TEST_CASE("what the cluster changed before we began is not measured") {
  PublisherRig rig;
  rig.clock.advance(10s);
  SyncReport report;
  const api::NamespacedName web{"default", "web"};
  report.programmed = {{web, Family::ipv4, kBegin - 1h},
                       {web, Family::ipv4, kBegin},
                       {web, Family::ipv4, kBegin + 7s},
                       {web, Family::ipv4, kBegin + 11s},  // by a clock that is ahead
                       {web, Family::ipv6, kBegin - 1h},
                       {web, Family::ipv6, kBegin + 4s}};
  rig.publisher.ended(std::move(report), 1ms);
  const auto text = rig.text();
  const std::string name = "kubeproxy_network_programming_duration_seconds";
  CHECK_THAT(text, Contains(name + R"(_count{ip_family="IPv4"} 2)" + "\n"));
  CHECK_THAT(text, Contains(name + R"(_sum{ip_family="IPv4"} 3)" + "\n"));
  CHECK_THAT(text, Contains(name + R"(_bucket{ip_family="IPv4",le="2"} 1)" + "\n"));
  CHECK_THAT(text, Contains(name + R"(_count{ip_family="IPv6"} 1)" + "\n"));
  CHECK_THAT(text, Contains(name + R"(_sum{ip_family="IPv6"} 6)" + "\n"));
}

TEST_CASE("the parts of a reading back are one sync, as long as all of them") {
  PublisherRig rig;
  const std::string count = R"(sync_proxy_rules_duration_seconds_count{ip_family="IPv4"} )";
  const std::string sum = R"(sync_proxy_rules_duration_seconds_sum{ip_family="IPv4"} )";
  SyncReport part;
  part.reading = true;
  part.settled = true;
  part.requests.ipvs = 5;
  for (int i = 0; i < 3; ++i) {
    rig.publisher.began(true);
    rig.publisher.ended(part, 1s);
  }
  CHECK_THAT(rig.text(), Contains(count + "0\n"));
  CHECK_THAT(rig.text(), Contains(R"(netlink_messages_total{kind="ipvs"} 15)"));
  CHECK_FALSE(rig.status.families_healthy());
  SyncReport last;
  last.whole = true;
  last.settled = true;
  last.well = {Family::ipv4, Family::ipv6};
  rig.publisher.ended(std::move(last), 1s);
  CHECK_THAT(rig.text(), Contains(count + "1\n"));
  CHECK_THAT(rig.text(), Contains(sum + "4\n"));
}

}  // namespace
}  // namespace ipvsproxier::sync
