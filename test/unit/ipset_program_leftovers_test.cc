// Chains that Cilium or Antrea left: those that reject, translate or untrack are told.

#include "ipset/nft/program_leftovers.h"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/nftables/filter_kernel.h"
#include "test/support/cluster_builder.h"
#include "test/support/nft_namespace.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::Family;
using test::prefix;
using Lines = std::vector<std::string>;

Rule left_by_others(Action action, std::vector<Condition> conditions = {}) {
  return {.target = ForeignTarget{.description = "foreign",
                                  .conditions = std::move(conditions),
                                  .action = std::move(action)}};
}

// A table whose chain INPUT leads to `chain`.
Lines told_of(const std::string& chain, const Rule& rule, const std::string& jump_to = "") {
  WholeTable table;
  table.policies["INPUT"] = Verdict::accept;
  table.chains["INPUT"] = {left_by_others(JumpTarget{.chain = jump_to.empty() ? chain : jump_to})};
  table.chains[chain] = {left_by_others(Verdict::accept), rule};
  Lines texts;
  for (const auto& warning : find_program_leftovers(Family::ipv4, Table::nat, table)) {
    CHECK(warning.drops);
    texts.push_back(warning.text);
  }
  return texts;
}

TEST_CASE("program leftovers: what they do to Services is told with the remedy") {
  CHECK(told_of("ANTREA-PREROUTING", left_by_others(TranslateAction{})) ==
        Lines{"legacy IPv4 table nat: chain ANTREA-PREROUTING of Antrea gives packets of Services "
              "another destination; set antreaProxy.proxyAll of Antrea to false and restart the "
              "node"});
  CHECK(told_of("CILIUM_INPUT", left_by_others(RejectAction{})).size() == 1);
  CHECK(told_of("OLD_CILIUM_PRE_raw",
                left_by_others(NoTrackAction{}, {AddressCondition{.prefix = prefix("10.0.0.0/8")}}))
            .size() == 1);
}

TEST_CASE("program leftovers: what a running network of pods has is not told") {
  CHECK(told_of("ANTREA-FORWARD", left_by_others(Verdict::accept)).empty());
  CHECK(told_of("ANTREA-POL-INGRESS", left_by_others(Verdict::drop)).empty());
  CHECK(told_of("CILIUM_POST_nat", left_by_others(MasqueradeTarget{})).empty());
  CHECK(told_of("CILIUM_PRE_raw", left_by_others(NoTrackAction{})).empty());
  CHECK(told_of("KUBE-ROUTER-INPUT", left_by_others(RejectAction{})).empty());
  CHECK(told_of("SITE", left_by_others(RejectAction{})).empty());
  // Nothing leads there.
  CHECK(told_of("OLD_CILIUM_INPUT", left_by_others(RejectAction{}), "OTHER").empty());
}

TEST_CASE("program leftovers: chains in nf_tables") {
  test::enter_namespace();
  std::string ruleset =
      "flush ruleset|table ip nat {|chain ANTREA-OUTPUT {|ip daddr 10.0.0.1 dnat to "
      "169.254.0.252|}|"
      "chain OUTPUT {|type nat hook output priority -100;|jump ANTREA-OUTPUT|}|}|";
  std::ranges::replace(ruleset, '|', '\n');
  REQUIRE(test::nft(ruleset) == "");
  const auto nftables = KernelFilterTable::open();
  REQUIRE(nftables);
  LookBudget budget;
  const auto look = find_firewall_warnings(**nftables, PacketFilter::iptables, {}, budget);
  REQUIRE(look);
  const auto told = std::ranges::count_if(look->warnings, [](const auto& warning) {
    return warning.text.starts_with("nf_tables table ip nat: chain ANTREA-OUTPUT of Antrea gives");
  });
  CHECK(told == 1);
}

}  // namespace
}  // namespace ipvsproxier::ipset
