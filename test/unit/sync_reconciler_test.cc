// The reconciler and the applier on fakes that refuse what the kernel refuses.

#include "proxier/sync/reconciler.h"

#include <cerrno>
#include <sstream>

#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>

#include "test/fakes/fake_conntrack_table.h"
#include "test/fakes/fake_ipvs_table.h"
#include "test/fakes/fake_link_table.h"
#include "test/fakes/fake_rule_table.h"
#include "test/fakes/fake_set_table.h"
#include "test/support/cluster_builder.h"
#include "test/support/random_cluster.h"
#include "test/support/random_run.h"

namespace ipvsproxier::sync {
namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Family;
using netlink::Protocol;
using test::ip;

class World {
 public:
  World() : logger_("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)) {
    links.add_link("eth0", "veth");
    for (const auto& address : test::vector_node().addresses)
      if (address.link == "eth0") links.add_address(address);
    for (auto family : netlink::kFamilies)
      for (auto id : ipset::sets_of(ipset::PacketFilter::iptables))
        rules.sets.insert(ipset::set_name(id, family));
    options.families = {Family::ipv4};
    options.cluster_cidrs = {test::prefix("10.244.0.0/16")};
  }

  // As a process that runs once.
  SyncReport sync(const model::ClusterState& cluster) {
    ReconcilerSettings settings;
    settings.node_name = "n1";
    settings.options = options;
    settings.config_origin = "proxy.yaml";
    Reconciler reconciler({ipvs, links, sets, rules, conntrack}, settings, logger_);
    reconciler.take({.changes = test::changes_between({}, cluster), .links = {}});
    return reconciler.run_to_end(TimePoint{});
  }

  std::size_t kernel_writes() const {
    return ipvs.writes() + links.writes() + sets.writes() + rules.commits();
  }
  bool has_service(const std::string& address, std::uint16_t port = 80) {
    return ipvs.list_servers({ip(address), Protocol::tcp, port}).has_value();
  }
  std::size_t servers_of(const std::string& address) {
    return ipvs.list_servers({ip(address), Protocol::tcp, 80})->size();
  }
  bool is_bound(const std::string& address) {
    const auto listed = links.list_addresses();
    for (const auto& bound : listed.value())
      if (bound.link == plan::kDummyLink && bound.address == ip(address)) return true;
    return false;
  }
  bool says(const std::string& text) const { return log.str().find(text) != std::string::npos; }

  test::FakeIpvsTable ipvs;
  test::FakeLinkTable links;
  test::FakeSetTable sets;
  test::FakeRuleTable rules;
  test::FakeConntrackTable conntrack;
  plan::PlannerOptions options;
  std::ostringstream log;

 private:
  spdlog::logger logger_;
};

// Two Services with two endpoints each: default/web on 10.96.0.9, default/shop on 10.96.0.8.
model::ClusterState two_services() {
  auto shop = test::web_service();
  shop.name.name = "shop";
  shop.cluster_ips = {ip("10.96.0.8")};
  const auto web = test::web_service();
  return test::cluster_of({web, test::slice_of(web, 8080, {test::e1(), test::e2()}), shop,
                           test::slice_of(shop, 9090, {test::e1(), test::e2()})});
}

TEST_CASE("a single run does not promise to try again what failed") {
  World world;
  world.ipvs.faults.fail("add real server 10.244.1.4", {ErrorKind::io, EIO, ""}, 9);
  CHECK(world.sync(test::web_with({test::e1(), test::e2()})).failures == 1);
  CHECK(world.log.str().find("not done: add real server 10.244.1.4") != std::string::npos);
  CHECK(world.log.str().find("again in") == std::string::npos);
  World second;
  second.rules.faults.fail("remove from IPv4 nat", {ErrorKind::busy, 0, "locked"});
  second.sync(test::web_with({test::e1()}));
  CHECK(second.log.str().find("not tried again") != std::string::npos);
  CHECK(second.log.str().find("trying again") == std::string::npos);
}

TEST_CASE("a process that runs once changes all schedulers") {
  World world;
  auto web = test::web_service();
  constexpr std::uint16_t kPorts = 40;
  for (std::uint16_t port = 1000; port < 1000 + kPorts; ++port)
    web.ports.push_back(
        {.name = "p" + std::to_string(port), .protocol = Protocol::tcp, .port = port});
  const auto cluster = test::cluster_of({web});
  CHECK(world.sync(cluster).complete());
  world.options.scheduler = "wrr";
  CHECK(world.sync(cluster).complete());
  const auto services = world.ipvs.services();
  CHECK(services.size() > kPorts);
  CHECK(std::ranges::all_of(services,
                            [](const auto& service) { return service.scheduler.view() == "wrr"; }));
}

TEST_CASE("a first sync programs everything, a second one writes nothing") {
  World world;
  const auto report = world.sync(two_services());
  CHECK(report.complete());
  CHECK(
      report.written ==
      Written{.ipvs = 6, .links = 1, .addresses = 2, .elements = 6, .sets = 17, .rule_tables = 2});
  CHECK(world.servers_of("10.96.0.9") == 2);
  CHECK(world.is_bound("10.96.0.8"));

  const auto before = world.kernel_writes();
  const auto again = world.sync(two_services());
  CHECK(again.complete());
  CHECK(again.written == Written{});
  CHECK(world.kernel_writes() == before);
}

TEST_CASE("random clusters are reached in one sync, in any order of changes") {
  for (std::uint32_t seed = 0; seed < test::seeds(25); ++seed) {
    INFO("seed " << seed);
    test::RandomCluster random(seed);
    World world;
    world.options = random.options();
    auto cluster = random.cluster(15);
    for (int step = 0; step < 4; ++step) {
      INFO("step " << step);
      world.log.str("");
      const auto report = world.sync(cluster);
      INFO(world.log.str());
      CHECK(report.failures == 0);
      const auto before = world.kernel_writes();
      CHECK(world.sync(cluster).written == Written{});
      CHECK(world.kernel_writes() == before);
      random.change(cluster);
    }
  }
}

TEST_CASE("a failed operation is named, the rest is programmed, the next sync mends it") {
  World world;
  world.ipvs.faults.fail("add real server 10.244.1.4:8080", {ErrorKind::io, EIO, ""});
  const auto report = world.sync(two_services());
  CHECK(report.failures == 1);
  CHECK_FALSE(report.complete());
  CHECK(world.servers_of("10.96.0.9") == 1);
  CHECK(world.servers_of("10.96.0.8") == 2);
  CHECK(world.is_bound("10.96.0.9"));
  CHECK(world.says("add real server 10.244.1.4:8080"));

  world.ipvs.faults.clear();
  CHECK(world.sync(two_services()).complete());
  CHECK(world.servers_of("10.96.0.9") == 2);
}

TEST_CASE("lost answers are met with a fresh reading") {
  World world;
  world.ipvs.faults.fail("add virtual service 10.96.0.9", {ErrorKind::overrun, ENOBUFS, ""}, 1);
  const auto report = world.sync(two_services());
  CHECK(report.complete());
  CHECK(world.servers_of("10.96.0.9") == 2);
  CHECK(world.says("reading the kernel again"));
}

TEST_CASE("a VIP whose set element is missing is not shown") {
  World world;
  world.sets.faults.fail("add KUBE-CLUSTER-IP 10.96.0.9", {ErrorKind::io, ENOSPC, "full"});
  const auto report = world.sync(two_services());
  CHECK_FALSE(report.complete());
  CHECK_FALSE(world.has_service("10.96.0.9"));
  CHECK_FALSE(world.is_bound("10.96.0.9"));
  CHECK(world.servers_of("10.96.0.8") == 2);
  CHECK(world.is_bound("10.96.0.8"));
  CHECK(world.says("KUBE-CLUSTER-IP 10.96.0.9,tcp:80"));
  CHECK(world.says("not tried because of the failures above"));
}

TEST_CASE("a missing element holds back only what it guards") {
  World world;
  auto cluster = two_services();
  auto& shop = cluster.services.at({"default", "shop"});
  shop.external_ips = {ip("198.51.100.20")};
  shop.ports[0].port = 81;
  cluster.services.at({"default", "web"}).external_ips = {ip("198.51.100.20")};
  world.sets.faults.fail("add KUBE-EXTERNAL-IP 198.51.100.20,tcp:80", {ErrorKind::io, ENOSPC, ""});
  world.sets.faults.fail("add KUBE-LOOP-BACK", {ErrorKind::io, ENOSPC, ""});
  CHECK_FALSE(world.sync(cluster).complete());
  CHECK_FALSE(world.has_service("198.51.100.20", 80));
  CHECK(world.has_service("198.51.100.20", 81));
  CHECK(world.is_bound("198.51.100.20"));
  CHECK(world.servers_of("10.96.0.9") == 2);
}

TEST_CASE("addresses of the dummy link that are not ours to remove stay, without a write") {
  World world;
  auto cluster = two_services();
  cluster.services.at({"default", "web"}).load_balancer_ips = {ip("127.0.0.1"), ip("169.254.9.9")};
  REQUIRE(world.sync(cluster).complete());
  world.links.add_address({plan::kDummyLink, ip("192.168.7.1"), 24});
  world.links.add_address({plan::kDummyLink, ip("fe80::7"), 64});
  const auto before = world.kernel_writes();
  CHECK(world.sync(cluster).written == Written{});
  CHECK(world.kernel_writes() == before);
  CHECK_FALSE(world.is_bound("127.0.0.1"));  // no Service's
  CHECK(world.is_bound("169.254.9.9"));
  CHECK(world.is_bound("192.168.7.1"));
  world.links.add_address({plan::kDummyLink, ip("192.168.7.2"), 32});
  CHECK(world.sync(cluster).written.addresses == 1);
  CHECK_FALSE(world.is_bound("192.168.7.2"));
}

TEST_CASE("a node port whose set element is missing is not shown, its cluster IP is") {
  World world;
  auto service = test::web_service();
  service.ports[0].node_port = 30080;
  world.sets.faults.fail("add KUBE-NODE-PORT-TCP 30080", {ErrorKind::io, ENOSPC, ""});
  CHECK_FALSE(world.sync(test::cluster_of({service})).complete());
  CHECK_FALSE(world.has_service("10.0.0.1", 30080));
  CHECK(world.has_service("10.96.0.9"));
}

TEST_CASE("without its rules nothing new of a family is shown, and what is there stays") {
  World world;
  auto one = two_services();
  one.services.erase({"default", "shop"});
  one.slices.erase({"default", "shop"});
  REQUIRE(world.sync(one).complete());
  world.rules.edit(Family::ipv4, ipset::Table::nat, "-F KUBE-SERVICES");
  world.rules.faults.fail("write IPv4 nat", {ErrorKind::timeout, 0, "xtables lock"});
  const auto report = world.sync(two_services());
  CHECK_FALSE(report.complete());
  CHECK_FALSE(world.has_service("10.96.0.8"));
  CHECK(world.servers_of("10.96.0.9") == 2);
  CHECK(world.is_bound("10.96.0.9"));
  CHECK(world.says("write rules of IPv4 table nat"));

  world.rules.faults.clear();
  CHECK(world.sync(two_services()).complete());
  CHECK(world.servers_of("10.96.0.8") == 2);
}

TEST_CASE("a kernel without the match ipvs hides only the VIPs that need it") {
  World world;
  world.rules.faults.fail("with match ipvs", {ErrorKind::missing, ENOENT, "module xt_ipvs"});
  auto cluster = two_services();
  auto& web = cluster.services.at({"default", "web"});
  web.type = api::ServiceType::load_balancer;
  web.load_balancer_ips = {ip("192.0.2.10")};
  web.source_ranges = {test::prefix("203.0.113.0/24")};
  const auto report = world.sync(cluster);
  CHECK_FALSE(report.complete());
  CHECK(world.says("module xt_ipvs"));
  CHECK_FALSE(world.has_service("192.0.2.10"));
  CHECK_FALSE(world.is_bound("192.0.2.10"));
  CHECK(world.servers_of("10.96.0.9") == 2);
  CHECK(world.servers_of("10.96.0.8") == 2);
}

TEST_CASE("rules that cannot be read show nothing and remove nothing") {
  World world;
  REQUIRE(world.sync(two_services()).complete());
  const auto commits = world.rules.commits();
  world.rules.faults.fail("list IPv4", {ErrorKind::unsupported, 0, "no legacy tables"});
  const auto report = world.sync(two_services());
  CHECK(report.failures == 2);
  CHECK(world.rules.commits() == commits);
  CHECK(world.servers_of("10.96.0.9") == 2);
}

TEST_CASE("an unknown scheduler is one problem of the configuration; everything else is there") {
  World world;
  world.options.scheduler = "nonesuch";
  const auto report = world.sync(two_services());
  CHECK(report.problems == 1);
  CHECK(
      world.says("proxy.yaml: KubeProxyConfiguration: ipvs.scheduler: this kernel has no IPVS "
                 "scheduler \"nonesuch\""));
  CHECK(world.says("10.96.0.8:80/TCP, 10.96.0.9:80/TCP"));
  CHECK_FALSE(world.is_bound("10.96.0.9"));
  CHECK(world.sets.list("KUBE-CLUSTER-IP")->value().elements.size() == 2);
  CHECK(world.rules.commits() == 2);
}

TEST_CASE("an unknown scheduler does not take away what is programmed") {
  World world;
  REQUIRE(world.sync(two_services()).complete());
  world.options.scheduler = "nonesuch";
  CHECK(world.sync(two_services()).problems == 1);
  CHECK(world.servers_of("10.96.0.9") == 2);
  CHECK(world.is_bound("10.96.0.9"));
}

TEST_CASE("a set that is made otherwise is named and nothing new is shown behind it") {
  World world;
  const netlink::Status made =
      world.sets.ensure({.name = "KUBE-CLUSTER-IP", .kind = ipset::SetKind::hash_ip});
  REQUIRE(made);
  const auto report = world.sync(two_services());
  CHECK_FALSE(report.complete());
  CHECK(world.says("KUBE-CLUSTER-IP"));
  CHECK(world.says("hash:ip"));
  CHECK_FALSE(world.has_service("10.96.0.9"));
  CHECK(world.sets.list("KUBE-IPVS-IPS")->has_value());
}

TEST_CASE("without this node's addresses nothing is changed") {
  World world;
  REQUIRE(world.sync(two_services()).complete());
  const auto before = world.kernel_writes();
  world.links.faults.fail("list addresses", {ErrorKind::io, EIO, ""});
  const auto report = world.sync(model::ClusterState{});
  CHECK(report.failures == 1);
  CHECK(world.kernel_writes() == before);
}

TEST_CASE("without the dummy link virtual services are programmed all the same") {
  World world;
  world.links.add_link(plan::kDummyLink, "veth");
  const auto report = world.sync(two_services());
  CHECK_FALSE(report.complete());
  CHECK(world.servers_of("10.96.0.9") == 2);
  CHECK(world.says("make link kube-ipvs0"));
}

TEST_CASE("firewall-mark services and foreign addresses elsewhere are left alone", "[item-12]") {
  World world;
  const netlink::VirtualServiceKey mark{.address = ip("0.0.0.0"), .fwmark = 7};
  const std::vector<netlink::IpvsOp> ops = {
      netlink::AddService{{.key = mark, .scheduler = "rr"}},
      netlink::AddService{{.key = {ip("192.168.9.9"), Protocol::tcp, 22}, .scheduler = "rr"}}};
  REQUIRE(world.ipvs.apply(ops).at(0));
  REQUIRE(world.sync(two_services()).complete());
  CHECK(world.ipvs.list_servers(mark).has_value());
  CHECK(world.has_service("192.168.9.9", 22));
}

TEST_CASE("conflicts between Services are problems and the rest is programmed") {
  World world;
  auto cluster = two_services();
  cluster.services.at({"default", "shop"}).external_ips = {ip("198.51.100.20")};
  cluster.services.at({"default", "web"}).external_ips = {ip("198.51.100.20")};
  const auto report = world.sync(cluster);
  CHECK(report.problems == 1);
  CHECK(report.failures == 0);
  CHECK(world.servers_of("198.51.100.20") == 2);
  CHECK(world.says("Service default/web: spec.externalIPs"));
}

}  // namespace
}  // namespace ipvsproxier::sync
