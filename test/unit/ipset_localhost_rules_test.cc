// The rules of node ports on localhost.

#include "ipset/rules/localhost_rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/nftables/foreign_steps.h"
#include "ipset/nftables/rule_decoding.h"
#include "ipset/nftables/rule_expressions.h"
#include "ipset/rules/nft_catalog.h"

namespace ipvsproxier::ipset {
namespace {

using Texts = std::vector<std::string>;

// The rules of the chain that one set of parameters has and the other lacks.
Texts added(Family family, const std::string& name, RuleParameters parameters) {
  const auto in_chain = [&] {
    Texts texts;
    for (const auto& chain : nft_rules(family, parameters).chains)
      if (chain.name == name)
        for (const auto& rule : chain.rules) texts.push_back(to_nft_string(rule, family));
    return texts;
  };
  parameters.localhost = false;
  const auto without = in_chain();
  parameters.localhost = true;
  auto with = in_chain();
  std::erase_if(with, [&](const std::string& text) {
    return std::ranges::find(without, text) != without.end();
  });
  return with;
}

TEST_CASE("localhost: packets leave by the loop, come back, and are let in there alone") {
  const auto rules = [](const char* chain, RuleParameters parameters = {}) {
    parameters.non_empty = {SetId::nft_localhost};
    return added(Family::ipv4, chain, parameters);
  };
  const Texts out{
      "ip saddr 127.0.0.0/8 ip daddr 127.0.0.1 dnat ip to ip daddr . meta l4proto . th dport map "
      "@localhost"};
  CHECK(rules("output") == out);
  CHECK(rules("prerouting") == Texts{"ip daddr 169.254.107.1 dnat to 169.254.107.3"});
  CHECK(rules("postrouting") ==
        Texts{"ip saddr 127.0.0.0/8 ip daddr 169.254.107.1 snat to 169.254.107.2"});
  CHECK(rules("input") == Texts{"ip daddr 169.254.107.3 iifname != \"kube-local1\" drop",
                                "ip saddr != 169.254.107.2 ip daddr 169.254.107.3 drop"});
  CHECK(rules("forward") == Texts{"ip daddr 169.254.107.1 drop", "ip daddr 169.254.107.3 drop",
                                  "ip daddr 169.254.107.2 iifname \"kube-local*\" drop"});
  // Kube-proxy's rules go on for a while.
  CHECK(rules("output", {.keep_destinations = false}).empty());
}

TEST_CASE("localhost: each rule survives writing and reading") {
  for (const auto family : netlink::kFamilies) {
    for (const auto& chain :
         nft_rules(family, {.localhost = true, .non_empty = {SetId::nft_localhost}}).chains)
      for (const auto& rule : chain.rules) {
        INFO(to_nft_string(rule, family));
        const auto expressions = expressions_of(rule, family);
        REQUIRE_FALSE(expressions.empty());
        CHECK(rule_in(expressions, family) == rule);
      }
  }
}

TEST_CASE(
    "localhost: the three addresses of a family are different, and neither loopback nor VIP") {
  for (const auto family : netlink::kFamilies) {
    const auto& loop = localhost_loop(family);
    CHECK(loop.localhost.is_loopback());
    CHECK(loop.sources.contains(loop.localhost));
    for (const auto& address : {loop.near, loop.far, loop.server}) {
      CHECK(address.family() == family);
      CHECK_FALSE(address.is_loopback());
      CHECK_FALSE(loop.sources.contains(address));
    }
    for (const auto& address : {loop.near, loop.far, loop.server})
      CHECK(loop.all.contains(address));
    CHECK(loop.near != loop.far);
    CHECK(loop.far != loop.server);
    CHECK(loop.near != loop.server);
  }
}

}  // namespace
}  // namespace ipvsproxier::ipset
