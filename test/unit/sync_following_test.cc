// The reconciler as a daemon uses it, on fakes and a clock that the test sets: changes, retries,
// reading back, sets that grow, links.

#include <cerrno>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"
#include "test/support/fake_host.h"
#include "test/support/random_cluster.h"
#include "test/support/random_run.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::ErrorKind;
using netlink::Family;
using netlink::Protocol;
using test::ip;
using test::kE1;
using test::kE2;
using test::kWeb;
using test::web_with;

using Daemon = test::FakeDaemon;

TEST_CASE("nothing is written before the first lists are there") {
  Daemon daemon;
  CHECK(daemon.see(netlink::LinkEvents{.others_changed = true}).empty());
  CHECK(daemon.writes() == 0);
}

TEST_CASE("a change costs what changed, an unchanged object nothing") {
  Daemon daemon;
  REQUIRE(daemon.see(web_with({test::e1(), test::e2()})).complete());
  auto before = daemon.writes();
  CHECK(daemon.see(web_with({test::e1(), test::e2()})).empty());
  CHECK(daemon.writes() == before);

  const auto report =
      daemon.see(web_with({test::e1(), test::e2(), test::endpoint("10.244.1.5", "n2")}));
  CHECK(report.written == Written{.ipvs = 1});
  CHECK(daemon.weights(kWeb).size() == 3);
}

TEST_CASE("each sysctl that is changed is told with both values") {
  const test::FakeHost host;
  test::FakeDaemonSettings settings;
  settings.host = host.setup();
  Daemon daemon(settings);
  daemon.see(web_with({test::e1()}));
  CHECK(daemon.says("set sysctl net/netfilter/nf_conntrack_max from 65536 to 131072\n"));
  CHECK(daemon.says("set sysctl net/ipv4/ip_forward from 0 to 1\n"));
}

TEST_CASE("what failed is tried again with growing pauses, the rest is in place", "[item-2]") {
  Daemon daemon;
  daemon.ipvs.faults.fail("add real server 10.244.1.4", {ErrorKind::io, EIO, ""}, 3);
  CHECK(daemon.see(web_with({test::e1(), test::e2()})).failures == 1);
  CHECK(daemon.weights(kWeb).size() == 1);
  daemon.wait(400ms);
  CHECK(daemon.weights(kWeb).size() == 1);
  daemon.wait(4s);
  CHECK(daemon.weights(kWeb).size() == 2);
  CHECK(daemon.says("trying again in"));
}

TEST_CASE("a VIP that was held back is tried again together with what guards it") {
  Daemon daemon;
  daemon.sets.faults.fail("add KUBE-CLUSTER-IP", {ErrorKind::io, ENOSPC, "full"}, 2);
  daemon.see(web_with({test::e1()}));
  CHECK(daemon.weights(kWeb).empty());
  CHECK_FALSE(daemon.is_bound("10.96.0.9"));
  daemon.wait(5s);
  CHECK(daemon.weights(kWeb).size() == 1);
  CHECK(daemon.is_bound("10.96.0.9"));
}

TEST_CASE("a set that becomes too small is replaced, one that is made otherwise too", "[slow]") {
  auto cluster = web_with({test::e1()});
  auto& web = cluster.services.at({"default", "web"});
  web.type = api::ServiceType::load_balancer;
  web.load_balancer_ips = {ip("192.0.2.10")};
  web.source_ranges = {test::prefix("203.0.113.0/24")};
  const ipset::SetSpec foreign{.name = "KUBE-LOAD-BALANCER-SOURCE-CIDR",
                               .kind = ipset::SetKind::hash_ip_port_net,
                               .max_elements = 2};
  Daemon daemon;
  REQUIRE(daemon.sets.ensure(foreign));
  REQUIRE(daemon.sets.ensure({.name = ipset::kCopyName, .kind = ipset::SetKind::hash_ip}));
  daemon.see(cluster);
  CHECK(daemon.sets.list(foreign.name).value()->spec.max_elements == 65536);
  CHECK_FALSE(*daemon.sets.list(ipset::kCopyName));
  web.ports.clear();
  for (std::uint16_t port = 1; port <= 100; ++port)
    web.ports.push_back({"p" + std::to_string(port), Protocol::tcp, port, 0});
  for (std::uint32_t i = 1; i < 700; ++i)
    web.source_ranges.push_back(
        netlink::IpPrefix::of(netlink::IpAddress::v4(0x14000000U + i * 256), 24));
  const auto report = daemon.see(cluster);
  CHECK(report.failures == 0);
  CHECK(report.written.sets == 1);
  CHECK(daemon.sets.list(foreign.name).value()->spec.max_elements == 131072);
  CHECK(daemon.sets.list(foreign.name).value()->elements.size() == 70'000);
  daemon.restart();
  CHECK(daemon.see(cluster).empty());
}

TEST_CASE("a set that cannot be replaced is used as it is") {
  Daemon daemon;
  daemon.see(web_with({test::e1()}));
  const ipset::SetSpec other{
      .name = "KUBE-CLUSTER-IP", .kind = ipset::SetKind::hash_ip_port, .max_elements = 2};
  REQUIRE(daemon.sets.ensure(other));
  daemon.sets.faults.fail("make set KUBE-CLUSTER-IP", {ErrorKind::io, ENOMEM, ""}, 2);
  daemon.wait(30s);
  CHECK(daemon.says("make set KUBE-CLUSTER-IP"));
  auto cluster = web_with({test::e1()});
  auto shop = test::web_service();
  shop.name.name = "shop";
  shop.cluster_ips = {ip("10.96.0.8")};
  cluster.put(shop);
  daemon.see(cluster);
  CHECK(daemon.is_bound("10.96.0.8"));
  daemon.wait(60s);
  CHECK(daemon.sets.list(other.name).value()->spec.max_elements == 65536);
}

TEST_CASE("a surprising answer makes the kernel be read again soon") {
  Daemon daemon;
  daemon.see(web_with({test::e1()}));
  const std::vector<netlink::IpvsOp> others = {netlink::DeleteService{kWeb}};
  REQUIRE(daemon.ipvs.apply(others).at(0));
  daemon.see(web_with({test::e1(), test::e2()}));
  daemon.wait(1s);
  CHECK(daemon.weights(kWeb).size() == 2);
}

TEST_CASE("what others change is found by the next reading, told and repaired", "[item-11]") {
  Daemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}));
  const std::vector<netlink::IpvsOp> others = {
      netlink::EditServer{kWeb, {.key = kE1, .weight = 7}}, netlink::DeleteServer{kWeb, kE2},
      netlink::AddService{{.key = {ip("10.96.0.9"), Protocol::tcp, 1}, .scheduler = "rr"}}};
  for (const auto& status : daemon.ipvs.apply(others)) REQUIRE(status);
  daemon.rules.edit(Family::ipv4, ipset::Table::nat, "-F KUBE-MARK-MASQ");
  daemon.wait(29s);
  CHECK(daemon.weights(kWeb).size() == 1);
  daemon.wait(2s);
  CHECK(daemon.weights(kWeb) ==
        std::map<netlink::RealServerKey, std::uint32_t>{{kE1, 1}, {kE2, 1}});
  CHECK(daemon.says("others changed the kernel; repairing: add real server 10.244.1.4:8080"));
  CHECK(daemon.says("10.96.0.9:1/TCP"));
  CHECK(daemon.says("KUBE-MARK-MASQ"));
  const auto before = daemon.writes();
  daemon.wait(70s);
  CHECK(daemon.writes() == before);
}

TEST_CASE("a change of the packet filter that is told is repaired at once") {
  Daemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}));
  daemon.rules.edit(Family::ipv4, ipset::Table::nat, "-F KUBE-MARK-MASQ");
  daemon.wait(100ms);
  CHECK_FALSE(daemon.says("KUBE-MARK-MASQ"));
  daemon.see_filter_change();
  daemon.wait(100ms);
  CHECK(daemon.says("others changed the kernel; repairing"));
  CHECK(daemon.says("KUBE-MARK-MASQ"));
  CHECK(daemon.differences() == std::set<std::string>{});
}

TEST_CASE("who changes the packet filter all the time makes few readings") {
  Daemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}));
  const auto before = daemon.links.listings();
  for (int i = 0; i < 6000; ++i) {
    daemon.see_filter_change();
    daemon.wait(10ms);
  }
  const auto readings = daemon.links.listings() - before;  // each lists the links once
  CHECK(readings > 8);
  CHECK(readings < 20);
}

TEST_CASE("an address that others took away comes back at once; our own removals are no news") {
  Daemon daemon;
  daemon.see(web_with({test::e1()}));
  const std::vector<netlink::AddressOp> others = {{false, ip("10.96.0.9")}};
  REQUIRE(daemon.links.apply(plan::kDummyLink, others).at(0));
  CHECK(daemon.see(netlink::LinkEvents{.lost = {ip("10.96.0.9")}}).repairs == 1);
  CHECK(daemon.is_bound("10.96.0.9"));
  CHECK(daemon.says("others removed address 10.96.0.9"));
  const auto listings = daemon.links.listings();
  daemon.see(netlink::LinkEvents{.lost = {ip("10.96.0.10")}});
  CHECK(daemon.links.listings() == listings);
}

TEST_CASE("a virtual service whose late scheduler is missing is not there, nor its address") {
  test::FakeDaemonSettings settings;
  settings.options.scheduler = "mh";
  Daemon daemon(settings);
  daemon.ipvs.schedulers.erase("mh");
  CHECK(daemon.see(web_with({test::e1(), test::e2()})).problems == 1);
  CHECK(daemon.says("this kernel has no IPVS scheduler \"mh\""));
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(daemon.ipvs.contains(kWeb));
    CHECK_FALSE(daemon.is_bound("10.96.0.9"));
    daemon.wait(40s);
  }
  daemon.ipvs.schedulers.insert("mh");
  daemon.wait(40s);
  CHECK(daemon.differences().empty());
  CHECK(daemon.is_bound("10.96.0.9"));
}

TEST_CASE("a virtual service that was not added gets no scheduler, one that waits for it gets it") {
  test::FakeDaemonSettings settings;
  settings.options.scheduler = "mh";
  Daemon daemon(settings);
  SECTION("not added") {
    daemon.ipvs.faults.fail("add virtual service", {ErrorKind::io, EIO, ""}, 1);
    CHECK(daemon.see(web_with({test::e1(), test::e2()})).failures > 0);
    CHECK_FALSE(daemon.is_bound("10.96.0.9"));
  }
  SECTION("not bound") {
    daemon.ipvs.faults.fail("edit virtual service", {ErrorKind::io, EIO, ""}, 1);
    CHECK(daemon.see(web_with({test::e1(), test::e2()})).failures > 0);
    CHECK_FALSE(daemon.is_bound("10.96.0.9"));
    CHECK(daemon.weights(kWeb).size() == 2);
  }
  daemon.wait(40s);
  CHECK(daemon.differences().empty());
  CHECK(daemon.is_bound("10.96.0.9"));
  CHECK(daemon.watch.broken == std::vector<std::string>{});
}

TEST_CASE("the dummy link is made again at once, with its addresses") {
  Daemon daemon;
  daemon.see(web_with({test::e1()}));
  daemon.links.remove_link(plan::kDummyLink);
  daemon.see(netlink::LinkEvents{.link_lost = true});
  CHECK(daemon.is_bound("10.96.0.9"));
  CHECK(daemon.says("others removed link kube-ipvs0: made it again"));
}

TEST_CASE("addresses of other links count as soon as they are told") {
  Daemon daemon;
  auto web = test::web_service();
  web.ports[0].node_port = 30080;
  daemon.see(test::cluster_of({web}));
  daemon.links.add_address({"eth0", ip("10.0.0.2"), 24});
  daemon.see(netlink::LinkEvents{.others_changed = true});
  CHECK(daemon.ipvs.list_servers({ip("10.0.0.2"), Protocol::tcp, 30080}).has_value());
}

TEST_CASE("objects that become known whole let go what waited") {
  Daemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}));
  auto cluster = web_with({test::e1()});
  cluster.complete = false;
  daemon.see(cluster);
  CHECK(daemon.weights(kWeb).at(kE2) == 1);
  cluster.complete = true;
  daemon.see(cluster);
  CHECK(daemon.weights(kWeb).at(kE2) == 0);
}

TEST_CASE("random changes end where a fresh process ends, and then nothing is written") {
  for (std::uint32_t seed = 0; seed < test::seeds(12); ++seed) {
    INFO("seed " << seed);
    test::RandomCluster random(seed);
    Daemon daemon;
    auto cluster = random.cluster(15);
    for (int step = 0; step < 5; ++step) {
      INFO("step " << step);
      CHECK(daemon.see(cluster).failures == 0);
      random.change(cluster);
    }
    CHECK(daemon.see(cluster).failures == 0);
    daemon.wait(10s);
    const auto before = daemon.writes();
    daemon.wait(100s);  // three readings
    CHECK(daemon.writes() == before);
    daemon.restart();
    CHECK(daemon.see(cluster).failures == 0);
    CHECK(daemon.writes() == before);
  }
}

TEST_CASE("load balancers are told of local endpoints when the kernel has them") {
  using Health = std::optional<serve::ServiceHealth>;
  auto web = test::web_service();
  web.type = api::ServiceType::load_balancer;
  web.external_policy_local = true;
  web.health_check_node_port = 31000;
  Daemon daemon;
  daemon.ipvs.faults.fail("add virtual service",
                          netlink::make_error(netlink::Operation::ipvs_service, EBUSY, ""), 1);
  const auto refused =
      daemon.see(test::cluster_of({web, test::slice_of(web, 8080, {test::e1(), test::e2()})}));
  CHECK(refused.failed == Written{.ipvs = 1});
  CHECK_FALSE(refused.settled);
  CHECK(refused.health.services.empty());
  const auto done = daemon.wait(5s);
  CHECK(done.settled);
  REQUIRE(done.health.services.size() == 1);
  CHECK(done.health.services.at(web.name) ==
        Health({.port = 31000, .ipv4_endpoints = 1, .ipv6_endpoints = std::nullopt}));
  const auto gone = daemon.see(test::cluster_of({web, test::slice_of(web, 8080, {test::e2()})}));
  CHECK(gone.draining == 1);
  CHECK(gone.health.services.at(web.name)->ipv4_endpoints == 0);
  CHECK(daemon.see(model::ClusterState{}).health.services.at(web.name) == std::nullopt);
}

TEST_CASE("health servers of Services are where node ports are") {
  const auto v4 = [](const char* text) { return *netlink::IpAddress::parse(text); };
  test::FakeDaemonSettings settings;
  settings.options.node_port_primary = true;
  Daemon daemon(settings);
  daemon.links.add_address({"eth1", v4("192.0.2.7"), 24});
  const auto with_node = [&](const char* ip) {
    auto cluster = test::cluster_of({});
    cluster.node = api::Node{.name = "node-1", .internal_ips = {v4(ip)}};
    return cluster;
  };
  const auto addresses = [](const SyncReport& report) {
    REQUIRE(report.health.addresses);
    return report.health.addresses->ipv4;
  };
  using Set = std::set<netlink::IpAddress>;
  CHECK(addresses(daemon.see(with_node("192.0.2.7"))) == Set{v4("192.0.2.7")});
  // The Node's address is not on a link yet.
  CHECK(addresses(daemon.see(with_node("192.0.2.8"))) == Set{});
  daemon.links.add_address({"eth1", v4("192.0.2.8"), 24});
  CHECK(addresses(daemon.see(netlink::LinkEvents{.others_changed = true})) == Set{v4("192.0.2.8")});
  CHECK_FALSE(daemon.see(netlink::LinkEvents{.others_changed = true}).health.addresses);
}

TEST_CASE("an address by which the API server is reached leaves a Service, and comes back to it") {
  Daemon daemon;
  auto cluster = web_with({test::e1()});
  cluster.services.at({"default", "web"}).external_ips = {ip("192.0.2.10")};
  // Known before the first lists are complete, as a list comes by it.
  daemon.see_api_server({ip("192.0.2.10")});
  daemon.see(cluster);
  CHECK_FALSE(daemon.is_bound("192.0.2.10"));
  CHECK(daemon.says("192.0.2.10 is an address of the API server"));
  daemon.see_api_server({ip("192.0.2.11")});
  CHECK(daemon.is_bound("192.0.2.10"));
  daemon.see_api_server({ip("192.0.2.10")});
  CHECK_FALSE(daemon.is_bound("192.0.2.10"));
  CHECK(daemon.is_bound("10.96.0.9"));
  CHECK_FALSE(daemon.ipvs.contains({ip("192.0.2.10"), Protocol::tcp, 80}));
}

}  // namespace
}  // namespace ipvsproxier::sync
