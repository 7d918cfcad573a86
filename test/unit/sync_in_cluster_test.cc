// Services of external policy Local that in-cluster clients reach by way of the cluster IP
// (Differences::in_cluster_clients), with iptables, on fakes: what one of them may cost the others.

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

std::size_t translations_in(test::FakeRuleTable& rules) {
  std::size_t found = 0;
  for (const auto& [chain, lines] : rules.lines(Family::ipv4, ipset::Table::nat))
    for (const auto& line : lines) found += line.find("-j DNAT") != std::string::npos ? 1 : 0;
  return found;
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
  bool tells_of_clients() const {
    return log.str().find(
               "Services: spec.externalTrafficPolicy: IPv4 of policy Local: this node") !=
           std::string::npos;
  }
  std::size_t elements_of(const std::string& set) {
    const auto listed = sets.list(set);
    return listed && *listed ? (*listed)->elements.size() : 0;
  }
  std::size_t translations() { return translations_in(rules); }

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

TEST_CASE("in-cluster clients: a kernel that cannot send them on serves all other Services") {
  InClusterNode node;
  node.rules.absent_translations = {Protocol::sctp};
  const auto report = node.sync(local_and_other(Protocol::sctp));
  INFO(node.log.str());
  CHECK(report.failures == 0);
  CHECK(node.tells_of_clients());
  CHECK(node.has_service("10.96.0.8", 80));
  CHECK(node.has_service("192.0.2.10", 443, Protocol::sctp));
  CHECK(node.translations() == 0);
  CHECK(node.elements_of("KUBE-IN-CLUSTER-ONLY") == 0);

  node.rules.absent_translations.clear();
  CHECK(node.sync(local_and_other(Protocol::sctp)).complete());
  CHECK(node.translations() > 0);
}

TEST_CASE(
    "in-cluster clients: they lose no endpoint and are dropped nowhere before the way is there") {
  InClusterNode node;
  const auto protocol = GENERATE(Protocol::tcp, Protocol::udp);
  const auto* const fault =
      GENERATE("write IPv4 nat", "make set KUBE-IN-CLUSTER", "add KUBE-IN-CLUSTER ");
  CAPTURE(fault, netlink::to_string(protocol));
  node.settings.options.differences.in_cluster_clients = false;
  REQUIRE(node.sync(local_and_other(protocol)).complete());
  CHECK(node.servers_of("192.0.2.10", 443, protocol) == 1);
  node.settings.options.differences.in_cluster_clients = true;
  for (auto* faults : {&node.rules.faults, &node.sets.faults})
    faults->fail(fault, {netlink::ErrorKind::denied, EPERM, ""});
  CHECK_FALSE(node.sync(local_and_other(protocol)).complete());
  CHECK(node.servers_of("192.0.2.10", 443, protocol) == 1);
  CHECK(node.elements_of("KUBE-IN-CLUSTER-ONLY") == 0);

  node.rules.faults.clear();
  node.sets.faults.clear();
  CHECK(node.sync(local_and_other(protocol)).complete());
  CHECK(node.translations() > 0);
  CHECK(node.elements_of("KUBE-IN-CLUSTER-ONLY") > 0);
  CHECK(node.servers_of("192.0.2.10", 443, protocol) == 0);
}

// An endpoint that leaves the Service leaves its addresses too, whatever the table nat says.
TEST_CASE("in-cluster clients: an endpoint that leaves waits for no way") {
  InClusterNode node;
  auto cluster = local_and_other(Protocol::udp);
  node.settings.options.differences.in_cluster_clients = false;
  REQUIRE(node.sync(cluster).complete());
  node.settings.options.differences.in_cluster_clients = true;
  node.rules.faults.fail("write IPv4 nat", {netlink::ErrorKind::timeout, 0, "busy"});
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
  node.rules.faults.fail("write IPv4 nat", {netlink::ErrorKind::timeout, 0, "busy"});
  CHECK_FALSE(node.sync(cluster).complete());
  CHECK(node.servers_of("192.0.2.10", 443) == 1);
  CHECK(node.elements_of("KUBE-LOAD-BALANCER-LOCAL") == 0);
  CHECK(node.elements_of("KUBE-NODE-PORT-LOCAL-TCP") == 0);
  CHECK(node.servers_of("192.0.2.20", 443) == 1);
  CHECK(node.elements_of("KUBE-EXTERNAL-IP") == 1);

  node.rules.faults.clear();
  CHECK(node.sync(cluster).complete());
  CHECK(node.elements_of("KUBE-EXTERNAL-IP") == 0);
  CHECK(node.elements_of("KUBE-LOAD-BALANCER-LOCAL") == 1);
  CHECK(node.elements_of("KUBE-NODE-PORT-LOCAL-TCP") == 1);
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
  const ipset::Element balancer = ipset::IpPortElement{ip("192.0.2.10"), Protocol::tcp, 443};
  const ipset::Element external = ipset::IpPortElement{ip("192.0.2.20"), Protocol::tcp, 443};
  const ipset::Element port = ipset::PortElement{30443};
  const auto has = [&](const char* set, const ipset::Element& element) {
    return daemon.sets.contains(set, element);
  };
  return (serves_elsewhere("192.0.2.10", 443) && has("KUBE-LOAD-BALANCER-LOCAL", balancer)) ||
         (serves_elsewhere("192.0.2.20", 443) && !has("KUBE-EXTERNAL-IP", external)) ||
         (serves_elsewhere("10.0.0.1", 30443) && has("KUBE-NODE-PORT-LOCAL-TCP", port));
}

// What failed is tried again at times of its own: no element before the real servers that it
// waited for.
TEST_CASE("in-cluster clients: sources are kept behind the last endpoint elsewhere, tried again") {
  for (int failures = 0; failures < 8; ++failures) {
    CAPTURE(failures);
    test::FakeDaemon daemon;
    // Each failure draws other pauses.
    daemon.rules.faults.fail("write IPv4 nat", {netlink::ErrorKind::timeout, 0, "busy"}, failures);
    daemon.see(web_of_policy(false));
    daemon.wait(300s);
    REQUIRE(daemon.missing().empty());
    daemon.rules.faults.fail("write IPv4 nat", {netlink::ErrorKind::timeout, 0, "busy"}, 1);
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
  CHECK(node.elements_of("KUBE-IN-CLUSTER-ONLY") == 0);

  node.ipvs.faults.clear();
  CHECK(node.sync(cluster).complete());
  CHECK(node.servers_of("192.0.2.10", 443) == 0);
  CHECK(node.elements_of("KUBE-IN-CLUSTER-ONLY") > 0);
}

// Each entry is tried again at a time of its own.
TEST_CASE("in-cluster clients: no endpoint leaves for a way without it, tried again") {
  const auto* const fault = GENERATE("add real server 10.244.1.4:8080",
                                     "add virtual service 10.96.0.77", "add address 10.96.0.77");
  for (int more = 0; more < 8; ++more) {
    CAPTURE(fault, more);
    test::FakeDaemon daemon;
    // Each failure draws other pauses.
    daemon.rules.faults.fail("write IPv4 nat", {netlink::ErrorKind::timeout, 0, "busy"}, more);
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
             !daemon.sets.contains("KUBE-IN-CLUSTER",
                                   ipset::IpPortElement{ip("192.0.2.10"), Protocol::tcp, 443});
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

TEST_CASE("in-cluster clients: what rules still send packets to goes on to serve") {
  InClusterNode node;
  const auto protocol = GENERATE(Protocol::tcp, Protocol::udp);
  auto cluster = local_and_other(protocol);
  REQUIRE(node.sync(cluster).complete());
  cluster.services.at({"default", "web"}).cluster_ips = {ip("10.96.0.77")};
  node.rules.faults.fail("write IPv4 nat", {netlink::ErrorKind::timeout, 0, "busy"});
  CHECK_FALSE(node.sync(cluster).complete());
  CHECK(node.servers_of("10.96.0.9", 443, protocol) == 1);
  CHECK(
      node.sets.contains("KUBE-CLUSTER-IP", ipset::IpPortElement{ip("10.96.0.9"), protocol, 443}));
  CHECK(node.links.is_bound(ip("10.96.0.9")));

  node.rules.faults.clear();
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

TEST_CASE("in-cluster clients: a question that fails takes away no way that works") {
  test::FakeDaemon daemon;
  daemon.see(local_and_other());
  const auto ways = translations_in(daemon.rules);
  CHECK(ways > 0);
  daemon.rules.faults.fail("ask for extensions", {netlink::ErrorKind::io, EMFILE, ""}, 1);
  daemon.restart();
  daemon.see(local_and_other());
  CHECK(daemon.rules.faults.hits() == 1);
  CHECK(translations_in(daemon.rules) == ways);
}

TEST_CASE("in-cluster clients: a kernel that could not be asked is taken for one that cannot") {
  InClusterNode node;
  node.rules.absent_translations = {Protocol::tcp};
  node.rules.faults.fail("ask for extensions", {netlink::ErrorKind::io, EMFILE, ""});
  CHECK(node.sync(local_and_other()).failures == 0);
  CHECK(node.translations() == 0);
  CHECK(node.has_service("10.96.0.8", 80));

  node.rules.absent_translations.clear();
  node.rules.faults.clear();
  CHECK(node.sync(local_and_other()).complete());
  CHECK(node.translations() > 0);
}

TEST_CASE("in-cluster clients: another program's set of such a name costs nobody a Service") {
  InClusterNode node;
  const auto* const name = GENERATE("KUBE-IN-CLUSTER", "KUBE-IN-CLUSTER-ONLY");
  const bool wanted = GENERATE(false, true);
  const netlink::Status made = node.sets.ensure({.name = name, .kind = ipset::SetKind::hash_ip});
  REQUIRE(made);
  node.settings.options.differences.in_cluster_clients = wanted;
  const auto report = node.sync(local_and_other());
  INFO(name << (wanted ? ", wanted\n" : "\n") << node.log.str());
  CHECK(report.failures == 0);
  CHECK(node.tells_of_clients() == wanted);
  CHECK(node.has_service("10.96.0.8", 80));
  CHECK(node.servers_of("192.0.2.10", 443) == 1);
  CHECK(node.translations() == 0);
  CHECK(node.sets.list(name)->value().spec.kind == ipset::SetKind::hash_ip);
}

TEST_CASE("in-cluster clients: once they are not wanted nothing of it stays") {
  InClusterNode node;
  REQUIRE(node.sync(local_and_other()).complete());
  const auto has_sets = [&] {
    return node.sets.list("KUBE-IN-CLUSTER")->has_value() ||
           node.sets.list("KUBE-IN-CLUSTER-ONLY")->has_value();
  };
  CHECK(has_sets());
  node.settings.options.differences.in_cluster_clients = false;
  REQUIRE(node.sync(local_and_other()).complete());
  CHECK_FALSE(has_sets());
  CHECK(node.translations() == 0);
  const auto writes = node.sets.writes();
  REQUIRE(node.sync(local_and_other()).complete());
  CHECK(node.sets.writes() == writes);
}

TEST_CASE("in-cluster clients: a set that a reading cannot read costs no way") {
  using namespace std::chrono_literals;
  test::FakeDaemonSettings settings;
  settings.options.packet_filter = ipset::PacketFilter::iptables;
  settings.options.differences.in_cluster_clients = true;
  test::FakeDaemon daemon(settings);
  daemon.see(local_and_other());
  const auto all = translations_in(daemon.rules);
  CHECK(all > 0);
  daemon.sets.faults.fail("list set KUBE-IN-CLUSTER", {netlink::ErrorKind::io, ENOMEM, ""});
  daemon.wait(62s);
  CHECK(translations_in(daemon.rules) == all);
  daemon.sets.faults.clear();
  daemon.wait(31s);
  CHECK(translations_in(daemon.rules) == all);
}

TEST_CASE("in-cluster clients: a set that the first reading cannot read is nobody else's") {
  test::FakeDaemon daemon;
  daemon.see(local_and_other());
  const auto ways = translations_in(daemon.rules);
  CHECK(ways > 0);
  daemon.sets.faults.fail("list set KUBE-IN-CLUSTER", {netlink::ErrorKind::io, EIO, ""}, 1);
  daemon.restart();
  daemon.see(local_and_other());
  CHECK(daemon.sets.faults.hits() == 1);
  CHECK(translations_in(daemon.rules) == ways);
  daemon.wait(60s);
  CHECK(translations_in(daemon.rules) == ways);
  CHECK_FALSE(daemon.says("as clients outside do"));
}

TEST_CASE("in-cluster clients: when another program's set goes, nobody waits for an event") {
  test::FakeDaemon daemon;
  const netlink::Status made =
      daemon.sets.ensure({.name = "KUBE-IN-CLUSTER", .kind = ipset::SetKind::hash_ip});
  REQUIRE(made);
  daemon.see(local_and_other());
  CHECK(daemon.says("as clients outside do"));
  CHECK(translations_in(daemon.rules) == 0);
  const netlink::Status gone = daemon.sets.destroy("KUBE-IN-CLUSTER");
  REQUIRE(gone);
  daemon.wait(60s);
  CHECK(translations_in(daemon.rules) > 0);
}

TEST_CASE("in-cluster clients: a set that could not be removed at the start goes later") {
  test::FakeDaemon daemon;
  daemon.see(local_and_other());
  CHECK(daemon.sets.exists("KUBE-IN-CLUSTER"));
  plan::PlannerOptions options{.families = {Family::ipv4}};
  options.differences.in_cluster_clients = false;
  daemon.sets.hold("KUBE-IN-CLUSTER");
  daemon.restart(options);
  daemon.see(local_and_other());
  CHECK(daemon.sets.exists("KUBE-IN-CLUSTER"));
  daemon.sets.release("KUBE-IN-CLUSTER");
  daemon.wait(60s);
  CHECK_FALSE(daemon.sets.exists("KUBE-IN-CLUSTER"));
}

}  // namespace
}  // namespace ipvsproxier::sync
