// Packets through what nf_tables holds: read from it, our tables and others.

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "cmd/ipvsctl/explain/consulted_sets.h"
#include "cmd/ipvsctl/explain/nft_node.h"
#include "cmd/ipvsctl/explain/packet_walk.h"
#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_set_table.h"
#include "ipset/nftables/rule_expressions.h"
#include "ipset/sets/set_catalog.h"
#include "test/fakes/fake_filter_table.h"
#include "test/support/cluster_builder.h"
#include "test/support/walked_cluster.h"

namespace ipvsproxier::ctl {
namespace {

using ipset::Rule;
using netlink::Family;
using netlink::NftBase;
using netlink::NftHook;

// The Service of web_service() in nf_tables, and what others have there.
struct NftNode {
  NftNode() {
    world.node = test::vector_node();
    world.cluster = test::web_with({test::e1()});
    world.local_pods = {test::ip("10.244.0.3")};
    world.options.families = {Family::ipv4};
    world.options.cluster_cidrs = {test::prefix("10.244.0.0/16")};
    put(test::reading_of(world, ipset::PacketFilter::nftables));
  }

  // As the daemon would program it.
  void put(const NodeReading& planned) {
    ipset::NftSetTable sets(table);
    for (const auto family : netlink::kFamilies) {
      const auto key = plan::TableKey{family, ipset::Table::kube_ipvs};
      if (!planned.tables.contains(key)) continue;
      for (const auto id : ipset::kNftSetIds) put(sets, planned, set_spec(id, family));
      const auto plan = plan::plan(world.cluster, world.node, options());
      const auto rules =
          ipset::rules_for(ipset::PacketFilter::nftables, family, plan.state.rules.at(family));
      REQUIRE(ipset::NftRuleTable(table).apply(rules.front()));
    }
  }
  plan::PlannerOptions options() const {
    auto options = world.options;
    options.packet_filter = ipset::PacketFilter::nftables;
    return options;
  }
  static void put(ipset::NftSetTable& sets, const NodeReading& planned,
                  const ipset::SetSpec& spec) {
    REQUIRE(sets.ensure(spec));
    std::vector<ipset::ElementOp> ops;
    for (const auto& element : planned.sets.at(spec.name)) ops.push_back({true, element});
    for (const auto& status : sets.apply(spec, ops)) REQUIRE(status);
  }

  // Another program's chain.
  void add(const NftBase& base, const std::vector<std::vector<netlink::NftExpression>>& rules,
           const std::string& name = "host") {
    const netlink::NftTableKey key{netlink::NftFamily::ip, name};
    netlink::NftUnit unit{
        {netlink::NftAddTable{key}, netlink::NftAddChain{key, {.name = "c", .base = base}}}};
    for (const auto& rule : rules)
      unit.ops.emplace_back(netlink::NftAddRule{key, {.chain = "c", .expressions = rule}});
    REQUIRE(table.apply({&unit, 1}).front());
  }
  static std::vector<netlink::NftExpression> of(const Rule& rule) {
    return ipset::expressions_of(rule, Family::ipv4);
  }

  NodeReading read() {
    auto node = test::reading_of(world, ipset::PacketFilter::nftables);
    node.tables.clear();
    node.sets.clear();
    for (const auto family : netlink::kFamilies) {
      const NftReader reader{table, family, ip_sets};
      REQUIRE(read_our_nft_table(reader, node));
      if (family == Family::ipv4) REQUIRE(read_other_nft_tables(reader, node));
    }
    return node;
  }
  PacketWalk walk(const char* to = "10.96.0.9") {
    const auto node = read();
    test::WalkedHost host(world, node);
    return walk_packet({.source = test::ip("203.0.113.7"), .destination = test::ip(to), .port = 80},
                       node, host)
        .value();
  }

  test::WalkedCluster world;
  test::FakeNfTables kernel;
  test::FakeFilterTable table{kernel, 1};
  ipset::NoSets ip_sets;
};

// "served sees 10.244.0.1", or why it does not get there.
std::string end_of(const PacketWalk& walk) {
  const auto& arrival = walk.candidates.empty() ? walk.arrival : walk.candidates[0].arrival;
  if (!arrival.why.empty()) return arrival.why;
  return std::string(to_string(arrival.fate)) + " sees " + arrival.source.to_string();
}

TEST_CASE("explain: through our table of nf_tables, and why") {
  NftNode node;
  const auto walk = node.walk();
  CHECK(end_of(walk) == "served sees 10.244.0.1");
  CHECK(is_certain(walk));
  const auto& steps = walk.candidates.at(0).steps;
  const auto change = std::ranges::find(steps, "source becomes 10.244.0.1", &WalkStep::text);
  REQUIRE(change != steps.end());
  CHECK(change->stage == "kube-ipvs postrouting");
  CHECK(walk.candidates.at(0).arrival.source_because ==
        "marked by input ip daddr . meta l4proto . th dport vmap @services: ip kube-ipvs services "
        "has 10.96.0.9,tcp:80,cluster");
}

TEST_CASE("explain: what nf_tables holds is read as it was planned") {
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    INFO("seed " << seed);
    test::RandomCluster random(seed);
    NftNode node;
    node.kernel = {};
    node.world = test::walked_cluster(random, 30);
    const auto planned = test::reading_of(node.world, ipset::PacketFilter::nftables);
    node.put(planned);
    const auto read = node.read();
    CHECK(read.sets == planned.sets);
    for (const auto& [key, table] : read.tables)
      for (const auto& [chain, rules] : table.chains)
        if (const auto own = ipset::restricted_chain_of(chain))
          CHECK(rules == ipset::rules_of(*own));
        else if (!chain.starts_with("ranges_"))
          CHECK(rules == planned.tables.at(key).chains.at(chain));
    CHECK(read.nft_chains.empty());
  }
}

TEST_CASE("explain: where a chain of source ranges is changed, no verdict is taken for ours") {
  const auto services = ipset::set_name(ipset::SetId::nft_services, Family::ipv4);
  const auto table = ipset::nft_table_of(Family::ipv4);
  int changed = 0;
  for (std::uint32_t seed = 0; seed < 20 && changed == 0; ++seed) {
    test::RandomCluster random(seed);
    NftNode node;
    node.kernel = {};
    node.world = test::walked_cluster(random, 30);
    node.put(test::reading_of(node.world, ipset::PacketFilter::nftables));
    const auto frame = node.table.list_frame(table).value();
    if (!frame) continue;
    const auto own = std::ranges::find_if(frame->chains, [](const auto& one) {
      return ipset::restricted_chain_of(one.first).has_value();
    });
    if (own == frame->chains.end()) continue;
    ++changed;
    CHECK(node.read().sets.contains(services));
    const netlink::NftUnit opened{{netlink::NftFlushChain{table, own->first}}};
    REQUIRE(node.table.apply({&opened, 1}).front());
    CHECK_FALSE(node.read().sets.contains(services));
  }
  CHECK(changed == 1);
}

TEST_CASE("explain: chains of other tables of nf_tables stand where their priorities say") {
  const Rule known{.matches = {ipset::ConntrackStateMatch{.related = true, .established = true}},
                   .target = ipset::Verdict::accept};
  const Rule fresh{.matches = {ipset::ConntrackStateMatch{.is_new = true}},
                   .target = ipset::Verdict::accept};
  const NftBase drops{.type = "filter", .hook = NftHook::input, .priority = 0, .accepts = false};
  {
    NftNode node;
    node.add(drops, {NftNode::of(known)});
    CHECK(end_of(node.walk()) == "ip host input: c policy DROP");
    CHECK(is_certain(node.walk()));
  }
  {
    NftNode node;
    node.add(drops, {NftNode::of(fresh)});
    CHECK(end_of(node.walk()) == "served sees 10.244.0.1");
  }
  // Behind IPVS, which takes the packet.
  NftNode node;
  auto late = drops;
  late.priority = 99;
  node.add(late, {});
  CHECK(end_of(node.walk()) == "served sees 10.244.0.1");
  late.priority = 97;
  node.add(late, {}, "other");
  CHECK(end_of(node.walk()) == "ip other input: c policy DROP");
}

TEST_CASE("explain: chains of type nat behind ours do not see what ours settles") {
  NftNode node;
  const Rule drop{.target = ipset::Verdict::drop};
  node.add({.type = "nat", .hook = NftHook::prerouting, .priority = -100}, {NftNode::of(drop)});
  CHECK(end_of(node.walk()) == "served sees 10.244.0.1");
  node.add({.type = "nat", .hook = NftHook::prerouting, .priority = -106}, {NftNode::of(drop)},
           "early");
  CHECK(end_of(node.walk()) == "ip early prerouting: c drop");
}

TEST_CASE("explain: a rule of nf_tables that it does not know is named, and not judged") {
  NftNode node;
  node.add({.type = "filter", .hook = NftHook::input, .priority = 0},
           {{netlink::NftOtherExpression{.name = "limit", .data = {}},
             netlink::NftImmediate{.data = netlink::NftVerdict{
                                       .code = netlink::NftVerdictCode::drop, .chain = {}}}}});
  const auto walk = node.walk();
  CHECK(end_of(walk) == "served sees 10.244.0.1");
  CHECK_FALSE(is_certain(walk));
  const auto step = std::ranges::find(walk.steps, true, &WalkStep::unjudged);
  REQUIRE(step != walk.steps.end());
  CHECK(step->stage == "ip host input");
  CHECK(step->text == "[limit] drop");
}

TEST_CASE("explain: a table of nf_tables that cannot be read is told") {
  NftNode node;
  node.add({.type = "filter", .hook = NftHook::input, .priority = 0}, {});
  node.table.faults.fail("list ip host", {netlink::ErrorKind::busy, 0, "changed"});
  const auto walk = node.walk();
  CHECK_FALSE(is_certain(walk));
  CHECK(walk.steps.at(0).text.starts_with("table ip host could not be read: "));
}

TEST_CASE("explain: chains of nf_tables on links or in bridges are told") {
  for (const auto& [family, where] : {std::pair(netlink::NftFamily::netdev, "on a link"),
                                      std::pair(netlink::NftFamily::bridge, "in a bridge")}) {
    NftNode node;
    const netlink::NftTableKey key{family, "early"};
    const netlink::NftUnit empty{{netlink::NftAddTable{key}}};
    REQUIRE(node.table.apply({&empty, 1}).front());
    CHECK(is_certain(node.walk()));
    const netlink::NftUnit unit{
        {netlink::NftAddChain{key, {.name = "c", .base = NftBase{.type = "filter"}}}}};
    REQUIRE(node.table.apply({&unit, 1}).front());
    const auto walk = node.walk();
    CHECK_FALSE(is_certain(walk));
    CHECK(walk.steps.at(0).text ==
          "chain c of table " + to_string(key) + " sees packets " + where + " and is not walked");
  }
}

TEST_CASE("explain: beside iptables' chain of the same priority the other end is told") {
  NftNode node;
  const Rule drop{.target = ipset::Verdict::drop};
  node.add({.type = "filter", .hook = NftHook::input, .priority = 0}, {NftNode::of(drop)});
  auto reading = node.read();
  auto& legacy = reading.tables[{Family::ipv4, ipset::Table::filter}];
  legacy.policies["INPUT"] = ipset::Verdict::accept;
  legacy.chains["INPUT"] = {{.target = ipset::RejectTarget{}}};
  const auto doubts = [&] {
    test::WalkedHost host(node.world, reading);
    const auto walk =
        walk_packet(
            {.source = test::ip("203.0.113.7"), .destination = test::ip("10.96.0.9"), .port = 80},
            reading, host)
            .value();
    CHECK_FALSE(walk.arrival.why.empty());
    return std::ranges::count(
        walk.steps,
        "has the priority of iptables' chain: the newer one is first; this one would drop it",
        &WalkStep::text);
  };
  CHECK(doubts() == 1);
  // Whichever is first, it is dropped.
  legacy.chains["INPUT"] = {drop};
  CHECK(doubts() == 0);
  legacy.chains["INPUT"] = {{.target = ipset::RejectTarget{}}};
  reading.nft_chains.at(0).base.priority = 1;
  CHECK(doubts() == 0);
}

TEST_CASE("explain: a dormant table is named, ours or another") {
  NftNode node;
  const auto first = [&node] { return node.walk().steps.at(0).text; };
  const netlink::NftTableKey host{netlink::NftFamily::ip, "host"};
  node.add({.type = "filter", .hook = NftHook::input, .priority = 0},
           {{netlink::NftImmediate{
               .data = netlink::NftVerdict{.code = netlink::NftVerdictCode::drop, .chain = {}}}}});
  CHECK(end_of(node.walk()) == "ip host input: c drop");
  node.kernel.set_flags(host, {.dormant = true});
  CHECK(end_of(node.walk()) == "served sees 10.244.0.1");
  CHECK(first() == "table ip host is dormant: no packet meets its chains");
  CHECK(is_certain(node.walk()));
  node.kernel.set_flags(host, {});
  node.kernel.set_flags(ipset::nft_table_of(Family::ipv4), {.dormant = true});
  CHECK(first() == "table ip kube-ipvs is dormant: no packet meets its chains");
}

TEST_CASE("explain: a rule of another table of nf_tables is judged by its own sets") {
  const netlink::NftTableKey key{netlink::NftFamily::ip, "host"};
  const auto name = ipset::set_name(ipset::SetId::nft_vips, Family::ipv4);
  const auto spec = ipset::set_spec(ipset::SetId::nft_vips, Family::ipv4);
  NftNode node;
  REQUIRE(node.read().sets.at(name).contains(ipset::IpElement{test::ip("10.96.0.9")}));
  const netlink::NftUnit set{
      {netlink::NftAddTable{key}, netlink::NftAddSet{key, ipset::nft_set_of(spec)}}};
  REQUIRE(node.table.apply({&set, 1}).front());
  node.add({.type = "filter", .hook = NftHook::input, .priority = -10},
           {NftNode::of({.matches = {ipset::SetMatch{name, {ipset::Direction::dst}}},
                         .target = ipset::Verdict::drop})});
  CHECK(end_of(node.walk()) == "served sees 10.244.0.1");
  CHECK(is_certain(node.walk()));
  const netlink::NftUnit element{{netlink::NftAddElements{
      key, "vips", {*ipset::nft_element_of(spec, ipset::IpElement{test::ip("10.96.0.9")})}}}};
  REQUIRE(node.table.apply({&element, 1}).front());
  CHECK(end_of(node.walk()) == "ip host input: c ip daddr @vips drop");
}

TEST_CASE("explain: a set of our name and another type is not judged as ours") {
  const auto spec = ipset::set_spec(ipset::SetId::nft_vips, Family::ipv4);
  const auto table = ipset::nft_table_of(Family::ipv4);
  NftNode node;
  node.kernel = {};
  auto other = ipset::nft_set_of(spec);
  other.key_type = netlink::nft_type({netlink::NftType::mark});
  const netlink::NftUnit unit{{netlink::NftAddTable{table}, netlink::NftAddSet{table, other}}};
  REQUIRE(node.table.apply({&unit, 1}).front());
  CHECK_FALSE(node.read().sets.contains(spec.name));
}

TEST_CASE("the sets of nf_tables are no IP sets that rules of iptables use") {
  const auto with = [](std::string set) {
    ipset::WholeTable table;
    table.chains["c"] = {{.matches = {ipset::SetMatch{std::move(set), {ipset::Direction::src}}},
                          .target = ipset::Verdict::return_}};
    return table;
  };
  RuleTables tables;
  tables[{Family::ipv4, ipset::Table::filter}] = with("KUBE-CLUSTER-IP");
  tables[{Family::ipv4, ipset::Table::kube_ipvs}] = with("ip kube-ipvs ranges_192.0.2.1_tcp_80");
  CHECK(consulted_sets(tables) == std::set<std::string>{"KUBE-CLUSTER-IP"});
}

TEST_CASE("explain: source ranges that others changed are not judged") {
  NftNode node;
  auto web = test::web_service();
  web.type = api::ServiceType::load_balancer;
  web.load_balancer_ips = {test::ip("192.0.2.1")};
  web.source_ranges = {test::prefix("203.0.113.0/24")};
  // Those of a masqueraded Service, and of another one.
  SECTION("masqueraded") {}
  SECTION("kept") {
    web.external_policy_local = true;
  }
  node.world.cluster = test::cluster_of({web, test::slice_of(web, 8080, {test::e1()})});
  node.put(test::reading_of(node.world, ipset::PacketFilter::nftables));
  const netlink::NftTableKey ours{netlink::NftFamily::ip, "kube-ipvs"};
  CHECK(is_certain(node.walk("192.0.2.1")));
  const netlink::NftUnit unit{{netlink::NftFlushChain{ours, "ranges_192.0.2.1_tcp_80"}}};
  REQUIRE(node.table.apply({&unit, 1}).front());
  CHECK_FALSE(is_certain(node.walk("192.0.2.1")));
  CHECK(is_certain(node.walk()));
}

}  // namespace
}  // namespace ipvsproxier::ctl
