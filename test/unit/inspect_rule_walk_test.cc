#include "proxier/inspect/rule_walk.h"

#include <catch2/catch.hpp>

#include "test/support/ip.h"

namespace ipvsproxier::inspect {
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
              {.target = ipset::ForeignTarget{"match tcp 0"}}}}},
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

TEST_CASE("rule walk: chains that lead in a circle end") {
  auto one = packet();
  CHECK(walk({{"INPUT", {{.target = JumpTarget{"A"}}}}, {"A", {{.target = JumpTarget{"A"}}}}}, one)
            .end == ChainEnd::accepted);
}

}  // namespace
}  // namespace ipvsproxier::inspect
