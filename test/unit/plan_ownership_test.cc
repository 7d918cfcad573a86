// Which virtual services are ours, and what Services do not get because of others.

#include "proxier/plan/ownership.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "proxier/plan/diff.h"
#include "proxier/plan/service_report.h"
#include "test/support/cluster_builder.h"
#include "test/unit/planned_lines.h"

namespace ipvsproxier::plan {
namespace {

using netlink::Family;
using netlink::Protocol;
using netlink::VirtualServiceKey;
using test::ip;

const VirtualServiceKey kOwned{ip("192.0.2.10"), Protocol::tcp, 30080};

DesiredState nothing_desired() {
  DesiredState desired;
  desired.rules[Family::ipv4];
  return desired;
}

// All tables were read and are empty.
ActualState bare_kernel() {
  ActualState actual;
  actual.services.emplace();
  actual.addresses.emplace();
  for (const auto id : ipset::kIpSetIds) actual.sets[{Family::ipv4, id}].emplace();
  return actual;
}

TEST_CASE("ownership: without a trace a virtual service is foreign") {
  CHECK(owner_of(kOwned, nothing_desired(), bare_kernel()) == Ownership::foreign);
  auto desired = nothing_desired();
  desired.keep_foreign_services = false;
  CHECK(owner_of(kOwned, desired, bare_kernel()) == Ownership::ours);
}

TEST_CASE("ownership: each trace makes a virtual service ours, and nothing else does") {
  auto desired = nothing_desired();
  auto actual = bare_kernel();
  const auto add = [&](ipset::SetId set, const ipset::Element& element) {
    actual.sets[{Family::ipv4, set}]->insert(element);
  };
  const auto own = [](std::uint16_t port) {
    return ipset::IpPortElement{kOwned.address, Protocol::tcp, port};
  };
  const auto owner = [&] { return owner_of(kOwned, desired, actual); };
  SECTION("bound") {
    actual.addresses->insert({kOwned.address, 0});
    CHECK(owner() == Ownership::ours);
  }
  SECTION("bound by a route") {
    actual.addresses->insert({kOwned.address, kLocalTable});
    CHECK(owner() == Ownership::ours);
  }
  SECTION("among the Service addresses") {
    add(ipset::SetId::ipvs_ips, ipset::IpElement{kOwned.address});
    CHECK(owner() == Ownership::ours);
  }
  SECTION("an element of its own") {
    add(GENERATE(ipset::SetId::cluster_ip, ipset::SetId::external_ip,
                 ipset::SetId::external_ip_local, ipset::SetId::load_balancer),
        own(30080));
    CHECK(owner() == Ownership::ours);
  }
  SECTION("its node port") {
    add(ipset::SetId::node_port_tcp, ipset::PortElement{30080});
    CHECK(owner() == Ownership::ours);
  }
  SECTION("the cluster IP of a Service") {
    desired.services[{kOwned.address, Protocol::udp, 53}].facet = Facet::cluster_ip;
    CHECK(owner() == Ownership::ours);
  }
  SECTION("known before") {
    actual.lose_services();
    actual.remembered.insert(kOwned);
    CHECK(owner() == Ownership::ours);
  }
  SECTION("another port, another protocol, an endpoint, an external address that a Service wants") {
    add(ipset::SetId::external_ip, own(80));
    add(ipset::SetId::node_port_udp, ipset::PortElement{30080});
    add(ipset::SetId::health_check_node_port, ipset::PortElement{30080});
    add(ipset::SetId::loop_back,
        ipset::IpPortIpElement{kOwned.address, Protocol::tcp, 30080, kOwned.address});
    desired.services[{kOwned.address, Protocol::tcp, 30080}].facet = Facet::external_ip;
    CHECK(owner() == Ownership::foreign);
  }
}

TEST_CASE("ownership: sets that could not be read decide nothing, a trace elsewhere does") {
  auto actual = bare_kernel();
  actual.sets.erase({Family::ipv4, ipset::SetId::node_port_tcp});
  CHECK(owner_of(kOwned, nothing_desired(), actual) == Ownership::unknown);
  actual.addresses->insert({kOwned.address, 0});
  CHECK(owner_of(kOwned, nothing_desired(), actual) == Ownership::ours);
}

TEST_CASE("ownership: what a transaction added itself is no trace") {
  auto actual = bare_kernel();
  const SetKey set{Family::ipv4, ipset::SetId::node_port_tcp};
  actual.sets[set]->insert(ipset::PortElement{30080});
  actual.addresses->insert({kOwned.address, 0});
  Transaction transaction;
  CHECK(foreign_among({kOwned}, transaction, nothing_desired(), actual).empty());
  transaction.phases.push_back(
      {"add elements", std::vector<SetChange>{{set, {{true, ipset::PortElement{30080}}}}}});
  transaction.phases.push_back(
      {"add addresses", std::vector<BindingOp>{{true, {kOwned.address, 0}}}});
  CHECK(foreign_among({kOwned}, transaction, nothing_desired(), actual) ==
        std::set<VirtualServiceKey>{kOwned});
}

TEST_CASE("ownership: a change of foreign ones plans the Services that ask for them, no others") {
  auto web = test::web_service();
  web.external_ips = {ip("192.0.2.10")};
  web.ports[0].node_port = 30080;
  auto shop = test::web_service();
  shop.name.name = "shop";
  shop.cluster_ips = {ip("10.96.0.10")};
  const auto cluster = test::cluster_of({web, shop, test::slice_of(web, 8080, {test::e1()})});
  Planner planner({.families = {Family::ipv4}});
  planner.set_node(test::vector_node());
  planner.update_all(cluster);
  const auto before = planner.desired();
  CHECK(planner.set_foreign({{ip("192.0.2.11"), Protocol::tcp, 80}}, cluster).empty());
  const VirtualServiceKey theirs{ip("192.0.2.10"), Protocol::udp, 53};
  const auto names = planner.set_foreign({theirs}, cluster);
  CHECK(names == std::set<api::NamespacedName>{web.name});
  const auto scope = planner.update(names, cluster);
  CHECK(scope.services.contains({ip("192.0.2.10"), Protocol::tcp, 80}));
  CHECK_FALSE(planner.desired().services.contains({ip("192.0.2.10"), Protocol::tcp, 80}));
  CHECK(planner.desired().services.contains({ip("10.0.0.1"), Protocol::tcp, 30080}));
  CHECK(planner.meet_foreign(Family::ipv4) == 1);
  const auto report = planner.report_of(web.name, cluster);
  REQUIRE(report.size() == 1);
  const auto& last = report[0].facets.back();
  CHECK_FALSE(last.held);
  CHECK(last.foreign == theirs);
  planner.update(planner.set_foreign({}, cluster), cluster);
  CHECK(planner.desired() == before);
  CHECK(planner.meet_foreign(Family::ipv4) == 0);
}

// Also addresses that no object names: those for clients within the cluster, and behind the loop.
TEST_CASE("ownership: a Service is planned again for foreign ones at what this node derives") {
  auto service = test::local_load_balancer();
  service.internal_policy_local = true;
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {test::e2()})});
  auto options = test::vector_options();
  options.differences = {};
  options.node_port_localhost = true;
  options.packet_filter = ipset::PacketFilter::nftables;
  options.in_cluster_ranges = {test::prefix("240.0.0.0/4")};
  for (const char* theirs : {"250.96.0.9", "169.254.107.3"}) {
    INFO(theirs);
    Planner planner(options);
    planner.set_node(test::vector_node());
    planner.update_all(cluster);
    const auto of_theirs = [&] {
      return std::ranges::count_if(planner.desired().services, [&](const auto& one) {
        return one.first.address == ip(theirs);
      });
    };
    REQUIRE(of_theirs() == 1);
    const VirtualServiceKey foreign{ip(theirs), Protocol::tcp, 7};
    planner.update(planner.set_foreign({foreign}, cluster), cluster);
    CHECK(of_theirs() == 0);
    CHECK(planner.meet_foreign(Family::ipv4) == 1);
    planner.update(planner.set_foreign({}, cluster), cluster);
    CHECK(of_theirs() == 1);
  }
}

TEST_CASE("ownership: once foreign it stays so, whatever of ours comes near it") {
  auto actual = bare_kernel();
  actual.foreign.insert(kOwned);
  actual.addresses->insert({kOwned.address, 0});
  actual.sets[{Family::ipv4, ipset::SetId::node_port_tcp}]->insert(ipset::PortElement{30080});
  auto desired = nothing_desired();
  CHECK(owner_of(kOwned, desired, actual) == Ownership::foreign);
  desired.services[{kOwned.address, Protocol::udp, 53}].facet = Facet::cluster_ip;
  CHECK(owner_of(kOwned, desired, actual) == Ownership::ours);
}

// While virtual services or a set are unknown, nothing is added that would be a trace.
TEST_CASE("ownership: a kernel that is half read gets no traces of what may be foreign") {
  auto web = test::web_service();
  web.external_ips = {ip("192.0.2.10")};
  web.ports[0].node_port = 30080;
  Planner planner({.families = {Family::ipv4}});
  planner.set_node(test::vector_node());
  planner.update_all(test::cluster_of({web, test::slice_of(web, 8080, {test::e1()})}));
  const auto& desired = planner.desired();
  auto actual = bare_kernel();
  for (const auto& rules : ipset::rules_for(Family::ipv4, {}))
    actual.rules[{Family::ipv4, rules.table}] = rules;
  const auto added = [&] {
    std::set<std::string> sets;
    for (const auto& phase : diff(desired, actual).phases)
      if (const auto* changes = std::get_if<std::vector<SetChange>>(&phase.work))
        for (const auto& change : *changes)
          for (const auto& op : change.ops)
            sets.insert(ipset::set_name(change.set.id, Family::ipv4) + " " + to_string(op.element));
    return sets;
  };
  const auto all = added();
  CHECK(all.contains("KUBE-EXTERNAL-IP 192.0.2.10,tcp:80"));
  CHECK(all.contains("KUBE-IPVS-IPS 192.0.2.10"));
  CHECK(all.contains("KUBE-NODE-PORT-TCP 30080"));
  SECTION("virtual services unknown") {
    actual.services.reset();
  }
  SECTION("a set unknown") {
    actual.sets.erase({Family::ipv4, ipset::SetId::load_balancer});
  }
  const auto some = added();
  for (const auto& [set, element] : {std::pair("KUBE-EXTERNAL-IP ", "192.0.2.10,tcp:80"),
                                     {"KUBE-IPVS-IPS ", "192.0.2.10"},
                                     {"KUBE-NODE-PORT-TCP ", "30080"}})
    CHECK_FALSE(some.contains(std::string(set) + element));
  CHECK(some.contains("KUBE-CLUSTER-IP 10.96.0.9,tcp:80"));  // never foreign
  actual.remembered = {{ip("192.0.2.10"), Protocol::tcp, 80},
                       {ip("10.0.0.1"), Protocol::tcp, 30080}};
  const auto remembered = added();
  CHECK(remembered.contains("KUBE-EXTERNAL-IP 192.0.2.10,tcp:80"));
  CHECK(remembered.contains("KUBE-NODE-PORT-TCP 30080"));
}

TEST_CASE("ownership: where a trace names the address, the same alone is refused") {
  Foreign foreign;
  foreign.insert({ip("10.0.0.1"), Protocol::tcp, 5353});
  const VirtualServiceKey other{ip("10.0.0.1"), Protocol::tcp, 80};
  const VirtualServiceKey same{ip("10.0.0.1"), Protocol::tcp, 5353};
  const VirtualServiceKey port{ip("10.0.0.2"), Protocol::tcp, 5353};
  CHECK(foreign.refuses(other, Facet::external_ip, false) != nullptr);
  CHECK(foreign.refuses(same, Facet::node_port, true) != nullptr);
  CHECK(foreign.refuses(port, Facet::node_port, false) != nullptr);
  CHECK(foreign.refuses(port, Facet::node_port, true) == nullptr);
  CHECK(foreign.refuses(same, Facet::cluster_ip, false) == nullptr);
}

TEST_CASE("ownership: at addresses of kube-router's link it is ours, and a Service's node port") {
  auto desired = nothing_desired();
  const auto actual = bare_kernel();
  desired.services[kOwned].facet = Facet::node_port;
  CHECK(owner_of(kOwned, desired, actual) == Ownership::foreign);
  desired.inherited = {ip("192.0.2.99")};
  CHECK(owner_of(kOwned, desired, actual) == Ownership::ours);
  auto other = kOwned;
  other.port = 30081;
  CHECK(owner_of(other, desired, actual) == Ownership::foreign);
  desired.inherited.insert(kOwned.address);
  CHECK(owner_of(other, desired, actual) == Ownership::ours);
  // Its family is not planned.
  desired.rules.clear();
  CHECK(owner_of(other, desired, actual) == Ownership::foreign);
}

}  // namespace
}  // namespace ipvsproxier::plan
