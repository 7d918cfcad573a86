// The change between iptables and nf_tables: one daemon after the other on the same fakes.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

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
    settings.find_translation = [this](Family) -> netlink::Result<bool> { return translates(); };
    settings.remove_nft_leftovers = [this](Family) -> netlink::Result<ipset::RemovedNft> {
      before_write("remove the table kube-proxy");
      return ipset::RemovedNft{.table = std::exchange(nftables_mode, false)};
    };
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

  // Rules of kube-proxy's iptables mode, in the legacy tables.
  void add_iptables_mode() {
    for (const std::string words : {"-N KUBE-SERVICES", "-N KUBE-SVC-A",
                                    "-A KUBE-SERVICES -j KUBE-SVC-A", "-A KUBE-SVC-A -j ACCEPT"})
      iptables.edit(Family::ipv4, ipset::Table::nat, words);
    for (const std::string chain : {"PREROUTING", "OUTPUT"})
      iptables.edit(
          Family::ipv4, ipset::Table::nat,
          "-A " + chain + " -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES");
  }
  bool nftables_mode = false;  // its table is there
  bool translates() const {
    return nftables_mode || iptables.lines(Family::ipv4, ipset::Table::nat).contains("KUBE-SVC-A");
  }
  // How many of our chains settle destinations.
  int settling() const {
    const auto* const table = nf_tables.find(ipset::nft_table_of(Family::ipv4));
    if (table == nullptr) return 0;
    int count = 0;
    for (const auto* name : {"prerouting", "output"})
      if (const auto chain = table->chains.find(name); chain != table->chains.end())
        for (const auto& rule : chain->second.rules)
          for (const auto& expression : rule.expressions)
            count += std::holds_alternative<netlink::NftNat>(expression) ? 1 : 0;
    return count;
  }
  bool serves() const {
    return ipvs.server(test::kWeb, test::kE1) != nullptr &&
           links.contains(plan::kDummyLink, test::kWeb.address);
  }

  // Called before everything that the process asks the kernel for.
  std::function<void(std::string_view)> before_write = [](std::string_view) {};
  void watch() {
    const auto look = [this](std::string_view what) -> std::optional<test::Fault> {
      before_write(what);
      return std::nullopt;
    };
    for (auto* faults : {&ipvs.faults, &links.faults, &ip_sets.faults, &iptables.faults,
                         &conntrack.faults, &socket.faults})
      faults->decide(look);
  }
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

TEST_CASE("filter change: sets that cannot be read are told once, and tried again") {
  Node node;
  REQUIRE(node.ip_sets.ensure(ipset::set_spec(ipset::SetId::cluster_ip, Family::ipv4)));
  TakeOver take_over(node.nft_rules,
                     OtherFilter{PacketFilter::iptables, &node.iptables, &node.ip_sets}, {},
                     node.logger);
  node.ip_sets.faults.fail("list set KUBE-CLUSTER-IP", {netlink::ErrorKind::io, ENOMEM, "memory"},
                           2);
  for (int i = 0; i < 2; ++i) {
    take_over.finish(Family::ipv4);
    CHECK(take_over.pending(Family::ipv4));
    CHECK(node.has_ip_sets());
  }
  const auto told = node.log.str().find("set KUBE-CLUSTER-IP of iptables stays: ");
  CHECK(told != std::string::npos);
  CHECK(told == node.log.str().rfind("set KUBE-CLUSTER-IP of"));
  take_over.finish(Family::ipv4);
  CHECK_FALSE(take_over.pending(Family::ipv4));
  CHECK_FALSE(node.has_ip_sets());
}

// As SIGKILL: nothing of the process goes on.
struct Killed {};

// False: it ended before so many questions to the kernel.
bool is_killed(Node& node, PacketFilter filter, std::size_t before) {
  std::size_t asked = 0;
  node.before_write = [&](std::string_view) {
    if (asked++ == before) throw Killed();
  };
  try {
    node.start(filter, shop({test::e1()}));
  } catch (const Killed&) {
    return true;
  }
  return false;
}

TEST_CASE("filter change: destinations are settled when kube-proxy translates none any more") {
  for (const bool nftables_mode : {false, true}) {
    Node node;
    node.nftables_mode = nftables_mode;
    if (!nftables_mode) node.add_iptables_mode();
    node.watch();
    bool early = false;
    bool without_either = false;
    node.before_write = [&](std::string_view) {
      early = early || (node.settling() > 0 && node.translates());
      without_either = without_either || (!node.translates() && !node.serves());
    };
    CHECK(node.start(PacketFilter::nftables, shop({test::e1()})).settled);
    CHECK_FALSE(early);
    CHECK_FALSE(without_either);
    CHECK(node.settling() == 2);
    CHECK_FALSE(node.translates());
  }
}

TEST_CASE("filter change: without all in IPVS, kube-proxy's rules go on translating") {
  Node node;
  node.add_iptables_mode();
  node.ipvs.faults.fail("add real server 10.244.1.4", {netlink::ErrorKind::io, EIO, ""}, 1000);
  const auto cluster = shop({test::e1(), test::e2()});
  CHECK_FALSE(node.start(PacketFilter::nftables, cluster).settled);
  CHECK(node.translates());
  CHECK(node.settling() == 0);
  node.ipvs.faults.clear();
  CHECK(node.start(PacketFilter::nftables, cluster).settled);
  CHECK_FALSE(node.translates());
  CHECK(node.settling() == 2);
}

TEST_CASE("filter change: killed at any point, the next start ends right") {
  enum class From : std::uint8_t { iptables_mode, nftables_mode, iptables, nftables };
  for (const auto from :
       {From::iptables_mode, From::nftables_mode, From::iptables, From::nftables}) {
    const auto to = from == From::nftables ? PacketFilter::iptables : PacketFilter::nftables;
    std::size_t before = 0;
    for (bool killed = true; killed; ++before) {
      INFO("from " << static_cast<int>(from) << ", killed before question " << before);
      Node node;
      node.nftables_mode = from == From::nftables_mode;
      if (from == From::iptables_mode) node.add_iptables_mode();
      if (from == From::iptables) node.start(PacketFilter::iptables, shop({test::e1()}));
      if (from == From::nftables) node.start(PacketFilter::nftables, shop({test::e1()}));
      node.watch();
      killed = is_killed(node, to, before);
      // Whoever served before does until IPVS does.
      CHECK((node.translates() || node.serves()));
      CHECK((node.settling() == 0 || !node.translates()));

      node.before_write = [&](std::string_view) {
        REQUIRE((node.translates() || node.serves()));
        REQUIRE((node.settling() == 0 || !node.translates()));
      };
      CHECK(node.start(to, shop({test::e1()})).settled);
      CHECK_FALSE(node.translates());
      CHECK(node.has_iptables() == (to == PacketFilter::iptables));
      CHECK(node.has_ip_sets() == (to == PacketFilter::iptables));
      CHECK(node.has_nftables() == (to == PacketFilter::nftables));
      CHECK(node.settling() == (to == PacketFilter::nftables ? 2 : 0));
      CHECK(node.start(to, shop({test::e1()})).written == Written{});
    }
    CHECK(before > 20);
  }
}

}  // namespace
}  // namespace ipvsproxier::sync
