#include "test/contract/rule_contract.h"

#include <algorithm>
#include <initializer_list>

#include <catch2/catch.hpp>

#include "ipset/rules/removal_catalog.h"
#include "ipset/rules/rule_catalog.h"

namespace ipvsproxier::test {

using ipset::RuleParameters;
using ipset::SetId;
using ipset::Table;
using ipset::TableRules;
using netlink::ErrorKind;
using netlink::Family;

namespace {

using Lines = std::vector<std::string>;

RuleParameters full_parameters(Family family) {
  RuleParameters parameters{.detector = ipset::InterfacePrefix{"veth"}};
  parameters.non_empty.insert(ipset::kSetIds.begin(), ipset::kSetIds.end());
  for (const auto* text : {"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"})
    if (const auto address = *netlink::IpAddress::parse(text); address.family() == family)
      parameters.out_filter.insert({address, netlink::Protocol::tcp, 443});
  return parameters;
}

Lines printed(const ipset::Chain& chain, Family family) {
  Lines result;
  for (const auto& rule : chain.rules) result.push_back(to_string(rule, family));
  return result;
}

ipset::Chain& chain_of(TableRules& table, const std::string& name) {
  return *std::find_if(table.chains.begin(), table.chains.end(),
                       [&](const ipset::Chain& chain) { return chain.name == name; });
}

// Applies where there must be something to do, then checks that it is done for good.
void check_repaired(RuleWorld& world, const TableRules& desired) {
  const auto before = world.commits();
  const auto listed = world.table().list(desired);
  REQUIRE(listed);
  CHECK_FALSE(holds(*listed, desired));
  const auto first = world.table().apply(desired);
  if (!first) FAIL(to_string(first.error()));
  CHECK(*first);
  CHECK(world.commits() == before + 1);
  const auto second = world.table().apply(desired);
  REQUIRE(second);
  CHECK_FALSE(*second);
  CHECK(world.commits() == before + 1);
  const auto now = world.table().list(desired);
  REQUIRE(now);
  CHECK(*now == desired);
  auto lines = world.lines(desired.family, desired.table);
  for (const auto& chain : desired.chains)
    CHECK(lines[chain.name] == printed(chain, desired.family));
}

void check_first_application(RuleWorld& world, TableRules filter, TableRules nat) {
  const auto family = filter.family;
  const auto nothing = world.table().list(filter);
  REQUIRE(nothing);
  CHECK(nothing->chains.empty());
  CHECK(nothing->jumps.empty());

  world.edit(family, Table::filter, "-N FOREIGN");
  world.edit(family, Table::filter, "-A FOREIGN -j DROP");
  world.edit(family, Table::filter, "-A INPUT -j FOREIGN");
  check_repaired(world, filter);
  check_repaired(world, nat);
  CHECK(world.lines(family, Table::filter)["FOREIGN"] == Lines{"-j DROP"});
  const std::string access = "-m comment --comment \"kubernetes ipvs access filter\" -j ";
  const std::string firewall =
      "-m comment --comment \"kube-proxy firewall rules\" -j KUBE-PROXY-FIREWALL";
  CHECK(world.lines(family, Table::filter)["INPUT"] ==
        Lines{access + "KUBE-IPVS-FILTER", firewall,
              "-m comment --comment \"kubernetes health check rules\" -j KUBE-NODE-PORT",
              "-j FOREIGN"});
  CHECK(world.lines(family, Table::filter)["FORWARD"] ==
        Lines{firewall, "-m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD"});
  CHECK(world.lines(family, Table::filter)["OUTPUT"] == Lines{access + "KUBE-IPVS-OUT-FILTER"});
}

void check_counters_stay(RuleWorld& world, TableRules filter) {
  const auto family = filter.family;
  check_repaired(world, filter);
  world.pass_packet(family);
  const auto seen = world.packets(family, Table::filter, "OUTPUT", 0);
  CHECK(seen > 0);
  REQUIRE(world.table().apply(filter));
  CHECK(world.packets(family, Table::filter, "OUTPUT", 0) == seen);

  // A commit that is about another chain keeps them, too.
  chain_of(filter, "KUBE-FORWARD").rules.pop_back();
  check_repaired(world, filter);
  CHECK(world.packets(family, Table::filter, "OUTPUT", 0) == seen);
}

void check_repairs(RuleWorld& world, TableRules filter, TableRules nat) {
  const auto family = filter.family;
  check_repaired(world, filter);
  check_repaired(world, nat);
  SECTION("a flushed chain") {
    world.edit(family, Table::nat, "-F KUBE-SERVICES");
    check_repaired(world, nat);
  }
  SECTION("an additional rule in a chain of ours") {
    world.edit(family, Table::nat, "-A KUBE-MARK-MASQ -j ACCEPT");
    check_repaired(world, nat);
  }
  SECTION("a removed rule") {
    world.edit(family, Table::filter, "-D KUBE-IPVS-FILTER 2");
    check_repaired(world, filter);
  }
  SECTION("a removed jump, which comes back at position 1") {
    world.edit(family, Table::filter, "-D INPUT 3");
    world.edit(family, Table::filter, "-A INPUT -j DROP");
    check_repaired(world, filter);
    const auto input = world.lines(family, Table::filter)["INPUT"];
    CHECK(input.front() ==
          "-m comment --comment \"kubernetes health check rules\" -j KUBE-NODE-PORT");
    CHECK(input.back() == "-j DROP");
  }
  SECTION("another order of rules") {
    auto other = filter;
    auto& rules = chain_of(other, "KUBE-IPVS-FILTER").rules;
    std::swap(rules.front(), rules.back());
    check_repaired(world, other);
    check_repaired(world, filter);
  }
  SECTION("but the order of the out filter is free") {
    auto other = filter;
    auto& rules = chain_of(other, std::string(ipset::kUnorderedChain)).rules;
    REQUIRE(rules.size() == 2);
    std::swap(rules.front(), rules.back());
    const auto applied = world.table().apply(other);
    REQUIRE(applied);
    CHECK_FALSE(*applied);
  }
  SECTION("a rule in front of our jumps is nobody's business of ours") {
    world.edit(family, Table::filter, "-I INPUT -j ACCEPT");
    const auto applied = world.table().apply(filter);
    REQUIRE(applied);
    CHECK_FALSE(*applied);
    CHECK(world.lines(family, Table::filter)["INPUT"].front() == "-j ACCEPT");
  }
}

void check_refusals(RuleWorld& world, TableRules filter, TableRules nat) {
  const auto family = filter.family;
  SECTION("a missing set is named, and nothing is changed") {
    const auto name = set_name(SetId::loop_back, family);
    world.destroy_set(name);
    const auto applied = world.table().apply(nat);
    REQUIRE_FALSE(applied);
    CHECK(applied.error().kind == ErrorKind::missing);
    CHECK_THAT(applied.error().where, Catch::Contains(name));
    CHECK(world.commits() == 0);
    const auto listed = world.table().list(nat);
    REQUIRE(listed);
    CHECK(listed->chains.empty());
    CHECK(listed->jumps.empty());
  }
  SECTION("a rule that leads nowhere") {
    filter.chains[0].rules = {{.target = ipset::JumpTarget{"NOWHERE"}}};
    const auto applied = world.table().apply(filter);
    REQUIRE_FALSE(applied);
    CHECK(applied.error().kind == ErrorKind::missing);
    CHECK(world.commits() == 0);
  }
  SECTION("a comment that is too long") {
    filter.chains[0].rules = {{.comment = std::string(256, 'x')}};
    const auto applied = world.table().apply(filter);
    REQUIRE_FALSE(applied);
    CHECK(applied.error().kind == ErrorKind::malformed);
    filter.chains[0].rules[0].comment.pop_back();
    check_repaired(world, filter);
  }
  SECTION("a rule that is not ours") {
    filter.chains[0].rules = {{.target = ipset::ForeignTarget{"x"}}};
    const auto applied = world.table().apply(filter);
    REQUIRE_FALSE(applied);
    CHECK(applied.error().kind == ErrorKind::malformed);
  }
}

// What iptables mode has and we do not, and what is nobody's of both.
void add_iptables_mode(RuleWorld& world, Family family) {
  for (const auto* words :
       {"-N FOREIGN", "-A FOREIGN -j DROP", "-A INPUT -j FOREIGN", "-N KUBE-SERVICES",
        "-A KUBE-SERVICES -j DROP",
        "-A FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" "
        "-j KUBE-SERVICES"})
    world.edit(family, Table::filter, words);
  for (const auto* words : {"-N KUBE-SVC-A", "-N KUBE-SEP-A", "-A KUBE-SVC-A -j KUBE-SEP-A",
                            "-A KUBE-SEP-A -j KUBE-MARK-MASQ", "-N KUBE-MARK-DROP"})
    world.edit(family, Table::nat, words);
  world.edit(family, Table::mangle, "-N KUBE-PROXY-CANARY");
}

using Removed = std::vector<ipset::RemovedRules>;

// Of filter, nat and mangle.
Removed removed(RuleWorld& world, const std::vector<ipset::RuleRemoval>& removals) {
  Removed result;
  for (const auto& removal : removals) {
    auto one = world.table().remove(removal);
    if (!one) FAIL(to_string(one.error()));
    result.push_back(*std::move(one));
  }
  return result;
}

void check_removal(RuleWorld& world, const TableRules& filter, const TableRules& nat) {
  const auto family = filter.family;
  check_repaired(world, filter);
  check_repaired(world, nat);
  add_iptables_mode(world, family);
  world.pass_packet(family);
  const auto seen = world.packets(family, Table::filter, "OUTPUT", 0);
  CHECK(seen > 0);

  const auto surplus = ipset::iptables_mode_removals(family);
  CHECK(removed(world, surplus) ==
        Removed{{.jumps = 1, .chains = 1}, {.chains = 2}, {.chains = 1}});
  CHECK(removed(world, surplus) == Removed(3));
  for (const auto& ours : {filter, nat}) CHECK(*world.table().list(ours) == ours);
  CHECK(world.packets(family, Table::filter, "OUTPUT", 0) == seen);
  CHECK(world.lines(family, Table::filter)["INPUT"].back() == "-j FOREIGN");

  // Somebody else's rule leads to a chain of ours, and goes on having packets masqueraded.
  const auto marks = world.lines(family, Table::nat)["KUBE-MARK-MASQ"];
  CHECK(marks.size() == 1);
  world.edit(family, Table::nat, "-A KUBE-MARK-DROP -j KUBE-MARK-MASQ");
  const auto all = ipset::all_removals(family);
  CHECK(removed(world, all) == Removed{{.jumps = 6, .chains = 6},
                                       {.jumps = 3, .chains = 4, .in_use = {"KUBE-MARK-MASQ"}},
                                       {}});
  CHECK(removed(world, all).at(1) == ipset::RemovedRules{.in_use = {"KUBE-MARK-MASQ"}});
  auto left = world.lines(family, Table::filter);
  CHECK(left["FOREIGN"] == Lines{"-j DROP"});
  CHECK(left["INPUT"] == Lines{"-j FOREIGN"});
  CHECK(left["OUTPUT"] == Lines{});
  left = world.lines(family, Table::nat);
  CHECK(left["KUBE-MARK-DROP"] == Lines{"-j KUBE-MARK-MASQ"});
  CHECK(left["KUBE-MARK-MASQ"] == marks);
  CHECK(left["OUTPUT"] == Lines{});
}

void check_chains_of_earlier_builds(RuleWorld& world, Family family) {
  const auto nat = rules_for(family, full_parameters(family)).at(1);
  const auto made = [&] {
    std::vector<std::string> names;
    for (const auto& [name, rules] : world.lines(family, Table::nat))
      if (ipset::is_of_earlier_build(name) && !rules.empty()) names.push_back(name);
    return names;
  };
  check_repaired(world, nat);
  // What is too much is noticed, also beside what is wanted.
  const auto make = [&] {
    for (const auto* words : {"-N KUBE-IN-CLUSTER", "-N KUBE-IN-CLUSTER-OLDOLDOLD23",
                              "-A KUBE-IN-CLUSTER -j KUBE-IN-CLUSTER-OLDOLDOLD23",
                              "-A KUBE-IN-CLUSTER-OLDOLDOLD23 -j ACCEPT"})
      world.edit(family, Table::nat, words);
  };
  make();
  CHECK(made().size() == 2);
  check_repaired(world, nat);
  CHECK(made().empty());
  CHECK_FALSE(world.lines(family, Table::nat).contains("KUBE-IN-CLUSTER-OLDOLDOLD23"));
  // But a rule of others may lead to it.
  for (const auto* words :
       {"-N KUBE-IN-CLUSTER-OLDOLDOLD23", "-A KUBE-IN-CLUSTER-OLDOLDOLD23 -j ACCEPT", "-N FOREIGN",
        "-A FOREIGN -j KUBE-IN-CLUSTER-OLDOLDOLD23"})
    world.edit(family, Table::nat, words);
  const auto applied = world.table().apply(nat);
  REQUIRE(applied);
  CHECK(*applied);
  CHECK(world.lines(family, Table::nat)["KUBE-IN-CLUSTER-OLDOLDOLD23"].empty());
  const auto again = world.table().apply(nat);
  REQUIRE(again);
  CHECK_FALSE(*again);
  CHECK(world.table().list(nat) == nat);

  // Names of others only begin so.
  const std::vector<std::string> theirs{"KUBE-IN-CLUSTERS", "KUBE-IN-CLUSTER-DNS",
                                        "KUBE-IN-CLUSTER-OLDOLDOLD01"};
  for (const auto& name : theirs) {
    world.edit(family, Table::nat, "-N " + name);
    world.edit(family, Table::nat, "-A " + name + " -j ACCEPT");
  }
  const auto stay = [&] {
    return std::ranges::all_of(theirs, [&](const std::string& name) {
      return world.lines(family, Table::nat)[name] == Lines{"-j ACCEPT"};
    });
  };
  CHECK_FALSE(*world.table().apply(nat));

  const auto make_again = [&] {
    for (const auto* words :
         {"-N KUBE-IN-CLUSTER", "-A KUBE-IN-CLUSTER -j KUBE-IN-CLUSTER-OLDOLDOLD23",
          "-A KUBE-IN-CLUSTER-OLDOLDOLD23 -j ACCEPT"})
      world.edit(family, Table::nat, words);
    CHECK(made().size() == 2);
  };
  make_again();
  CHECK(*world.table().apply(nat));
  CHECK(made().empty());
  CHECK(stay());
  make_again();
  CHECK(removed(world, ipset::all_removals(family)).at(1).in_use ==
        std::vector<std::string>{"KUBE-IN-CLUSTER-OLDOLDOLD23"});
  CHECK(made().empty());
  CHECK(stay());
}

void check_set_aside(RuleWorld& world, const TableRules& nat) {
  const auto family = nat.family;
  const auto surplus = ipset::iptables_mode_removals(family).at(1);
  const auto move = ipset::services_move();
  const std::string comment = "-m comment --comment \"kubernetes service portals\" -j ";
  const auto set_aside = [&] {
    const auto done = world.table().set_aside(move, surplus);
    if (!done) FAIL(to_string(done.error()));
    return *done;
  };
  CHECK_FALSE(set_aside());
  const std::vector<std::string> edits = {"-N KUBE-SERVICES",
                                          "-N KUBE-SVC-A",
                                          "-A KUBE-SERVICES -j ACCEPT",
                                          "-A PREROUTING " + comment + "KUBE-SERVICES",
                                          "-A OUTPUT " + comment + "KUBE-SERVICES",
                                          "-A OUTPUT -j ACCEPT"};
  for (const auto& words : edits) world.edit(family, Table::nat, words);
  CHECK_FALSE(set_aside());  // it is not iptables mode's
  world.edit(family, Table::nat, "-A OUTPUT " + comment + "KUBE-SERVICES");  // twice
  world.edit(family, Table::nat, "-A KUBE-SERVICES -j KUBE-SVC-A");
  CHECK(set_aside());
  CHECK_FALSE(set_aside());

  check_repaired(world, nat);
  auto lines = world.lines(family, Table::nat);
  CHECK(lines[move.aside] == Lines{"-j ACCEPT", "-j KUBE-SVC-A"});
  CHECK(lines["OUTPUT"] ==
        Lines{comment + move.aside, "-j ACCEPT", comment + move.aside, comment + "KUBE-SERVICES"});
  CHECK(lines["PREROUTING"] == Lines{comment + move.aside, comment + "KUBE-SERVICES"});
  CHECK_FALSE(set_aside());  // ours now

  CHECK(removed(world, {surplus}) == Removed{{.jumps = 3, .chains = 2}});
  CHECK(*world.table().list(nat) == nat);
  lines = world.lines(family, Table::nat);
  CHECK(lines["OUTPUT"] == Lines{"-j ACCEPT", comment + "KUBE-SERVICES"});
  CHECK(lines[move.aside] == Lines{});
}

}  // namespace

void check_rule_contract(RuleWorld& world, Family family) {
  const auto tables = rules_for(family, full_parameters(family));
  const auto& filter = tables.at(0);
  const auto& nat = tables.at(1);
  SECTION("the first application commits, the second does not; foreign rules stay") {
    check_first_application(world, filter, nat);
  }
  SECTION("packet counters stay") {
    check_counters_stay(world, filter);
  }
  SECTION("differences are repaired") {
    check_repairs(world, filter, nat);
  }
  SECTION("what is named is removed, the rest stays") {
    check_removal(world, filter, nat);
  }
  SECTION("chains for addresses come and go with these") {
    check_chains_of_earlier_builds(world, family);
  }
  SECTION("a chain of iptables mode is set aside and goes on working") {
    check_set_aside(world, nat);
  }
  SECTION("refusals") {
    check_refusals(world, filter, nat);
  }
}

}  // namespace ipvsproxier::test
