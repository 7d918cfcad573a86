#include "ipset/rules/rule_types.h"

#include <catch2/catch.hpp>

namespace ipvsproxier::ipset {
namespace {

using netlink::Family;
using netlink::IpPrefix;

std::string v4(const Rule& rule) {
  return to_string(rule, Family::ipv4);
}

TEST_CASE("comments are quoted as iptables-save quotes them") {
  CHECK(v4({.comment = "plain_word-1"}) == "-m comment --comment plain_word-1 -j RETURN");
  CHECK(v4({.comment = "a 'b' \"c\" \\"}) ==
        "-m comment --comment \"a \\'b\\' \\\"c\\\" \\\\\" -j RETURN");
}

TEST_CASE("the parts of a rule are printed in the order of iptables-save") {
  const Rule rule{.source = SourceMatch{.prefix = *IpPrefix::parse("10.0.0.0/8"), .negated = true},
                  .in_interface = InInterfaceMatch{.name = "veth", .is_prefix = true},
                  .protocol = netlink::Protocol::udp,
                  .comment = "two words",
                  .matches = {SetMatch{"KUBE-X", {Direction::dst, Direction::src}},
                              MarkMatch{.value = 1, .mask = 0xffffffff}},
                  .target = Verdict::drop};
  CHECK(v4(rule) ==
        "! -s 10.0.0.0/8 -i veth+ -p udp -m comment --comment \"two words\" -m set --match-set "
        "KUBE-X dst,src -m mark --mark 0x1 -j DROP");
}

TEST_CASE("echo requests and rejections are spelled by family") {
  const Rule echo{.matches = {EchoRequestMatch{}}};
  const Rule reject{.target = RejectTarget{}};
  CHECK(v4(echo) == "-p icmp -m icmp --icmp-type 8 -j RETURN");
  CHECK(to_string(echo, Family::ipv6) == "-p ipv6-icmp -m icmp6 --icmpv6-type 128 -j RETURN");
  CHECK(v4(reject) == "-j REJECT --reject-with icmp-port-unreachable");
  CHECK(to_string(reject, Family::ipv6) == "-j REJECT --reject-with icmp6-port-unreachable");
}

const Rule kAccept{.target = Verdict::accept};
const Rule kDrop{.target = Verdict::drop};
const Rule kJump{.target = JumpTarget{"KUBE-A"}};

TEST_CASE("a table holds what is desired if chains are equal and jumps are there") {
  const TableRules desired{.chains = {{"KUBE-A", {kAccept, kDrop}}}, .jumps = {{"INPUT", kJump}}};
  CHECK(holds(desired, desired));
  CHECK(holds(TableRules{.chains = {{"X", {}}, desired.chains[0]},
                         .jumps = {{"INPUT", kJump}, {"INPUT", kJump}}},
              desired));
  CHECK_FALSE(holds(TableRules{.chains = {}, .jumps = desired.jumps}, desired));
  CHECK_FALSE(holds(TableRules{.chains = desired.chains, .jumps = {}}, desired));
  CHECK_FALSE(holds(TableRules{.chains = desired.chains, .jumps = {{"OUTPUT", kJump}}}, desired));
  CHECK_FALSE(
      holds(TableRules{.chains = {{"KUBE-A", {kDrop, kAccept}}}, .jumps = desired.jumps}, desired));
  CHECK_FALSE(holds(
      TableRules{.table = Table::nat, .chains = desired.chains, .jumps = desired.jumps}, desired));
}

TEST_CASE("the order inside the unordered chain is free, its number of rules is not") {
  const std::string name(kUnorderedChain);
  CHECK(same_rules({name, {kDrop, kAccept}}, {name, {kAccept, kDrop}}));
  CHECK_FALSE(same_rules({name, {kDrop, kAccept}}, {name, {kDrop}}));
  CHECK_FALSE(same_rules({name, {kDrop, kDrop}}, {name, {kDrop}}));
  // What returns stands before it.
  const Rule leaves{.matches = {LocalAddressMatch{.direction = Direction::src, .negated = true}},
                    .target = Verdict::return_};
  CHECK(same_rules({name, {leaves, kDrop, kAccept}}, {name, {leaves, kAccept, kDrop}}));
  CHECK_FALSE(same_rules({name, {kDrop, leaves, kAccept}}, {name, {leaves, kAccept, kDrop}}));
  CHECK_FALSE(same_rules({name, {kDrop, kAccept}}, {name, {leaves, kAccept, kDrop}}));
}

}  // namespace
}  // namespace ipvsproxier::ipset
