// Services of external policy Local that in-cluster clients reach by way of the cluster IP
// (PlannerOptions::sends_clients_on()), on fakes: what one of them may cost the others.

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <sstream>
#include <string>

#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>

#include "proxier/sync/reconciler.h"
#include "test/fakes/fake_conntrack_table.h"
#include "test/fakes/fake_ipvs_table.h"
#include "test/fakes/fake_link_table.h"
#include "test/fakes/fake_rule_table.h"
#include "test/fakes/fake_set_table.h"
#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"
#include "test/support/random_cluster.h"
#include "test/unit/planned_lines.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::Family;
using netlink::Protocol;
using test::ip;

constexpr const char* kWays = "ip kube-ipvs in_cluster";
constexpr const char* kVerdicts = "ip kube-ipvs services";

std::vector<ipset::Element> elements_in(test::FakeSetTable& sets, const char* name) {
  const auto listed = sets.list(name);
  return listed && *listed
             ? std::vector<ipset::Element>((*listed)->elements.begin(), (*listed)->elements.end())
             : std::vector<ipset::Element>();
}

// The virtual services of which the packet filter has this verdict.
std::size_t count_verdicts(test::FakeSetTable& sets, ipset::ServiceVerdict verdict) {
  return static_cast<std::size_t>(
      std::ranges::count_if(elements_in(sets, kVerdicts), [&](const ipset::Element& element) {
        return std::get<ipset::ServiceElement>(element).verdict == verdict;
      }));
}

test::FakeDaemonSettings with_nftables() {
  test::FakeDaemonSettings settings;
  settings.options.packet_filter = ipset::PacketFilter::nftables;
  return settings;
}

class InClusterNode {
 public:
  InClusterNode() : logger_("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)) {
    links.add_link("eth0", "veth");
    for (const auto& address : test::vector_node().addresses)
      if (address.link == "eth0") links.add_address(address);
    rules.has_set = [this](const std::string& name) {
      const auto listed = sets.list(name);
      return listed && listed->has_value();
    };
    settings.node_name = "n1";
    settings.options.families = {Family::ipv4};
    settings.options.packet_filter = ipset::PacketFilter::nftables;
  }

  // As a process that runs once.
  SyncReport sync(const model::ClusterState& cluster) {
    Reconciler reconciler({ipvs, links, sets, rules, conntrack}, settings, logger_);
    reconciler.take({.changes = test::changes_between({}, cluster), .links = {}});
    return reconciler.run_to_end(TimePoint{});
  }

  bool has_service(const std::string& address, std::uint16_t port,
                   Protocol protocol = Protocol::tcp) {
    return ipvs.list_servers({ip(address), protocol, port}).has_value();
  }
  // Those that get new connections.
  std::size_t servers_of(const std::string& address, std::uint16_t port,
                         Protocol protocol = Protocol::tcp) {
    const auto listed = ipvs.list_servers({ip(address), protocol, port});
    return static_cast<std::size_t>(
        std::ranges::count_if(*listed, [](const auto& one) { return one.server.weight > 0; }));
  }
  std::size_t ways() { return elements_in(sets, kWays).size(); }
  // Virtual services at which clients outside are dropped.
  std::size_t dropping() { return count_verdicts(sets, ipset::ServiceVerdict::absent); }
  // Those at which clients keep their source.
  std::size_t keeping() {
    return count_verdicts(sets, ipset::ServiceVerdict::local) +
           count_verdicts(sets, ipset::ServiceVerdict::keep) + dropping();
  }

  test::FakeIpvsTable ipvs;
  test::FakeLinkTable links;
  test::FakeSetTable sets;
  test::FakeRuleTable rules;
  test::FakeConntrackTable conntrack;
  ReconcilerSettings settings;
  std::ostringstream log;

 private:
  spdlog::logger logger_;
};

// default/web on 10.96.0.9:443 and 192.0.2.10:443, with an endpoint on another node alone, and
// another Service on 10.96.0.8:80.
model::ClusterState local_and_other(Protocol protocol = Protocol::tcp) {
  auto service = test::local_load_balancer();
  for (auto& port : service.ports) port.protocol = protocol;
  auto shop = test::web_service();
  shop.name.name = "shop";
  shop.cluster_ips = {ip("10.96.0.8")};
  return test::cluster_of({service, test::slice_of(service, 8080, {test::e2()}), shop,
                           test::slice_of(shop, 9090, {test::e1(), test::e2()})});
}

TEST_CASE(
    "in-cluster clients: they lose no endpoint and are dropped nowhere before the way is there") {
  InClusterNode node;
  const auto protocol = GENERATE(Protocol::tcp, Protocol::udp);
  const auto* const fault = GENERATE("write IPv4 kube-ipvs", "add ip kube-ipvs in_cluster ");
  CAPTURE(fault, netlink::to_string(protocol));
  node.settings.options.differences.in_cluster_clients = false;
  REQUIRE(node.sync(local_and_other(protocol)).complete());
  CHECK(node.servers_of("192.0.2.10", 443, protocol) == 1);
  node.settings.options.differences.in_cluster_clients = true;
  for (auto* faults : {&node.rules.faults, &node.sets.faults})
    faults->fail(fault, {netlink::ErrorKind::denied, EPERM, ""});
  CHECK_FALSE(node.sync(local_and_other(protocol)).complete());
  CHECK(node.servers_of("192.0.2.10", 443, protocol) == 1);
  CHECK(node.dropping() == 0);

  node.rules.faults.clear();
  node.sets.faults.clear();
  CHECK(node.sync(local_and_other(protocol)).complete());
  CHECK(node.ways() > 0);
  CHECK(node.dropping() > 0);
  CHECK(node.servers_of("192.0.2.10", 443, protocol) == 0);
}

// An endpoint that leaves the Service leaves its addresses too, whatever the table nat says.
TEST_CASE("in-cluster clients: an endpoint that leaves waits for no way") {
  InClusterNode node;
  auto cluster = local_and_other(Protocol::udp);
  node.settings.options.differences.in_cluster_clients = false;
  REQUIRE(node.sync(cluster).complete());
  node.settings.options.differences.in_cluster_clients = true;
  node.rules.faults.fail("write IPv4 kube-ipvs", {netlink::ErrorKind::timeout, 0, "busy"});
  cluster.slices.erase({"default", "web"});
  CHECK_FALSE(node.sync(cluster).complete());
  CHECK(node.servers_of("192.0.2.10", 443, Protocol::udp) == 0);
}

// Clients outside keep their source only once nobody elsewhere gets their packets.
TEST_CASE("in-cluster clients: sources are kept behind the last endpoint elsewhere") {
  InClusterNode node;
  auto cluster = local_and_other();
  auto& web = cluster.services.at({"default", "web"});
  web.external_policy_local = false;
  web.external_ips = {ip("192.0.2.20")};
  REQUIRE(node.sync(cluster).complete());
  web.external_policy_local = true;
  node.rules.faults.fail("write IPv4 kube-ipvs", {netlink::ErrorKind::timeout, 0, "busy"});
  CHECK_FALSE(node.sync(cluster).complete());
  CHECK(node.servers_of("192.0.2.10", 443) == 1);
  CHECK(node.servers_of("192.0.2.20", 443) == 1);
  CHECK(node.keeping() == 0);

  node.rules.faults.clear();
  CHECK(node.sync(cluster).complete());
  CHECK(node.keeping() == 3);
}

// default/web of policy Local or Cluster with a load-balancer address, an external IP and a node
// port, with one endpoint here and one on another node.
model::ClusterState web_of_policy(bool local) {
  auto service = test::local_load_balancer();
  service.external_policy_local = local;
  service.external_ips = {ip("192.0.2.20")};
  return test::cluster_of({service, test::slice_of(service, 8080, {test::e1(), test::e2()})});
}

// Whether a real server on another node gets new connections by one of the addresses at which
// clients outside keep their source: their answers would go astray.
bool goes_astray(test::FakeDaemon& daemon) {
  const auto serves_elsewhere = [&](const char* address, std::uint16_t port) {
    return std::ranges::any_of(
        daemon.weights({ip(address), Protocol::tcp, port}),
        [](const auto& one) { return one.first.address != test::e1().address && one.second > 0; });
  };
  const auto masquerades = [&](const char* address, std::uint16_t port) {
    return std::ranges::any_of(elements_in(daemon.sets, kVerdicts), [&](const ipset::Element& one) {
      const auto& service = std::get<ipset::ServiceElement>(one);
      return service.ip == ip(address) && service.port == port &&
             service.verdict == ipset::ServiceVerdict::mark;
    });
  };
  const auto is_astray = [&](const char* address, std::uint16_t port) {
    return serves_elsewhere(address, port) && !masquerades(address, port);
  };
  return is_astray("192.0.2.10", 443) || is_astray("192.0.2.20", 443) ||
         is_astray("10.0.0.1", 30443);
}

// What failed is tried again at times of its own: no element before the real servers that it
// waited for.
TEST_CASE("in-cluster clients: sources are kept behind the last endpoint elsewhere, tried again") {
  for (int failures = 0; failures < 8; ++failures) {
    CAPTURE(failures);
    test::FakeDaemon daemon(with_nftables());
    // Each failure draws other pauses.
    daemon.rules.faults.fail("write IPv4 kube-ipvs", {netlink::ErrorKind::timeout, 0, "busy"},
                             failures);
    daemon.see(web_of_policy(false));
    daemon.wait(300s);
    REQUIRE(daemon.missing().empty());
    daemon.rules.faults.fail("write IPv4 kube-ipvs", {netlink::ErrorKind::timeout, 0, "busy"}, 1);
    daemon.see(web_of_policy(true));
    REQUIRE(daemon.weights({ip("192.0.2.10"), Protocol::tcp, 443}).size() == 2);
    bool astray = goes_astray(daemon);
    for (int i = 0; i < 400; ++i) {
      daemon.wait(100ms);
      astray = astray || goes_astray(daemon);
    }
    CHECK_FALSE(astray);
    CHECK(daemon.missing().empty());
  }
}

// What the way leads to may fail as well.
TEST_CASE("in-cluster clients: no endpoint leaves for a way without it") {
  InClusterNode node;
  auto cluster = local_and_other();
  auto& web = cluster.services.at({"default", "web"});
  web.external_policy_local = false;
  REQUIRE(node.sync(cluster).complete());
  web.external_policy_local = true;
  web.cluster_ips = {ip("10.96.0.77")};
  const auto* const fault =
      GENERATE("add real server 10.244.1.4:8080", "add virtual service 10.96.0.77");
  CAPTURE(fault);
  node.ipvs.faults.fail(fault, {netlink::ErrorKind::io, EIO, ""});
  CHECK_FALSE(node.sync(cluster).complete());
  CHECK(node.servers_of("192.0.2.10", 443) == 1);
  CHECK(node.servers_of("10.0.0.1", 30443) == 1);
  CHECK(node.dropping() == 0);

  node.ipvs.faults.clear();
  CHECK(node.sync(cluster).complete());
  CHECK(node.servers_of("192.0.2.10", 443) == 0);
  CHECK(node.dropping() > 0);
}

// Each entry is tried again at a time of its own.
TEST_CASE("in-cluster clients: no endpoint leaves for a way without it, tried again") {
  const auto* const fault = GENERATE("add real server 10.244.1.4:8080",
                                     "add virtual service 10.96.0.77", "add address 10.96.0.77");
  for (int more = 0; more < 8; ++more) {
    CAPTURE(fault, more);
    test::FakeDaemon daemon(with_nftables());
    // Each failure draws other pauses.
    daemon.rules.faults.fail("write IPv4 kube-ipvs", {netlink::ErrorKind::timeout, 0, "busy"},
                             more);
    auto cluster = local_and_other();
    auto& web = cluster.services.at({"default", "web"});
    web.external_policy_local = false;
    daemon.see(cluster);
    daemon.wait(300s);
    REQUIRE(daemon.missing().empty());
    web.external_policy_local = true;
    web.cluster_ips = {ip("10.96.0.77")};
    for (auto* faults : {&daemon.ipvs.faults, &daemon.links.faults})
      faults->fail(fault, {netlink::ErrorKind::io, EIO, ""});
    daemon.see(cluster);
    const auto is_served = [&] {
      return std::ranges::any_of(daemon.weights({ip("192.0.2.10"), Protocol::tcp, 443}),
                                 [](const auto& one) { return one.second > 0; }) &&
             std::ranges::none_of(elements_in(daemon.sets, kWays), [](const ipset::Element& way) {
               return std::get<ipset::DestinationElement>(way).ip == ip("192.0.2.10");
             });
    };
    bool served = is_served();
    for (int i = 0; i < 100; ++i) {
      daemon.wait(100ms);
      served = served && is_served();
    }
    CHECK(served);
    daemon.clear_faults();
    daemon.wait(300s);
    CHECK(daemon.missing().empty());
    CHECK_FALSE(is_served());
  }
}

TEST_CASE("in-cluster clients: where packets are still sent on to goes on to serve") {
  InClusterNode node;
  const auto protocol = GENERATE(Protocol::tcp, Protocol::udp);
  auto cluster = local_and_other(protocol);
  REQUIRE(node.sync(cluster).complete());
  cluster.services.at({"default", "web"}).cluster_ips = {ip("10.96.0.77")};
  node.sets.faults.fail("add ip kube-ipvs in_cluster", {netlink::ErrorKind::timeout, 0, "busy"});
  CHECK_FALSE(node.sync(cluster).complete());
  CHECK(node.servers_of("10.96.0.9", 443, protocol) == 1);
  CHECK(std::ranges::any_of(elements_in(node.sets, kVerdicts), [](const ipset::Element& one) {
    return std::get<ipset::ServiceElement>(one).ip == ip("10.96.0.9");
  }));
  CHECK(node.links.is_bound(ip("10.96.0.9")));

  node.sets.faults.clear();
  CHECK(node.sync(cluster).complete());
  CHECK_FALSE(node.has_service("10.96.0.9", 443, protocol));
}

TEST_CASE("in-cluster clients: an endpoint elsewhere waits until it would see the node") {
  InClusterNode node;
  node.settings.options.packet_filter =
      GENERATE(ipset::PacketFilter::iptables, ipset::PacketFilter::nftables);
  REQUIRE(node.sync(web_of_policy(true)).complete());
  const auto elsewhere = [&] {
    return node.servers_of("192.0.2.10", 443) + node.servers_of("192.0.2.20", 443) +
           node.servers_of("10.0.0.1", 30443) - 3;
  };
  CHECK(elsewhere() == 0);
  for (const auto* const fault :
       {"remove KUBE-LOAD-BALANCER-LOCAL", "remove KUBE-NODE-PORT-LOCAL-TCP",
        "add KUBE-EXTERNAL-IP", "add ip kube-ipvs services"})
    node.sets.faults.fail(fault, {netlink::ErrorKind::io, EIO, ""});
  CHECK_FALSE(node.sync(web_of_policy(false)).complete());
  CHECK(elsewhere() == 0);
  node.sets.faults.clear();
  CHECK(node.sync(web_of_policy(false)).complete());
  CHECK(elsewhere() == 3);
}

TEST_CASE("in-cluster clients: a set that a reading cannot read costs no way") {
  using namespace std::chrono_literals;
  test::FakeDaemon daemon(with_nftables());
  daemon.see(local_and_other());
  const auto all = elements_in(daemon.sets, kWays).size();
  CHECK(all > 0);
  daemon.sets.faults.fail("list set ip kube-ipvs in_cluster", {netlink::ErrorKind::io, ENOMEM, ""});
  daemon.wait(62s);
  daemon.sets.faults.clear();
  CHECK(elements_in(daemon.sets, kWays).size() == all);
  daemon.wait(31s);
  CHECK(elements_in(daemon.sets, kWays).size() == all);
}

TEST_CASE("in-cluster clients: a set that the first reading cannot read is nobody else's") {
  test::FakeDaemon daemon(with_nftables());
  daemon.see(local_and_other());
  const auto ways = elements_in(daemon.sets, kWays).size();
  CHECK(ways > 0);
  daemon.sets.faults.fail("list set ip kube-ipvs in_cluster", {netlink::ErrorKind::io, EIO, ""}, 1);
  daemon.restart();
  daemon.see(local_and_other());
  CHECK(daemon.sets.faults.hits() == 1);
  CHECK(elements_in(daemon.sets, kWays).size() == ways);
  daemon.wait(60s);
  CHECK(elements_in(daemon.sets, kWays).size() == ways);
}

TEST_CASE("earlier builds: their sets are removed, at once or later, and sets of others stay") {
  test::FakeDaemon daemon;
  const auto make = [&](const char* name, ipset::SetKind kind) {
    const netlink::Status made = daemon.sets.ensure({.name = name, .kind = kind});
    REQUIRE(made);
  };
  make("KUBE-IN-CLUSTER", ipset::SetKind::hash_ip_port);
  make("KUBE-IN-CLUSTER-ONLY", ipset::SetKind::hash_ip_port);
  make("KUBE-LOCALHOST", ipset::SetKind::hash_ip);  // another program's
  daemon.sets.hold("KUBE-IN-CLUSTER");
  daemon.see(local_and_other());
  CHECK(daemon.sets.exists("KUBE-IN-CLUSTER"));
  CHECK_FALSE(daemon.sets.exists("KUBE-IN-CLUSTER-ONLY"));
  CHECK(daemon.says("set KUBE-IN-CLUSTER of an earlier version stays"));
  daemon.sets.release("KUBE-IN-CLUSTER");
  daemon.wait(60s);
  CHECK_FALSE(daemon.sets.exists("KUBE-IN-CLUSTER"));
  CHECK(daemon.sets.exists("KUBE-LOCALHOST"));
}

}  // namespace
}  // namespace ipvsproxier::sync
