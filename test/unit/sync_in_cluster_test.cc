// Services of external policy Local that in-cluster clients reach by way of the cluster IP
// (Differences::in_cluster_clients), with iptables, on fakes: what one of them may cost the others.

#include <cerrno>
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

using netlink::Family;
using netlink::Protocol;
using test::ip;

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
    settings.options.differences.in_cluster_clients = true;
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
  std::size_t servers_of(const std::string& address, std::uint16_t port) {
    return ipvs.list_servers({ip(address), Protocol::tcp, port})->size();
  }
  bool tells_of_clients() const {
    return log.str().find("Service default/web: spec.externalTrafficPolicy: this node and its") !=
           std::string::npos;
  }
  std::size_t elements_of(const std::string& set) {
    const auto listed = sets.list(set);
    return listed && *listed ? (*listed)->elements.size() : 0;
  }
  std::size_t translations() {
    std::size_t found = 0;
    for (const auto& [chain, lines] : rules.lines(Family::ipv4, ipset::Table::nat))
      for (const auto& line : lines) found += line.find("-j DNAT") != std::string::npos ? 1 : 0;
    return found;
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

TEST_CASE("in-cluster clients: they are dropped nowhere before rules send them on") {
  InClusterNode node;
  node.settings.options.differences.in_cluster_clients = false;
  REQUIRE(node.sync(local_and_other()).complete());
  CHECK(node.servers_of("192.0.2.10", 443) == 1);
  node.settings.options.differences.in_cluster_clients = true;
  node.rules.faults.fail("write IPv4 nat", {netlink::ErrorKind::timeout, 0, "xtables lock"});
  CHECK_FALSE(node.sync(local_and_other()).complete());
  CHECK(node.translations() == 0);
  CHECK(node.elements_of("KUBE-IN-CLUSTER-ONLY") == 0);

  node.rules.faults.clear();
  CHECK(node.sync(local_and_other()).complete());
  CHECK(node.translations() > 0);
  CHECK(node.elements_of("KUBE-IN-CLUSTER-ONLY") > 0);
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
  const auto ways = [&] {
    std::size_t found = 0;
    for (const auto& [chain, lines] : daemon.rules.lines(Family::ipv4, ipset::Table::nat))
      for (const auto& line : lines) found += line.find("-j DNAT") != std::string::npos ? 1 : 0;
    return found;
  };
  const auto all = ways();
  CHECK(all > 0);
  daemon.sets.faults.fail("list set KUBE-IN-CLUSTER", {netlink::ErrorKind::io, ENOMEM, ""});
  daemon.wait(62s);
  CHECK(ways() == all);
  daemon.sets.faults.clear();
  daemon.wait(31s);
  CHECK(ways() == all);
}

}  // namespace
}  // namespace ipvsproxier::sync
