// Chains of legacy iptables that drop packets of Services.

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/nft/host_firewall.h"
#include "test/support/cluster_builder.h"
#include "test/support/ip.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::Family;
using netlink::Protocol;
using test::ip;
using test::prefix;

constexpr auto kEstablished = StateCondition::kEstablished;

Rule rule_with(std::vector<Condition> conditions, Action action) {
  return {.target = ForeignTarget{.description = "foreign",
                                  .conditions = std::move(conditions),
                                  .action = std::move(action)}};
}
Condition tcp_port(std::uint16_t port) {
  return PortCondition{.directions = {Direction::dst}, .ranges = {{port, port}}};
}
const Action kAccept = Verdict::accept;
const Action kDrop = Verdict::drop;
const Action kReject = RejectAction{.way = RejectAction::Way::prohibited};

// The table of a host without rules of its own.
WholeTable host_table() {
  WholeTable table;
  for (const auto* chain : {"INPUT", "FORWARD", "OUTPUT"}) {
    table.policies[chain] = Verdict::accept;
    table.chains[chain] = {};
  }
  return table;
}

std::vector<FirewallSample> legacy_samples() {
  return {{ip("10.96.0.1"), Protocol::tcp, 80, ip("10.244.0.2"), 8080},
          {ip("10.0.1.1"), Protocol::udp, 30080, ip("10.244.0.2"), 8080, true},
          {ip("fd00::1"), Protocol::tcp, 80, ip("fd00:244::2"), 8080}};
}

std::vector<FirewallWarning> legacy_warnings(const WholeTable& table,
                                             PacketFilter filter = PacketFilter::nftables) {
  LookBudget budget;
  const auto look = find_legacy_warnings(Family::ipv4, table, filter, legacy_samples(), budget);
  CHECK(look.unjudged.empty());
  return look.warnings;
}

TEST_CASE("legacy firewall: rules that drop are named with the rules that are needed") {
  auto table = host_table();
  table.chains["HOST"] = {rule_with({tcp_port(22)}, kAccept), rule_with({}, kReject)};
  table.chains["INPUT"] = {rule_with({StateCondition{.states = kEstablished}}, kAccept),
                           rule_with({}, JumpTarget{"HOST"})};
  const auto found = legacy_warnings(table);
  REQUIRE(found.size() == 1);
  CHECK(found[0].drops);
  CHECK(found[0].text ==
        "legacy IPv4 table filter: chain INPUT drops what comes for Services (of 10.96.0.1:80), "
        "and no rule of another table can let it through; add: iptables-legacy -I INPUT -d "
        "10.96.0.1 -j ACCEPT; iptables-legacy -I INPUT -p udp --dport 30000:32767 -j ACCEPT; with "
        "all addresses of Services");
  // With those rules nothing is told.
  auto& input = table.chains["INPUT"];
  input.insert(input.begin(),
               rule_with({ProtocolCondition{17}, PortCondition{.directions = {Direction::dst},
                                                               .ranges = {{30000, 32767}}}},
                         kAccept));
  input.insert(input.begin(),
               rule_with({AddressCondition{.prefix = prefix("10.96.0.1/32")}}, kAccept));
  CHECK(legacy_warnings(table).empty());
}

TEST_CASE("legacy firewall: a policy, and what is forwarded and sent") {
  auto table = host_table();
  table.policies["FORWARD"] = table.policies["OUTPUT"] = Verdict::drop;
  table.chains["FORWARD"] = {rule_with({tcp_port(8443)}, kAccept)};
  table.chains["OUTPUT"] = {
      rule_with({LinkCondition{.direction = Direction::dst, .name = "lo"}}, kAccept)};
  const auto found = legacy_warnings(table);
  REQUIRE(found.size() == 2);
  CHECK(
      found[0].text.find("chain FORWARD drops what pods answer (of 10.96.0.1:80) by its policy") !=
      std::string::npos);
  CHECK(found[0].text.ends_with(
      "add: iptables-legacy -I FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"));
  CHECK(found[1].text.ends_with("add: iptables-legacy -I OUTPUT -m ipvs --ipvs -j ACCEPT"));
  table.chains["FORWARD"].push_back(rule_with({StateCondition{.states = kEstablished}}, kAccept));
  table.chains["OUTPUT"].push_back(rule_with({IpvsCondition{}}, kAccept));
  CHECK(legacy_warnings(table).empty());
}

TEST_CASE("legacy firewall: what the judge cannot know counts where the policy drops") {
  auto table = host_table();
  const auto condition = GENERATE(
      Condition(UnknownCondition{}), Condition(ConnectionMarkCondition{{.value = 1, .mask = 1}}),
      Condition(LinkCondition{.direction = Direction::src, .name = "eth0"}),
      Condition(AddressCondition{.direction = Direction::src, .prefix = prefix("10.0.0.0/8")}));
  SECTION("perhaps it is accepted") {
    table.policies["INPUT"] = Verdict::drop;
    table.chains["INPUT"] = {rule_with({condition}, kAccept)};
    const auto found = legacy_warnings(table);
    REQUIRE(found.size() == 1);
    CHECK_FALSE(found[0].drops);
    CHECK(found[0].text.find("chain INPUT may drop what comes for Services") != std::string::npos);
  }
  SECTION("perhaps a rule drops it") {
    table.chains["INPUT"] = {rule_with({condition}, kDrop)};
    CHECK(legacy_warnings(table).empty());
  }
  SECTION("perhaps a chain gives it back") {
    table.chains["HOST"] = {rule_with({condition}, Verdict::return_), rule_with({}, kAccept)};
    table.chains["INPUT"] = {rule_with({}, GotoAction{"HOST"})};
    table.policies["INPUT"] = Verdict::drop;
    const auto found = legacy_warnings(table);
    REQUIRE(found.size() == 1);
    CHECK_FALSE(found[0].drops);
  }
}

TEST_CASE("legacy firewall: Services' addresses are this node's, and nothing comes over lo") {
  auto table = host_table();
  using Type = AddressTypeCondition;
  table.policies["INPUT"] = Verdict::drop;
  const auto of_type = [](std::uint16_t types, bool negated = false) {
    return Condition(Type{.direction = Direction::dst, .types = types, .negated = negated});
  };
  table.chains["INPUT"] = {rule_with({of_type(Type::kLocal)}, kAccept)};
  CHECK(legacy_warnings(table).empty());
  table.chains["INPUT"] = {
      rule_with({of_type(Type::kBroadcast)}, kAccept),
      rule_with({of_type(Type::kLocal, true)}, kAccept),
      rule_with({LinkCondition{.direction = Direction::src, .name = "lo"}}, kAccept)};
  const auto found = legacy_warnings(table);
  REQUIRE(found.size() == 1);
  CHECK(found[0].drops);
}

TEST_CASE("legacy firewall: rules of ours, and where what is needed stands") {
  auto table = host_table();
  const auto ours = [](const char* chain) { return Rule{.target = JumpTarget{chain}}; };
  table.policies["FORWARD"] = Verdict::drop;
  // Those of iptables are not there before the first sync, and then accept what pods answer.
  CHECK(legacy_warnings(table, PacketFilter::iptables).empty());
  CHECK(legacy_warnings(table).size() == 1);
  table.chains["KUBE-FORWARD"] = {
      {.matches = {ConntrackStateMatch{.related = true, .established = true}},
       .target = Verdict::accept}};
  table.chains["FORWARD"] = {ours("KUBE-FORWARD"), rule_with({}, kDrop)};
  CHECK(legacy_warnings(table, PacketFilter::iptables).empty());
  table.chains["FORWARD"] = {rule_with({}, kDrop), ours("KUBE-FORWARD")};
  CHECK(legacy_warnings(table, PacketFilter::iptables).size() == 1);

  table = host_table();
  table.chains["KUBE-IPVS-FILTER"] = {{.target = RejectTarget{}}};
  table.chains["INPUT"] = {ours("KUBE-IPVS-FILTER"), ours("KUBE-PROXY-FIREWALL")};
  CHECK(legacy_warnings(table, PacketFilter::iptables).empty());
  table.chains["INPUT"].push_back(rule_with({}, kDrop));
  const auto found = legacy_warnings(table, PacketFilter::iptables);
  REQUIRE(found.size() == 1);
  CHECK(found[0].text.find("add: iptables-legacy -I INPUT 3 -d 10.96.0.1 -j ACCEPT") !=
        std::string::npos);
  // Others' rules may stand before ours: what is accepted there would pass by source ranges.
  auto& input = table.chains["INPUT"];
  input.insert(input.begin(), rule_with({tcp_port(22)}, kDrop));
  const auto behind = legacy_warnings(table, PacketFilter::iptables);
  REQUIRE(behind.size() == 1);
  CHECK(behind[0].text.find("add: iptables-legacy -I INPUT 4 -d 10.96.0.1 -j ACCEPT") !=
        std::string::npos);
}

TEST_CASE("legacy firewall: chains of others may begin with KUBE- as well") {
  auto table = host_table();
  table.chains["KUBE-ROUTER-INPUT"] = {rule_with({}, kDrop)};
  table.chains["INPUT"] = {rule_with({}, JumpTarget{"KUBE-ROUTER-INPUT"})};
  const auto found = legacy_warnings(table);
  REQUIRE(found.size() == 1);
  CHECK(found[0].text.find("add: iptables-legacy -I INPUT -d ") != std::string::npos);
}

TEST_CASE("legacy firewall: a table of very many rules is not judged, which is said") {
  auto table = host_table();
  table.chains["INPUT"] = std::vector<Rule>(5'000, rule_with({UnknownCondition{}}, kAccept));
  table.policies["INPUT"] = table.policies["FORWARD"] = Verdict::drop;
  LookBudget budget(20'000);
  const auto look =
      find_legacy_warnings(Family::ipv4, table, PacketFilter::nftables, legacy_samples(), budget);
  REQUIRE(look.warnings.size() == 1);
  CHECK(look.warnings[0].chain == "legacy IPv4 FORWARD");
  CHECK(look.unjudged.contains("legacy IPv4 table filter"));
}

// Those that are like rules of ours are read as such.
TEST_CASE("legacy firewall: destinations and ports of rules that could be ours") {
  auto table = host_table();
  const auto of_port = [](std::uint16_t first, std::uint16_t last) {
    return Match(DestinationPortMatch{.protocol = Protocol::tcp, .first = first, .last = last});
  };
  auto& input = table.chains["INPUT"];
  SECTION("a rule of another address") {
    input = {{.destination = prefix("192.0.2.1/32"), .target = Verdict::drop}};
    CHECK(legacy_warnings(table).empty());
  }
  SECTION("a rule of another port") {
    input = {{.protocol = Protocol::tcp, .matches = {of_port(22, 22)}, .target = Verdict::drop}};
    CHECK(legacy_warnings(table).empty());
  }
  SECTION("what they accept is not all") {
    input = {{.protocol = Protocol::tcp, .matches = {of_port(22, 22)}, .target = Verdict::accept},
             {.destination = prefix("192.0.2.1/32"), .target = Verdict::accept},
             rule_with({}, kReject)};
    const auto found = legacy_warnings(table);
    REQUIRE(found.size() == 1);
    CHECK(found[0].drops);
  }
  SECTION("what they accept is enough") {
    input = {{.destination = prefix("10.0.0.0/8"), .target = Verdict::accept},
             rule_with({}, kReject)};
    CHECK(legacy_warnings(table).empty());
  }
}

}  // namespace
}  // namespace ipvsproxier::ipset
