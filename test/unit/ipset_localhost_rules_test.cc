// The rules of node ports on localhost, in both packet filters.

#include "ipset/rules/localhost_rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/nftables/foreign_steps.h"
#include "ipset/nftables/rule_decoding.h"
#include "ipset/nftables/rule_expressions.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/rules/rule_codec.h"
#include "test/rule_bytes.h"

namespace ipvsproxier::ipset {
namespace {

using Texts = std::vector<std::string>;

// The rules of the chain that one set of parameters has and the other lacks.
Texts added(PacketFilter filter, Family family, const std::string& name,
            RuleParameters parameters) {
  const auto in_chain = [&] {
    Texts texts;
    for (const auto& table : rules_for(filter, family, parameters))
      for (const auto& chain : table.chains)
        if (chain.name == name)
          for (const auto& rule : chain.rules)
            texts.push_back(filter == PacketFilter::nftables ? to_nft_string(rule, family)
                                                             : to_string(rule, family));
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
  const auto rules = [](const char* chain) {
    return added(PacketFilter::iptables, Family::ipv4, chain, {.non_empty = {SetId::localhost}});
  };
  CHECK(rules("KUBE-SERVICES") ==
        Texts{"-s 127.0.0.0/8 -d 127.0.0.1/32 -m set --match-set KUBE-LOCALHOST dst,dst -j DNAT "
              "--to-destination 169.254.107.1",
              "-d 169.254.107.0/30 -j KUBE-MARK-MASQ",
              "-d 169.254.107.1/32 -j DNAT --to-destination 169.254.107.3"});
  CHECK(rules("KUBE-POSTROUTING") ==
        Texts{"-s 127.0.0.0/8 -d 169.254.107.1/32 -j SNAT --to-source 169.254.107.2"});
  CHECK(rules("KUBE-FORWARD") == Texts{"-d 169.254.107.1/32 -j DROP", "-d 169.254.107.3/32 -j DROP",
                                       "-d 169.254.107.2/32 -i kube-local+ -j DROP"});
  CHECK(rules("KUBE-IPVS-FILTER") ==
        Texts{"-s 169.254.107.2/32 -d 169.254.107.3/32 -i kube-local1 -j RETURN",
              "-d 169.254.107.3/32 -j DROP"});
  CHECK(rules("KUBE-NODE-PORT").empty());
  CHECK(added(PacketFilter::iptables, Family::ipv6, "KUBE-POSTROUTING", {}) ==
        Texts{"-s ::1/128 -d fd69:7076:7301::1/128 -j SNAT --to-source fd69:7076:7301::2"});
}

TEST_CASE("localhost: before all other rules of a chain, which let known connections pass") {
  for (const bool shorter : {true, false})
    for (const auto& table : rules_for(Family::ipv4, {.short_paths = shorter, .localhost = true}))
      for (const auto& chain : table.chains) {
        const auto ours = localhost_rules(chain.name, Family::ipv4, {.localhost = true});
        INFO(chain.name);
        REQUIRE(chain.rules.size() >= ours.size());
        CHECK(std::equal(ours.begin(), ours.end(), chain.rules.begin()));
      }
}

TEST_CASE("localhost: the same with nf_tables") {
  const auto rules = [](const char* chain, RuleParameters parameters = {}) {
    parameters.non_empty = {SetId::nft_localhost};
    return added(PacketFilter::nftables, Family::ipv4, chain, parameters);
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

TEST_CASE("localhost: each rule survives writing and reading, in both packet filters") {
  struct AnySet : SetResolver {
    netlink::Result<std::uint16_t> index_of(const std::string& name, Family) override {
      name_ = name;
      return std::uint16_t{1};
    }
    std::optional<std::string> name_of(std::uint16_t) override { return name_; }
    std::string name_;
  } sets;
  for (const auto family : netlink::kFamilies) {
    for (const auto* chain :
         {"KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-FORWARD", "KUBE-IPVS-FILTER"})
      for (const auto& rule :
           localhost_rules(chain, family, {.localhost = true, .non_empty = {SetId::localhost}})) {
        INFO(to_string(rule, family));
        const auto bytes = encode_rule(rule, family, sets);
        REQUIRE(bytes);
        std::string label;
        if (const auto* jump = std::get_if<JumpTarget>(&rule.target)) label = jump->chain;
        if (rule.target == Target(Verdict::drop)) label = "DROP";
        if (rule.target == Target(Verdict::return_)) label = "RETURN";
        CHECK(decode_rule(family, test::as_read(rule, family, *bytes), label, sets) == rule);
      }
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
