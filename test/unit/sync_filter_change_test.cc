// The change between iptables and nf_tables: one daemon after the other on the same fakes.

#include <set>
#include <sstream>
#include <string>

#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>

#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_set_table.h"
#include "test/fakes/fake_filter_table.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using ipset::PacketFilter;
using netlink::Family;
using netlink::Protocol;
using test::ip;

const netlink::VirtualServiceKey kNodePort{ip("10.0.0.1"), Protocol::tcp, 30080};

model::ClusterState shop(std::vector<api::Endpoint> endpoints) {
  auto web = test::web_service();
  web.type = api::ServiceType::node_port;
  web.ports[0].node_port = kNodePort.port;
  return test::cluster_of({web, test::slice_of(web, 8080, std::move(endpoints))});
}

// A node with both packet filters.
struct Node {
  test::FakeIpvsTable ipvs;
  test::FakeLinkTable links;
  test::FakeSetTable ip_sets;
  test::FakeRuleTable iptables;
  test::FakeConntrackTable conntrack;
  test::FakeNfTables nf_tables;
  test::FakeFilterTable socket{nf_tables, 1};
  ipset::NftSetTable nft_sets{socket};
  ipset::NftRuleTable nft_rules{socket};
  std::ostringstream log;
  spdlog::logger logger{"test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)};

  Node() {
    links.add_link("eth0", "veth");
    for (const auto& address : test::vector_node().addresses)
      if (address.link == "eth0") links.add_address(address);
    iptables.has_set = [this](const auto& name) { return ip_sets.exists(name); };
  }

  Kernel kernel(PacketFilter filter) {
    if (filter == PacketFilter::iptables)
      return {ipvs,     links,     ip_sets,
              iptables, conntrack, OtherFilter{PacketFilter::nftables, &nft_rules, &nft_sets}};
    return {ipvs,      links,     nft_sets,
            nft_rules, conntrack, OtherFilter{PacketFilter::iptables, &iptables, &ip_sets}};
  }

  // A new process with this packet filter lists the cluster.
  SyncReport start(PacketFilter filter, const model::ClusterState& cluster, bool once = false) {
    ReconcilerSettings settings;
    settings.node_name = "n1";
    settings.options.families = {Family::ipv4};
    settings.options.packet_filter = filter;
    Reconciler reconciler(kernel(filter), settings, logger);
    reconciler.take({.changes = test::changes_between({}, cluster)});
    const TimePoint now{std::chrono::hours(1)};
    return once ? reconciler.run_to_end(now) : reconciler.run(now);
  }

  bool has_iptables() const {
    for (const auto table : {ipset::Table::filter, ipset::Table::nat})
      for (const auto& [chain, rules] : iptables.lines(Family::ipv4, table))
        if (chain.starts_with("KUBE-") || !rules.empty()) return true;
    return false;
  }
  bool has_ip_sets() const {
    for (const auto id : ipset::kSetIds)
      if (ip_sets.exists(ipset::set_name(id, Family::ipv4))) return true;
    return false;
  }
  bool has_nftables() const { return nf_tables.find(ipset::nft_table_of(Family::ipv4)) != nullptr; }
};

TEST_CASE("filter change: a process that runs once takes over as well") {
  Node node;
  CHECK(node.start(PacketFilter::nftables, shop({test::e1()}), true).settled);
  REQUIRE(node.has_nftables());
  CHECK(node.start(PacketFilter::iptables, shop({test::e1()}), true).settled);
  CHECK(node.has_iptables());
  CHECK_FALSE(node.has_nftables());
}

TEST_CASE("filter change: the new one serves all, and the old one goes, there and back") {
  Node node;
  CHECK(node.start(PacketFilter::iptables, shop({test::e1()})).settled);
  REQUIRE(node.ipvs.contains(kNodePort));
  CHECK(node.has_iptables());
  CHECK_FALSE(node.has_nftables());

  const auto there = node.start(PacketFilter::nftables, shop({test::e2()}));
  CHECK(there.settled);
  CHECK(there.refusals.at(Family::ipv4).by_foreign == 0);
  // The node port is ours by an IP set.
  CHECK(node.ipvs.server(kNodePort, test::kE2) != nullptr);
  CHECK_FALSE(node.has_iptables());
  CHECK_FALSE(node.has_ip_sets());
  CHECK(node.has_nftables());
  CHECK(node.log.str().find("took over from iptables: removed 11 chains") != std::string::npos);

  const auto back = node.start(PacketFilter::iptables, shop({test::e1()}));
  CHECK(back.settled);
  CHECK(back.refusals.at(Family::ipv4).by_foreign == 0);
  CHECK(node.ipvs.server(kNodePort, test::kE1) != nullptr);
  CHECK(node.has_iptables());
  CHECK_FALSE(node.has_nftables());
}

TEST_CASE("filter change: the old filter stays until everything is in place") {
  Node node;
  CHECK(node.start(PacketFilter::iptables, shop({test::e1()})).settled);
  node.ipvs.faults.fail("add real server 10.244.1.4", {netlink::ErrorKind::io, EIO, ""}, 1000);
  auto cluster = shop({test::e1(), test::e2()});
  CHECK_FALSE(node.start(PacketFilter::nftables, cluster).settled);
  CHECK(node.has_iptables());
  CHECK(node.has_ip_sets());
  node.ipvs.faults.clear();
  CHECK(node.start(PacketFilter::nftables, cluster).settled);
  CHECK_FALSE(node.has_iptables());
  CHECK_FALSE(node.has_ip_sets());
}

}  // namespace
}  // namespace ipvsproxier::sync
