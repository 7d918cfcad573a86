// --cleanup on fakes: ours goes in one run, others' stays, failures are named.

#include "cmd/ipvs_proxier/cleanup.h"

#include <cerrno>

#include <catch2/catch.hpp>

#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_table.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/sets/set_catalog.h"
#include "test/fakes/fake_filter_table.h"
#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::cmd {
namespace {

using ipset::Table;
using netlink::ErrorKind;
using netlink::Family;
using netlink::Protocol;
using test::FakeDaemon;
using test::ip;
using Lines = std::vector<std::string>;

const netlink::VirtualServiceKey kExcluded{ip("192.0.2.7"), Protocol::tcp, 80};
const netlink::VirtualServiceKey kForeign{ip("192.168.3.3"), Protocol::tcp, 80};
// A predecessor left it with an element, as the excluded one.
const netlink::VirtualServiceKey kStray{ip("10.96.7.7"), Protocol::udp, 53};
const netlink::VirtualServiceKey kByMark{.address = ip("0.0.0.0"), .fwmark = 7};

// Of nf_tables: of kube-proxy's nftables mode, and one of the host.
const netlink::NftTableKey kLeft{netlink::NftFamily::ip6, "kube-proxy"};
const netlink::NftTableKey kHosts{netlink::NftFamily::ip, "filter"};

void add_service(test::FakeIpvsTable& ipvs, const netlink::VirtualServiceKey& key) {
  const netlink::IpvsOp op = netlink::AddService{{.key = key, .scheduler = "rr"}};
  REQUIRE(ipvs.apply({&op, 1}).at(0));
}

// A node with the Service of web_with() in both families' tables, and things of others.
struct Node {
  FakeDaemon daemon{{.options = {.families = {Family::ipv4, Family::ipv6}}}};
  test::FakeNfTables nf_tables;
  test::FakeFilterTable nftables{nf_tables, 1};

  Node() {
    REQUIRE(daemon.see(test::web_with({test::e1()})).settled);
    for (const auto& table : {kLeft, kHosts})
      REQUIRE(nf_tables.apply({{netlink::NftAddTable{table}}}));
    for (const auto& key : {kExcluded, kForeign, kStray, kByMark}) add_service(daemon.ipvs, key);
    const auto spec = ipset::set_spec(ipset::SetId::cluster_ip, Family::ipv4);
    for (const auto& key : {kExcluded, kStray}) {
      const std::vector<ipset::ElementOp> mark{
          {.element = ipset::IpPortElement{key.address, key.protocol, key.port}}};
      REQUIRE(daemon.sets.apply(spec, mark).at(0));
    }
    const std::vector<netlink::AddressOp> route{{.add = true, .address = ip("10.96.0.8")}};
    REQUIRE(daemon.links.apply_local_routes(route).at(0));
    daemon.links.add_link("kube-ipvs", "dummy");
    daemon.links.add_link("kube-ipvs1", "dummy");
    daemon.links.add_link("kube-ipvs-of-mine", "dummy");
    daemon.rules.edit(Family::ipv4, Table::filter, "-N FOREIGN");
    daemon.rules.edit(Family::ipv4, Table::filter, "-A FOREIGN -j DROP");
    daemon.rules.edit(Family::ipv4, Table::filter, "-A INPUT -j FOREIGN");
    REQUIRE(daemon.sets.ensure({.name = "KUBE-MINE", .kind = ipset::SetKind::hash_ip}));
    REQUIRE(daemon.sets.ensure({.name = ipset::kCopyName, .kind = ipset::SetKind::hash_ip}));
  }

  CleanupReport clean() {
    return clean_up({.ipvs = &daemon.ipvs,
                     .links = &daemon.links,
                     .sets = &daemon.sets,
                     .rules = &daemon.rules,
                     .nftables = &nftables},
                    {.excluded = {*netlink::IpPrefix::parse("192.0.2.0/24")}});
  }
  std::size_t sets_left() {
    std::size_t count = 0;
    for (const auto family : netlink::kFamilies)
      for (const auto id : ipset::kSetIds)
        count += daemon.sets.list(set_name(id, family))->has_value() ? 1 : 0;
    return count;
  }
};

Lines failures_of(const CleanupReport& report) {
  Lines lines;
  for (const auto& failure : report.failures) lines.push_back(failure.what);
  return lines;
}

TEST_CASE("cleanup: all that is ours goes in one run, and nothing else", "[item-12][item-13]") {
  Node node;
  const auto report = node.clean();
  CHECK(failures_of(report) == Lines{});
  CHECK(to_string(report) ==
        "2 links, 1 local routes, 2 virtual services, 18 jumps, 22 chains, 36 sets, 1 nftables "
        "tables; 1 virtual services of other programs stay: 192.168.3.3:80/TCP");
  auto& daemon = node.daemon;
  CHECK(node.sets_left() == 0);
  CHECK(daemon.links.local_routes().empty());
  CHECK_FALSE(daemon.ipvs.contains(test::kWeb));
  CHECK_FALSE(daemon.ipvs.contains(kStray));
  CHECK(daemon.ipvs.contains(kExcluded));
  CHECK(daemon.ipvs.contains(kForeign));
  CHECK(daemon.ipvs.contains(kByMark));
  CHECK(*daemon.links.list_links() == Lines{"eth0", "kube-ipvs", "kube-ipvs-of-mine", "lo"});
  CHECK(daemon.sets.list("KUBE-MINE")->has_value());
  CHECK_FALSE(daemon.sets.list(ipset::kCopyName)->has_value());
  const auto filter = daemon.rules.lines(Family::ipv4, Table::filter);
  CHECK(filter ==
        std::map<std::string, Lines>{{"FOREIGN", {"-j DROP"}}, {"INPUT", {"-j FOREIGN"}}});
  CHECK(daemon.rules.lines(Family::ipv6, Table::nat).empty());

  const auto writes = daemon.writes();
  const auto again = node.clean();
  CHECK(
      to_string(again) ==
      "0 links, 0 local routes, 0 virtual services, 0 jumps, 0 chains, 0 sets, 0 nftables tables; "
      "1 virtual services of other programs stay: 192.168.3.3:80/TCP");
  CHECK(failures_of(again) == Lines{});
  CHECK(daemon.writes() == writes);
}

TEST_CASE("cleanup: what fails does not stop the rest") {
  Node node;
  auto& daemon = node.daemon;
  daemon.links.remove_link("kube-ipvs1");
  daemon.links.add_link("kube-ipvs1", "veth");
  daemon.links.faults.fail("delete local route", {ErrorKind::denied, EPERM, ""}, 1);
  daemon.ipvs.faults.fail("10.96.7.7", {ErrorKind::denied, EPERM, ""});
  daemon.rules.faults.fail("remove from IPv6 nat", {ErrorKind::busy, 0, "locked"});
  daemon.rules.edit(Family::ipv4, Table::filter, "-A FOREIGN -j KUBE-FORWARD");
  daemon.sets.hold("KUBE-CLUSTER-IP");
  const auto report = node.clean();
  CHECK(failures_of(report) == Lines{"remove link kube-ipvs1", "delete local route 10.96.0.8/32",
                                     "delete virtual service 10.96.7.7:53/UDP",
                                     "remove chain KUBE-FORWARD", "remove rules of IPv6 table nat",
                                     "remove set KUBE-CLUSTER-IP"});
  CHECK(to_string(report) ==
        "1 links, 0 local routes, 1 virtual services, 15 jumps, 16 chains, 35 sets, 1 nftables "
        "tables; 1 virtual services of other programs stay: 192.168.3.3:80/TCP");
  CHECK(node.nf_tables.tables() == std::vector{kHosts});

  daemon.clear_faults();
  daemon.sets.release("KUBE-CLUSTER-IP");
  daemon.rules.edit(Family::ipv4, Table::filter, "-F FOREIGN");
  CHECK(failures_of(node.clean()) == Lines{"remove link kube-ipvs1"});
  CHECK(node.sets_left() == 0);
}

TEST_CASE("cleanup: a kernel that lacks everything holds nothing of ours") {
  const auto report = clean_up({}, {});
  CHECK(report.failures.empty());
  CHECK(
      to_string(report) ==
      "0 links, 0 local routes, 0 virtual services, 0 jumps, 0 chains, 0 sets, 0 nftables tables");
}

TEST_CASE("cleanup: a table that cannot be read is one failure") {
  Node node;
  node.daemon.links.faults.fail("list links", {ErrorKind::denied, EPERM, ""});
  node.daemon.ipvs.faults.fail("list virtual services", {ErrorKind::denied, EPERM, ""});
  node.daemon.links.faults.fail("list local routes", {ErrorKind::denied, EPERM, ""});
  CHECK(failures_of(node.clean()) ==
        Lines{"list links", "list local routes", "list virtual services"});
}

TEST_CASE("cleanup: a node port that our table of nf_tables serves goes with it") {
  test::FakeNfTables nft;
  test::FakeFilterTable table(nft, 1);
  ipset::NftSetTable sets(table);
  ipset::NftRuleTable rules(table);
  for (const auto id : ipset::kNftSetIds) REQUIRE(sets.ensure(ipset::set_spec(id, Family::ipv4)));
  REQUIRE(rules.apply(ipset::nft_rules(Family::ipv4, {})));
  const netlink::VirtualServiceKey node_port{ip("192.168.3.4"), Protocol::tcp, 30080};
  const std::vector<ipset::ElementOp> served{
      {.element = ipset::ServiceElement{node_port.address, node_port.protocol, node_port.port}}};
  REQUIRE(sets.apply(ipset::set_spec(ipset::SetId::nft_services, Family::ipv4), served).front());
  test::FakeIpvsTable ipvs;
  for (const auto& key : {node_port, kForeign}) add_service(ipvs, key);
  const auto report = clean_up({.ipvs = &ipvs, .nft_rules = &rules, .nft_sets = &sets}, {});
  CHECK(report.failures.empty());
  CHECK(report.services == 1);
  CHECK(report.foreign.size() == 1);
  CHECK(report.nft_tables == 1);
  CHECK(nft.find(ipset::nft_table_of(Family::ipv4)) == nullptr);
}

TEST_CASE("cleanup: what kube-router's service proxy left is removed, and the rest is named") {
  FakeDaemon daemon;
  const netlink::VirtualServiceKey bound{ip("192.0.2.70"), Protocol::tcp, 80};
  const netlink::VirtualServiceKey node_port{ip("10.0.1.1"), Protocol::tcp, 31070};
  daemon.links.add_link("kube-dummy-if", "dummy");
  daemon.links.add_address({"kube-dummy-if", bound.address, 32});
  daemon.ipvs.after = nullptr;  // no daemon of ours sees it
  for (const auto& key : {bound, node_port}) add_service(daemon.ipvs, key);
  REQUIRE(
      daemon.sets.ensure({.name = "kube-router-svip-prt", .kind = ipset::SetKind::hash_ip_port}));
  REQUIRE(daemon.sets.ensure({.name = "kube-router-node-ips", .kind = ipset::SetKind::hash_ip}));
  daemon.rules.edit(Family::ipv4, Table::filter, "-N KUBE-ROUTER-SERVICES");
  daemon.rules.edit(Family::ipv4, Table::filter, "-A KUBE-ROUTER-SERVICES -j REJECT");
  daemon.rules.edit(Family::ipv4, Table::filter, "-A INPUT -j KUBE-ROUTER-SERVICES");
  const bool kube_router = GENERATE(true, false);
  const auto report = clean_up(
      {.ipvs = &daemon.ipvs, .links = &daemon.links, .sets = &daemon.sets, .rules = &daemon.rules},
      {.excluded = {}, .kube_router = kube_router});
  CHECK(failures_of(report) == Lines{});
  CHECK(daemon.ipvs.contains(bound) != kube_router);
  CHECK(daemon.ipvs.contains(node_port));
  CHECK(daemon.sets.list("kube-router-svip-prt")->has_value() != kube_router);
  CHECK(daemon.sets.list("kube-router-node-ips")->has_value());
  const auto filter = daemon.rules.lines(Family::ipv4, Table::filter);
  CHECK(filter.contains("KUBE-ROUTER-SERVICES") != kube_router);
  if (kube_router)
    CHECK(to_string(report).find(
              "1 virtual services of other programs stay: 10.0.1.1:31070/TCP; of kube-router stay "
              "its routes") != std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::cmd
