// Rules of others that add connections to a flowtable: ours keep connections of Services out.

#include <chrono>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>

#include "ipset/nft/flow_rules.h"
#include "ipset/nftables/flow_table.h"
#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_set_table.h"
#include "ipset/rules/nft_catalog.h"
#include "test/fakes/fake_filter_table.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using netlink::Family;
using netlink::NftFamily;
using netlink::NftFlowRule;
using netlink::Protocol;
using std::chrono::seconds;
using test::ip;

const NftFlowRule kForeign{{NftFamily::inet, "nb"}, "forward", "f"};
const NftFlowRule kSixthOnly{{NftFamily::ip6, "nb6"}, "forward", "f"};

// A node with nf_tables, and a daemon on it that follows.
struct GuardedNode {
  test::FakeIpvsTable ipvs;
  test::FakeLinkTable links;
  test::FakeConntrackTable conntrack;
  test::FakeNfTables nf_tables;
  test::FakeFilterTable socket{nf_tables, 1};
  ipset::NftSetTable sets{socket};
  ipset::NftRuleTable rules{socket};
  std::ostringstream log;
  spdlog::logger logger{"test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)};
  std::optional<std::vector<NftFlowRule>> foreign = std::vector<NftFlowRule>{};
  std::size_t looks = 0;
  std::optional<Reconciler> daemon;
  TimePoint now{std::chrono::hours(1)};

  GuardedNode() {
    links.add_link("eth0", "veth");
    for (const auto& address : test::vector_node().addresses)
      if (address.link == "eth0") links.add_address(address);
  }

  void start() {
    ReconcilerSettings settings;
    settings.node_name = "n1";
    settings.options.families = {Family::ipv4};
    settings.options.packet_filter = ipset::PacketFilter::nftables;
    settings.remove_nft_leftovers = [](Family) -> netlink::Result<ipset::RemovedNft> {
      return ipset::RemovedNft{};
    };
    settings.find_flow_rules = [this]() -> netlink::Result<std::vector<NftFlowRule>> {
      ++looks;
      if (!foreign) return netlink::Error{netlink::ErrorKind::busy, 0, "busy"};
      return *foreign;
    };
    daemon.emplace(Kernel{ipvs, links, sets, rules, conntrack, std::nullopt}, settings, logger);
    daemon->take({.changes = test::changes_between({}, test::web_with({test::e1()}))});
    run();
  }
  void run() {
    do daemon->run(now);
    while (daemon->due() <= now);
  }
  // Time passes, by steps of a second.
  void wait(seconds time) {
    for (const auto end = now + time; now < end;) {
      now += seconds(1);
      run();
    }
  }
  void hear_of_change() {
    SyncInput input;
    input.flow_rules_changed = true;
    daemon->take(std::move(input));
    run();
  }

  const test::FakeNfTables::Table* table() const {
    return nf_tables.find(ipset::nft_table_of(Family::ipv4));
  }
  // Chains to which the map of virtual services leads, with a rule that keeps connections out.
  std::size_t guarded() const {
    std::size_t count = 0;
    for (const auto& [name, chain] : table()->chains)
      if (!chain.rules.empty())
        for (const auto& one : chain.rules.front().expressions)
          count += std::holds_alternative<netlink::NftObjectRef>(one) ? 1 : 0;
    return count;
  }
  bool says(const std::string& text) const { return log.str().find(text) != std::string::npos; }
  std::vector<std::string> wrong() const {
    std::vector<std::string> lines;
    daemon->answer({[&](const Inspection& one) { lines = one.standing.wrong; }}, now);
    return lines;
  }
};

constexpr std::size_t kGuardedChains = 4;

TEST_CASE("flow guard: families of the rules of others") {
  CHECK(ipset::families_of_flows({}).empty());
  CHECK(ipset::families_of_flows({kForeign}) == std::set{Family::ipv4, Family::ipv6});
  CHECK(ipset::families_of_flows({kSixthOnly}) == std::set{Family::ipv6});
  CHECK(ipset::families_of_flows({{{NftFamily::netdev, "n"}, "c", "f"}}).empty());
}

TEST_CASE("flow guard: without a flowtable nothing is there") {
  GuardedNode node;
  node.start();
  CHECK(node.guarded() == 0);
  CHECK(node.table()->expectations.empty());
}

TEST_CASE("flow guard: a rule that is there at the start is met by the first writing") {
  GuardedNode node;
  node.foreign = {kForeign};
  node.start();
  CHECK(node.guarded() == kGuardedChains);
  REQUIRE(node.table()->expectations.contains("unaccelerated"));
  CHECK(node.table()->expectations.at("unaccelerated").size == 0);
  CHECK(node.says("[info] nf_tables table inet nb, chain forward adds connections to flowtable f"));
  CHECK(node.says("a rule of ours keeps them out of it"));
  CHECK(node.wrong().empty());
}

TEST_CASE("flow guard: it comes soon after such a rule, and is removed after it") {
  GuardedNode node;
  node.start();
  node.wait(seconds(2));
  node.foreign = {kForeign};
  node.hear_of_change();
  CHECK(node.guarded() == kGuardedChains);
  node.wait(seconds(60));
  CHECK(node.guarded() == kGuardedChains);
  node.foreign->clear();
  node.hear_of_change();
  node.wait(seconds(60));
  CHECK(node.guarded() == 0);
  CHECK(node.table()->expectations.empty());
  CHECK(node.says("no longer so: nf_tables table inet nb, chain forward"));
}

TEST_CASE("flow guard: a rule of the other family alone changes nothing") {
  GuardedNode node;
  node.foreign = {kSixthOnly};
  node.start();
  CHECK(node.guarded() == 0);
}

TEST_CASE("flow guard: what cannot be read leaves what is there") {
  GuardedNode node;
  node.foreign = {kForeign};
  node.start();
  node.foreign.reset();
  node.wait(seconds(90));
  CHECK(node.guarded() == kGuardedChains);
}

TEST_CASE("flow guard: who adds and removes such a rule all the time has us write once") {
  GuardedNode node;
  node.foreign = {kForeign};
  node.start();
  const auto generation = node.nf_tables.generation();
  const auto looks = node.looks;
  for (int i = 0; i < 200; ++i) {
    if (i % 2 == 0)
      node.foreign->clear();
    else
      node.foreign = {kForeign};
    node.now += std::chrono::milliseconds(50);
    node.hear_of_change();
  }
  CHECK(node.nf_tables.generation() == generation);
  CHECK(node.looks - looks <= 11);  // one a second, in ten seconds
}

TEST_CASE("flow guard: a rule that looks never meet keeps the guard") {
  GuardedNode node;
  node.foreign = {kForeign};
  node.start();
  node.foreign->clear();
  for (int i = 0; i < 60; ++i) {
    node.wait(seconds(1));
    node.hear_of_change();
  }
  CHECK(node.guarded() == kGuardedChains);
}

TEST_CASE("flow guard: a kernel without the object has the other rules, and that is told") {
  GuardedNode node;
  node.nf_tables.has_expectations = false;
  node.foreign = {kForeign};
  node.start();
  CHECK(node.guarded() == 0);
  CHECK(node.table() != nullptr);
  CHECK(node.ipvs.server(test::kWeb, test::kE1) != nullptr);
  CHECK(node.says("[warning] nf_tables table inet nb, chain forward adds connections"));
  REQUIRE(node.wrong().size() == 1);
  CHECK(node.wrong().front().find("write \"ct direction original\" into that rule") !=
        std::string::npos);
  node.nf_tables.has_expectations = true;  // its module came
  node.wait(seconds(31));
  CHECK(node.guarded() == kGuardedChains);
  CHECK(node.wrong().empty());
}

TEST_CASE("flow guard: an object of our name that somebody else made is replaced") {
  GuardedNode node;
  node.start();
  const auto key = ipset::nft_table_of(Family::ipv4);
  CHECK(node.nf_tables.apply({{netlink::NftAddExpectation{
      key, {.name = "unaccelerated", .protocol = 17, .port = 1, .timeout = 1, .size = 1}}}}));
  node.foreign = {kForeign};
  node.wait(seconds(31));
  CHECK(node.guarded() == kGuardedChains);
  CHECK(node.table()->expectations.at("unaccelerated").size == 0);
}

TEST_CASE("flow guard: what others change of our rules is put back") {
  GuardedNode node;
  node.foreign = {kForeign};
  node.start();
  const auto key = ipset::nft_table_of(Family::ipv4);
  CHECK(node.nf_tables.apply({{netlink::NftFlushChain{key, "svc_keep"}}}));
  CHECK(node.guarded() == kGuardedChains - 1);
  node.wait(seconds(31));
  CHECK(node.guarded() == kGuardedChains);
}

TEST_CASE("flow guard: connections that the flowtable has are removed when the guard comes") {
  GuardedNode node;
  node.start();
  const netlink::FlowEnd web{test::kWeb.address, test::kWeb.port};
  const netlink::FlowEnd pod{ip("10.244.0.3"), 8080};
  const auto track = [&](std::uint16_t port, const netlink::FlowEnd& to, bool offloaded) {
    const netlink::FlowEnd client{ip("203.0.113.7"), port};
    node.conntrack.track(client, to, pod, Protocol::tcp);
    if (offloaded) node.conntrack.offload(client, to, Protocol::tcp);
  };
  track(1, web, true);
  track(2, web, false);
  track(3, pod, true);  // routed
  const auto listings = node.conntrack.listings();
  node.wait(seconds(5));
  CHECK(node.conntrack.listings() == listings);
  node.foreign = {kForeign};
  node.hear_of_change();
  CHECK(node.conntrack.sources() == std::set<std::uint16_t>{2, 3});
  // It was silent, and gets in with its next packet.
  node.conntrack.offload({ip("203.0.113.7"), 2}, web, Protocol::tcp);
  node.wait(seconds(10));
  CHECK(node.conntrack.sources() == std::set<std::uint16_t>{3});
  node.wait(seconds(1200));
  CHECK(node.conntrack.listings() == listings + 3);
}

TEST_CASE("flow guard: a Service that changes does not wait for the look at all connections") {
  GuardedNode node;
  node.start();
  node.conntrack.flows_a_part = 2;
  const netlink::FlowEnd web{test::kWeb.address, test::kWeb.port};
  for (std::uint16_t port = 1; port <= 40; ++port) {
    const netlink::FlowEnd client{ip("203.0.113.7"), port};
    node.conntrack.track(client, web, {ip("10.244.0.3"), 8080}, Protocol::tcp);
    node.conntrack.offload(client, web, Protocol::tcp);
  }
  node.wait(seconds(5));
  node.foreign = {kForeign};
  SyncInput input;
  input.flow_rules_changed = true;
  node.daemon->take(std::move(input));
  const auto left = [&] { return node.conntrack.sources().size(); };
  for (int i = 0; i < 10 && left() == 40; ++i) node.daemon->run(node.now);
  node.daemon->take({.changes = test::changes_between(test::web_with({test::e1()}),
                                                      test::web_with({test::e1(), test::e2()}))});
  node.daemon->run(node.now);
  CHECK(node.ipvs.servers(test::kWeb).size() == 2);
  CHECK(left() < 40);
  CHECK(left() > 20);
  node.wait(seconds(5));
  CHECK(node.conntrack.sources().empty());
}

// Legacy iptables, and beside it the table of nf_tables.
struct BesideIptables {
  test::FakeNfTables nf_tables;
  test::FakeFilterTable socket{nf_tables, 1};
  std::vector<NftFlowRule> foreign;
  test::FakeDaemon daemon{
      {.remove_nft_leftovers = {},
       .find_flow_rules = [this]() -> netlink::Result<std::vector<NftFlowRule>> { return foreign; },
       .flow_table = {
           .make = [this](Family f) { return ipset::make_flow_table(socket, f); },
           .remove = [this](Family f) { return ipset::remove_flow_table(socket, f); },
       }}};

  bool has_table() { return ipset::has_flow_table(socket, Family::ipv4).value(); }
};

TEST_CASE("flow guard: beside legacy iptables a table is there while rules of others are") {
  BesideIptables node;
  node.daemon.see(test::web_with({test::e1()}));
  CHECK_FALSE(node.has_table());
  node.foreign = {kForeign};
  node.daemon.wait(seconds(31));
  CHECK(node.has_table());
  CHECK(node.daemon.says("a rule of ours keeps them out of it"));
  CHECK(node.daemon.differences().empty());
  CHECK(node.nf_tables.apply({{netlink::NftDeleteTable{ipset::flow_table_of(Family::ipv4)}}}));
  node.daemon.wait(seconds(31));
  CHECK(node.has_table());
  node.foreign.clear();
  node.daemon.wait(seconds(62));
  CHECK_FALSE(node.has_table());
}

TEST_CASE("flow guard: the table that an earlier process left is removed") {
  BesideIptables node;
  REQUIRE(ipset::make_flow_table(node.socket, Family::ipv4));
  node.daemon.see(test::web_with({test::e1()}));
  CHECK_FALSE(node.has_table());
}

TEST_CASE("flow guard: without a table of ours that of an earlier process is removed, too") {
  test::FakeNfTables nf_tables;
  test::FakeFilterTable socket{nf_tables, 1};
  REQUIRE(ipset::make_flow_table(socket, Family::ipv4));
  test::FakeDaemon daemon({.remove_nft_leftovers = {},
                           .find_flow_rules = []() -> netlink::Result<std::vector<NftFlowRule>> {
                             return std::vector{kForeign};
                           },
                           .flow_table = {.make = {}, .remove = [&](Family family) {
                                            return ipset::remove_flow_table(socket, family);
                                          }}});
  daemon.see(test::web_with({test::e1()}));
  CHECK_FALSE(ipset::has_flow_table(socket, Family::ipv4).value());
}

TEST_CASE("flow guard: another program's table of that name is told and stays") {
  BesideIptables node;
  const auto key = ipset::flow_table_of(Family::ipv4);
  REQUIRE(node.nf_tables.apply({{netlink::NftAddTable{key}}}));
  REQUIRE(node.nf_tables.apply({{netlink::NftAddChain{key, {.name = "theirs", .base = {}}}}}));
  node.foreign = {kForeign};
  node.daemon.see(test::web_with({test::e1()}));
  CHECK(node.daemon.says("table ip kube-ipvs-flows is another program's"));
  CHECK(node.nf_tables.find(key)->chains.contains("theirs"));
}

TEST_CASE("flow guard: beside legacy iptables, too, what a flowtable has is removed once") {
  BesideIptables node;
  node.daemon.see(test::web_with({test::e1()}));
  const netlink::FlowEnd web{test::kWeb.address, test::kWeb.port};
  const netlink::FlowEnd client{ip("203.0.113.7"), 1};
  node.daemon.conntrack.track(client, web, {ip("10.244.0.3"), 8080}, Protocol::tcp);
  node.daemon.conntrack.offload(client, web, Protocol::tcp);
  node.foreign = {kForeign};
  node.daemon.wait(seconds(40));
  CHECK(node.daemon.conntrack.sources().empty());
}

TEST_CASE("flow guard: legacy iptables without that table has none, which is told") {
  test::FakeDaemon daemon({.remove_nft_leftovers = {},
                           .find_flow_rules = []() -> netlink::Result<std::vector<NftFlowRule>> {
                             return std::vector{kForeign};
                           }});
  daemon.see(test::web_with({test::e1()}));
  CHECK(daemon.says("[warning] nf_tables table inet nb, chain forward adds connections"));
  CHECK(daemon.says("without --kube-proxy-compat"));
  CHECK(daemon.differences().empty());
}

}  // namespace
}  // namespace ipvsproxier::sync
