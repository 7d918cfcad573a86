#include "ipset/rules/removal_catalog.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "ipset/rules/rule_catalog.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::Family;

const RuleRemoval& of(const std::vector<RuleRemoval>& removals, Table table) {
  return *std::find_if(removals.begin(), removals.end(),
                       [&](const RuleRemoval& removal) { return removal.table == table; });
}

std::string_view target_of(const BaseJump& jump) {
  return std::get<JumpTarget>(jump.rule.target).chain;
}

TEST_CASE("what is left of iptables mode is nothing of ours") {
  for (const auto family : netlink::kFamilies)
    for (const auto& ours : rules_for(family, {})) {
      const auto removals = iptables_mode_removals(family);
      const auto& removal = of(removals, ours.table);
      CHECK(removal.family == family);
      for (const auto& chain : ours.chains) CHECK_FALSE(names_chain(removal, chain.name));
      for (const auto& jump : ours.jumps)
        CHECK_FALSE(names_jump(removal, target_of(jump), jump.rule.comment));
    }
}

TEST_CASE("handing back removes ours and theirs") {
  for (const auto family : netlink::kFamilies) {
    const auto all = all_removals(family);
    for (const auto& ours : rules_for(family, {})) {
      const auto& removal = of(all, ours.table);
      for (const auto& chain : ours.chains) CHECK(names_chain(removal, chain.name));
      for (const auto& jump : ours.jumps)
        CHECK(names_jump(removal, target_of(jump), jump.rule.comment));
    }
    CHECK(names_chain(of(all, Table::nat), "KUBE-IN-CLUSTER-ABCDEFGHI27"));
    CHECK_FALSE(names_chain(of(all, Table::nat), "KUBE-IN-CLUSTER-ABC"));
    for (const auto& theirs : iptables_mode_removals(family)) {
      const auto& removal = of(all, theirs.table);
      for (const auto& chain : theirs.chains) CHECK(names_chain(removal, chain));
      for (const auto& prefix : theirs.prefixes) CHECK(names_chain(removal, prefix + "X"));
    }
  }
}

TEST_CASE("chains of Services and endpoints are known by their beginnings") {
  const auto removals = iptables_mode_removals(Family::ipv4);
  const auto& nat = of(removals, Table::nat);
  for (const auto* chain : {"KUBE-SVC-NPX46M4PTMTKRN6Y", "KUBE-SEP-A", "KUBE-FW-A", "KUBE-EXT-A",
                            "KUBE-SVL-A", "KUBE-NODEPORTS", "KUBE-PROXY-CANARY"})
    CHECK(names_chain(nat, chain));
  CHECK(names_chain(nat, services_move().aside));
  CHECK(names_jump(nat, services_move().aside, services_move().jump.comment));
  for (const auto& removal : removals)
    for (const auto* chain : {"KUBE-MARK-DROP", "KUBE-FIREWALL", "KUBE-KUBELET-CANARY",
                              "KUBE-IPTABLES-HINT", "KUBE-ROUTER-INPUT", "POSTROUTING"})
      CHECK_FALSE(names_chain(removal, chain));
  const auto& filter = of(removals, Table::filter);
  CHECK(names_chain(filter, "KUBE-SERVICES"));
  CHECK_FALSE(names_chain(filter, "KUBE-SVC-A"));
  CHECK(names_jump(filter, "KUBE-PROXY-FIREWALL", "kubernetes load balancer firewall"));
  CHECK_FALSE(names_jump(filter, "KUBE-SERVICES", "of somebody else"));
}

}  // namespace
}  // namespace ipvsproxier::ipset
