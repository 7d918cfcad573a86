#include "cmd/ipvsctl/explain/rule_walk.h"

#include <catch2/catch.hpp>

#include "test/support/ip.h"

namespace ipvsproxier::ctl {
namespace {

using ipset::Direction;
using ipset::JumpTarget;
using ipset::Rule;
using ipset::SetMatch;
using ipset::Verdict;
using netlink::Protocol;
using test::ip;

constexpr plan::TableKey kFilter{netlink::Family::ipv4, ipset::Table::filter};

Packet packet() {
  return {.source = ip("10.1.0.7"),
          .destination = ip("10.96.0.1"),
          .destination_port = 80,
          .in_link = "cali7"};
}

ChainWalk walk(std::map<std::string, std::vector<Rule>> chains, Packet& packet,
               std::map<std::string, std::set<ipset::Element>> sets = {}) {
  NodeReading node;
  node.tables[kFilter] = {.chains = std::move(chains), .policies = {{"INPUT", Verdict::accept}}};
  node.sets = std::move(sets);
  return walk_chain(node, kFilter, "INPUT", packet,
                    [](const auto& address) { return address == ip("10.96.0.1"); });
}

// Whether a rule of only these parts matches.
bool matches(Rule rule, Packet one = packet(),
             std::map<std::string, std::set<ipset::Element>> sets = {}) {
  rule.target = Verdict::drop;
  return walk({{"INPUT", {rule}}}, one, std::move(sets)).end == ChainEnd::dropped;
}

TEST_CASE("rule walk: each part of a rule is asked") {
  CHECK(matches({}));
  CHECK(matches({.source = ipset::SourceMatch{*netlink::IpPrefix::parse("10.1.0.0/16")}}));
  CHECK_FALSE(
      matches({.source = ipset::SourceMatch{*netlink::IpPrefix::parse("10.1.0.0/16"), true}}));
  CHECK(matches({.in_interface = ipset::InInterfaceMatch{.name = "cali", .is_prefix = true}}));
  CHECK_FALSE(matches({.in_interface = ipset::InInterfaceMatch{.name = "cali"}}));
  CHECK(matches({.in_interface = ipset::InInterfaceMatch{.name = "eth0", .negated = true}}));
  CHECK(matches({.protocol = Protocol::tcp}));
  CHECK_FALSE(matches({.protocol = Protocol::udp}));
  CHECK(matches({.matches = {ipset::ConntrackStateMatch{.is_new = true}}}));
  CHECK_FALSE(matches({.matches = {ipset::ConntrackStateMatch{.established = true}}}));
  CHECK(matches({.matches = {ipset::LocalAddressMatch{.direction = Direction::dst}}}));
  CHECK(matches(
      {.matches = {ipset::LocalAddressMatch{.direction = Direction::src, .negated = true}}}));
  CHECK(matches({.matches = {ipset::BridgePortInMatch{.negated = true}}}));
  CHECK(matches({.matches = {ipset::MarkMatch{.value = 0, .mask = 0x4000}}}));
  CHECK_FALSE(matches({.matches = {ipset::EchoRequestMatch{}}}));
}

TEST_CASE("rule walk: the ipvs match wants a connection of that service") {
  const Rule rule{.matches = {ipset::IpvsMatch{.address = ip("10.96.0.1"), .port = 80}}};
  CHECK_FALSE(matches(rule));
  auto one = packet();
  one.connection = netlink::VirtualServiceKey{ip("10.96.0.1"), Protocol::tcp, 80};
  CHECK(matches(rule, one));
  one.connection->port = 81;
  CHECK_FALSE(matches(rule, one));
}

TEST_CASE("rule walk: what a set does not have, and sources outside of networks") {
  const Rule others{.matches = {SetMatch{"S", {Direction::dst}, true}}};
  CHECK(matches(others, packet(), {{"S", {}}}));
  CHECK(matches(others, packet(), {{"S", {ipset::IpElement{ip("10.96.0.2")}}}}));
  CHECK_FALSE(matches(others, packet(), {{"S", {ipset::IpElement{ip("10.96.0.1")}}}}));
  const auto outside = [](std::vector<netlink::IpPrefix> prefixes) {
    return matches({.matches = {ipset::OutsideMatch{std::move(prefixes)}}});
  };
  const auto net = [](const char* text) { return *netlink::IpPrefix::parse(text); };
  CHECK(outside({net("10.96.0.0/16"), net("10.1.1.0/24")}));
  CHECK_FALSE(outside({net("10.96.0.0/16"), net("10.1.0.0/24")}));
}

TEST_CASE("rule walk: sets of every kind, by the rule's directions") {
  const auto has = [](ipset::Element element, std::vector<Direction> directions) {
    return matches({.matches = {SetMatch{"S", std::move(directions)}}}, packet(),
                   {{"S", {std::move(element)}}});
  };
  using enum Direction;
  CHECK(has(ipset::IpElement{ip("10.96.0.1")}, {dst}));
  CHECK_FALSE(has(ipset::IpElement{ip("10.96.0.1")}, {src}));
  CHECK(has(ipset::PortElement{80}, {dst}));
  CHECK(has(ipset::IpPortElement{ip("10.96.0.1"), Protocol::tcp, 80}, {dst, dst}));
  CHECK_FALSE(has(ipset::IpPortElement{ip("10.96.0.1"), Protocol::udp, 80}, {dst, dst}));
  CHECK_FALSE(has(ipset::IpPortElement{ip("10.96.0.1"), Protocol::tcp, 80}, {dst}));
  CHECK(has(ipset::IpPortElement{ip("10.1.0.7"), Protocol::tcp, 80}, {src, dst}));
  CHECK(has(ipset::IpPortIpElement{ip("10.96.0.1"), Protocol::tcp, 80, ip("10.1.0.7")},
            {dst, dst, src}));
  CHECK(has(ipset::IpPortNetElement{ip("10.96.0.1"), Protocol::tcp, 80,
                                    *netlink::IpPrefix::parse("10.1.0.0/24")},
            {dst, dst, src}));
  CHECK_FALSE(has(ipset::IpPortNetElement{ip("10.96.0.1"), Protocol::tcp, 80,
                                          *netlink::IpPrefix::parse("10.2.0.0/24")},
                  {dst, dst, src}));
}

TEST_CASE("rule walk: jumps come back, a return ends one chain, marks are kept") {
  auto one = packet();
  const auto result = walk({{"INPUT",
                             {{.target = JumpTarget{"A"}},
                              {.matches = {ipset::MarkMatch{.value = 0x4000, .mask = 0x4000}},
                               .target = Verdict::drop}}},
                            {"A",
                             {{.target = JumpTarget{"MARK"}},
                              {.target = Verdict::return_},
                              {.target = Verdict::accept}}},
                            {"MARK", {{.target = ipset::MarkTarget{0x4000, 0x4000}}}}},
                           one);
  CHECK(result.end == ChainEnd::dropped);
  CHECK(one.mark == 0x4000);
  CHECK(result.marked_because == "A -j MARK");
  REQUIRE(result.hits.size() == 5);
  CHECK(result.hits.back().decides);
  CHECK(result.hits.back().chain == "INPUT");
}

TEST_CASE("rule walk: what cannot be judged is told and does not match") {
  auto one = packet();
  const auto result =
      walk({{"INPUT",
             {{.matches = {SetMatch{"UNREAD", {Direction::dst}}}, .target = Verdict::drop},
              {.target = ipset::ForeignTarget{"[match tcp 0]"}}}}},
           one);
  CHECK(result.end == ChainEnd::accepted);
  REQUIRE(result.hits.size() == 2);
  CHECK(result.hits[0].unjudged);
  CHECK(result.hits[1].unjudged);
  // Another part of the rule that does not match settles it.
  const auto settled = walk({{"INPUT",
                              {{.protocol = Protocol::udp,
                                .matches = {SetMatch{"UNREAD", {Direction::dst}}},
                                .target = Verdict::drop}}}},
                            one);
  CHECK(settled.hits.empty());
}

// --- rules of others

Rule foreign(std::vector<ipset::Condition> conditions, ipset::Action action = Verdict::drop) {
  return {.target = ipset::ForeignTarget{"x", std::move(conditions), std::move(action)}};
}

// Whether it matches; nullopt: it cannot be judged.
std::optional<bool> asks(ipset::Condition condition, Packet one = packet()) {
  const auto result = walk({{"INPUT", {foreign({std::move(condition)})}}}, one);
  if (!result.hits.empty() && result.hits.front().unjudged) return std::nullopt;
  return result.end == ChainEnd::dropped;
}

TEST_CASE("rule walk: what rules of others ask") {
  using enum Direction;
  const auto net = *netlink::IpPrefix::parse("10.1.0.0/16");
  CHECK(asks(ipset::AddressCondition{src, net}) == true);
  CHECK(asks(ipset::AddressCondition{dst, net}) == false);
  CHECK(asks(ipset::AddressCondition{dst, net, true}) == true);
  CHECK(asks(ipset::LinkCondition{src, "cali", true}) == true);
  CHECK(asks(ipset::LinkCondition{dst, "cali", true}) == false);
  CHECK(asks(ipset::LinkCondition{dst, "docker0", false, true}) == true);
  CHECK(asks(ipset::ProtocolCondition{6}) == true);
  CHECK(asks(ipset::ProtocolCondition{4}) == false);
  CHECK(asks(ipset::PortCondition{{dst}, {{22, 22}, {80, 90}}}) == true);
  CHECK(asks(ipset::PortCondition{{dst}, {{22, 22}}, true}) == true);
  CHECK(asks(ipset::PortCondition{{src}, {{53, 53}}}) == std::nullopt);
  CHECK(asks(ipset::PortCondition{{src, dst}, {{80, 80}}}) == true);
  CHECK(asks(ipset::FixedCondition{true}) == true);
  CHECK(asks(ipset::UnknownCondition{}) == std::nullopt);
  auto marked = packet();
  marked.connection_mark = 0x80;
  CHECK(asks(ipset::ConnectionMarkCondition{{0x80, 0x80}}, marked) == true);
  marked.tracking = Tracking::never;
  CHECK(asks(ipset::ConnectionMarkCondition{{0, 0x80}}, marked) == false);
}

TEST_CASE("rule walk: of the networks of a set the longest decides") {
  NodeReading node;
  const auto net = [](const char* text) { return *netlink::IpPrefix::parse(text); };
  node.net_sets["pools"] = {{net("10.1.0.0/16")}, {net("10.1.0.0/24"), true}, {net("10.1.0.7/32")}};
  const auto has = [&](const char* source) {
    auto one = packet();
    one.source = ip(source);
    const IsLocal nowhere = [](const auto&) { return false; };
    const Rule rule{.matches = {SetMatch{"pools", {Direction::src}}}, .target = Verdict::drop};
    return ipset::RuleJudge(ReadFacts(node, nowhere), one).outcome(rule).answer == Answer::yes;
  };
  CHECK(has("10.1.0.7"));
  CHECK_FALSE(has("10.1.0.8"));
  CHECK(has("10.1.1.8"));
  CHECK_FALSE(has("10.2.0.7"));
}

// Bits of <linux/netfilter/xt_conntrack.h> and <linux/netfilter/xt_addrtype.h>.
TEST_CASE("rule walk: states of connections and types of addresses") {
  constexpr std::uint16_t kInvalid = 1, kNew = 8, kSnat = 64, kDnat = 128, kUntracked = 256;
  auto one = packet();
  CHECK(asks(ipset::StateCondition{kNew}, one) == true);
  CHECK(asks(ipset::StateCondition{kInvalid | kSnat | kDnat}, one) == false);
  CHECK(asks(ipset::StateCondition{kDnat, true}, one) == true);
  one.destination_translated = true;
  CHECK(asks(ipset::StateCondition{kDnat, true}, one) == false);
  one.tracking = Tracking::never;
  CHECK(asks(ipset::StateCondition{kNew}, one) == false);
  CHECK(asks(ipset::StateCondition{kUntracked}, one) == true);

  constexpr std::uint16_t kUnicast = 2, kLocal = 4, kBroadcast = 8, kMulticast = 32,
                          kBlackhole = 64;
  using enum Direction;
  const auto type = [](std::uint16_t types, const char* to, bool negated = false) {
    auto packet_to = packet();
    packet_to.destination = ip(to);
    return asks(ipset::AddressTypeCondition{dst, types, negated}, packet_to);
  };
  CHECK(type(kLocal, "10.96.0.1") == true);
  CHECK(type(kLocal, "10.96.0.2", true) == true);
  CHECK(type(kUnicast, "10.96.0.1") == false);
  CHECK(type(kUnicast | kLocal, "10.96.0.1") == true);
  CHECK(type(kBroadcast, "255.255.255.255") == true);
  CHECK(type(kMulticast, "224.0.0.1") == true);
  CHECK(type(kMulticast, "10.96.0.2") == false);
  CHECK(type(kBlackhole, "10.96.0.2") == std::nullopt);
}

TEST_CASE("rule walk: what rules of others do") {
  auto one = packet();
  using ipset::ConnectionMarkAction;
  using Way = ConnectionMarkAction::Way;
  constexpr std::uint32_t kAll = 0xffffffff;
  const std::vector<Rule> rules = {
      foreign({ipset::UnknownCondition{}}, ipset::NoAction{}),  // logs, and is not worth a word
      foreign({}, ConnectionMarkAction{Way::set, 0x80, kAll, kAll}),
      foreign({}, ConnectionMarkAction{Way::restore, 0, 0x80, 0x80}),
      foreign({}, ipset::TranslateAction{.address = ip("10.244.1.5"), .port = 8080})};
  const auto translated = walk({{"INPUT", rules}}, one);
  CHECK(translated.end == ChainEnd::translated);
  CHECK(translated.translation.address == ip("10.244.1.5"));
  CHECK(one.mark == 0x80);
  CHECK(translated.hits.size() == 3);

  const auto rejected =
      walk({{"INPUT", {foreign({}, ipset::RejectAction{ipset::RejectAction::Way::reset})}}}, one);
  CHECK(rejected.end == ChainEnd::rejected);
  CHECK(rejected.rejected_as == ipset::RejectAction::Way::reset);

  // What is not known to do nothing may do anything, but only to what it matches.
  const auto unknown = walk({{"INPUT",
                              {foreign({ipset::FixedCondition{false}}, ipset::UnknownAction{}),
                               foreign({ipset::FixedCondition{true}}, ipset::UnknownAction{})}}},
                            one);
  CHECK(unknown.end == ChainEnd::accepted);
  REQUIRE(unknown.hits.size() == 1);
  CHECK(unknown.hits[0].unjudged);
}

// A return in a chain that was gone to leads behind the jump to the chain before.
TEST_CASE("rule walk: nothing comes back from where a rule goes to") {
  auto one = packet();
  const auto result = walk({{"INPUT", {{.target = JumpTarget{"A"}}, {.target = Verdict::accept}}},
                            {"A", {foreign({}, ipset::GotoAction{"B"}), {.target = Verdict::drop}}},
                            {"B", {{.target = Verdict::return_}}}},
                           one);
  CHECK(result.end == ChainEnd::accepted);
  CHECK(result.hits.back().chain == "INPUT");
}

TEST_CASE("rule walk: what is tracked stays so") {
  auto one = packet();
  const std::vector<Rule> rules = {foreign({}, ipset::NoTrackAction{})};
  walk({{"INPUT", rules}}, one);
  CHECK(one.tracking == Tracking::tracked);
  one.tracking = Tracking::not_yet;
  walk({{"INPUT", rules}}, one);
  CHECK(one.tracking == Tracking::never);
}

TEST_CASE("rule walk: chains that lead in a circle end") {
  auto one = packet();
  CHECK(walk({{"INPUT", {{.target = JumpTarget{"A"}}}}, {"A", {{.target = JumpTarget{"A"}}}}}, one)
            .end == ChainEnd::accepted);
}

}  // namespace
}  // namespace ipvsproxier::ctl
