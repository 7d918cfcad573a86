#include "ipset/nftables/rule_decoding.h"

#include <catch2/catch.hpp>

#include "ipset/nftables/foreign_steps.h"
#include "ipset/nftables/rule_expressions.h"
#include "ipset/rules/nft_catalog.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::NftCompare;
using netlink::NftCounter;
using netlink::NftExpression;
using netlink::NftImmediate;
using netlink::NftPayload;
using netlink::NftVerdict;
using netlink::NftVerdictCode;

NftExpression verdict(NftVerdictCode code, std::string chain = {}) {
  return NftImmediate{.data = NftVerdict{code, std::move(chain)}};
}

std::string told(const std::vector<NftExpression>& expressions, Family family = Family::ipv4) {
  return to_nft_string(rule_in(expressions, family), family);
}

TEST_CASE("rules of nf_tables are read as they were written, with all options") {
  for (const auto family : netlink::kFamilies)
    for (const bool all : {false, true})
      for (const bool ping : {false, true})
        for (const auto& detector : {LocalDetector(), LocalDetector(BridgeInterface{"cni0"}),
                                     LocalDetector(BridgeInterface{"fifteen-letters"}),
                                     LocalDetector(InterfacePrefix{"veth"}),
                                     LocalDetector(*netlink::IpPrefix::parse("10.244.0.0/16")),
                                     LocalDetector(*netlink::IpPrefix::parse("10.244.1.7/32")),
                                     LocalDetector(*netlink::IpPrefix::parse("0.0.0.0/0")),
                                     LocalDetector(*netlink::IpPrefix::parse("fd00:244::/49"))}) {
          RuleParameters parameters{.masquerade_mark = 0x80000000,
                                    .masquerade_all = all,
                                    .detector = detector,
                                    .vip_ping = ping};
          parameters.non_empty.insert(kNftSetIds.begin(), kNftSetIds.end());
          for (const auto& chain : nft_rules(family, parameters).chains)
            for (const auto& rule : chain.rules) {
              INFO(chain.name << ": " << to_nft_string(rule, family));
              CHECK(rule_in(expressions_of(rule, family), family) == rule);
            }
        }
}

TEST_CASE("the rules of source ranges are read") {
  const Rule many{.matches = {SetMatch{.set = "ip kube-ipvs ranges_192.0.2.1_tcp_80",
                                       .directions = {Direction::src},
                                       .negated = true}},
                  .target = Verdict::drop};
  CHECK(told(expressions_of(many, Family::ipv4)) == "ip saddr != @ranges_192.0.2.1_tcp_80 drop");
  CHECK(told({verdict(NftVerdictCode::drop)}) == "drop");
}

TEST_CASE("what others write in our words is told in them, anything else by its expressions") {
  const Rule returns{.source = SourceMatch{.prefix = *netlink::IpPrefix::parse("10.9.0.0/16")},
                     .target = Verdict::return_};
  CHECK(told(expressions_of(returns, Family::ipv4)) == "ip saddr 10.9.0.0/16 return");
  const NftPayload port{
      .target = 1, .header = netlink::NftHeader::transport, .offset = 2, .size = 2};
  const NftCompare is_ssh{.source = 1, .data = {0, 22}};
  const std::vector<NftExpression> drops{port, is_ssh, verdict(NftVerdictCode::drop)};
  CHECK(told(drops) == "th dport 22 drop");
  const auto rule = rule_in(drops, Family::ipv4);
  const auto& target = std::get<ForeignTarget>(rule.target);
  CHECK(target.action == Action(Verdict::drop));
  CHECK(target.conditions == std::vector<Condition>{UnknownCondition{}});
  CHECK(told({verdict(NftVerdictCode::go_to, "elsewhere")}) == "goto elsewhere");
  CHECK(told({port, is_ssh}) == "th dport 22");
  CHECK(told({}) == "[]");
  CHECK(told({netlink::NftOtherExpression{"log", {}}, verdict(NftVerdictCode::go_on)}) ==
        "[log] continue");
  CHECK(told({verdict(static_cast<NftVerdictCode>(-77))}) == "verdict -77");
  // nft(8) shortens what ends with a byte.
  const NftPayload shortened{
      .target = 1, .header = netlink::NftHeader::network, .offset = 12, .size = 1};
  CHECK(told({shortened, NftCompare{.source = 1, .data = {10}},
              verdict(NftVerdictCode::give_back)}) == "ip saddr 10.0.0.0/8 return");
  CHECK(told({shortened, NftCompare{.source = 2, .data = {10}},
              verdict(NftVerdictCode::give_back)}) == "[register 2] 0x0a return");
  for (const auto& [data, words] :
       {std::pair(netlink::Bytes{0xfd}, "ip6 saddr fd00::/8 return"),
        std::pair(netlink::Bytes{0x20, 0x01, 0x0d, 0xb8}, "ip6 saddr 2001:db8::/32 return")}) {
    const NftPayload start{.target = 1,
                           .header = netlink::NftHeader::network,
                           .offset = 8,
                           .size = static_cast<std::uint32_t>(data.size())};
    CHECK(told({start, NftCompare{.source = 1, .data = data}, verdict(NftVerdictCode::give_back)},
               Family::ipv6) == words);
  }
  // Nearly ours: another register, a part of an address, the range of a port.
  auto nearly = expressions_of(returns, Family::ipv4);
  std::get<NftPayload>(nearly.front()).size = 2;
  CHECK(told(nearly) == "ip saddr & 0xffff0000 == 0x0a090000 return");
  nearly = expressions_of(returns, Family::ipv4);
  std::get<NftCompare>(nearly[2]).op = NftCompare::Op::less;
  CHECK(told(nearly) == "ip saddr < 10.9.0.0/16 return");
}

TEST_CASE("counters of rules are sums, and no part of the rule") {
  const std::vector<NftExpression> counted{NftCounter{.bytes = 500, .packets = 4},
                                           verdict(NftVerdictCode::accept),
                                           NftCounter{.bytes = 10, .packets = 1}};
  CHECK(rule_in(counted, Family::ipv4) == Rule{.target = Verdict::accept});
  CHECK(count_in(counted) == RuleCount{.packets = 5, .bytes = 510});
  CHECK_FALSE(count_in(std::span(counted).subspan(1, 1)));
}

TEST_CASE("a whole table of nf_tables has the chains of everybody, with policies") {
  FilterContents contents;
  contents.chains["input"] = {
      .base = netlink::NftBase{.type = "filter", .priority = -5, .accepts = false},
      .rules = {{.handle = 4, .expressions = {verdict(NftVerdictCode::jump, "theirs")}}}};
  contents.chains["theirs"] = {.base = {}, .rules = {}};
  const auto whole = whole_table_of(contents, Family::ipv4);
  CHECK(whole.chains.at("input") == std::vector<Rule>{{.target = JumpTarget{"theirs"}}});
  CHECK(whole.chains.at("theirs").empty());
  CHECK(whole.counts.at("input") == std::vector<std::optional<RuleCount>>{std::nullopt});
  CHECK(whole.policies == std::map<std::string, Verdict>{{"input", Verdict::drop}});
}

}  // namespace
}  // namespace ipvsproxier::ipset
