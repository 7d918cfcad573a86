#include "ipset/nftables/foreign_steps.h"

#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/nftables/rule_decoding.h"
#include "ipset/nftables/rule_expressions.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::Family;
using netlink::Protocol;

std::string in_words(const Rule& rule) {
  return to_nft_string(rule, Family::ipv4);
}

// Each of these is what `nft --debug=netlink` 1.0.6 makes the rule's expressions of.
TEST_CASE("rules in the words of nft(8): a protocol without a port") {
  CHECK(in_words({.protocol = Protocol::sctp, .target = Verdict::drop}) ==
        "meta l4proto sctp drop");
  CHECK(in_words({.protocol = Protocol::tcp,
                  .matches = {MarkMatch{.value = 1, .mask = 1},
                              SetMatch{.set = "ip kube-ipvs s", .directions = {Direction::dst}}},
                  .target = Verdict::return_}) ==
        "meta l4proto tcp meta mark & 0x1 == 0x1 tcp dport @s return");
  CHECK(in_words({.matches = {ConntrackStateMatch{}}, .target = Verdict::drop}) ==
        "ct state & 0x0 != 0x0 drop");
}

TEST_CASE("rules in the words of nft(8): connections that are not accelerated") {
  CHECK(in_words({.matches = {UntranslatedMatch{}}, .target = UnacceleratedTarget{}}) ==
        "ct status & dnat == 0 ct expectation set \"unaccelerated\"");
}

TEST_CASE("rules in the words of nft(8): changes of the mark") {
  const auto text = [](std::uint32_t value, std::uint32_t mask) {
    return in_words({.target = MarkTarget{.value = value, .mask = mask}});
  };
  CHECK(text(0x4000, 0x4000) == "meta mark set meta mark | 0x4000");
  CHECK(text(0, 0x4000) == "meta mark set meta mark & 0xffffbfff");
  CHECK(text(0x4000, 0) == "meta mark set meta mark ^ 0x4000");
  CHECK(text(4, 0xff00) == "meta mark set meta mark & 0xffff00ff ^ 0x4");
  CHECK(text(5, 0xffffffff) == "meta mark set meta mark & 0x0 ^ 0x5");
  CHECK(text(0, 0) == "meta mark set meta mark | 0x0");
}

TEST_CASE("rules in the words of nft(8): interfaces") {
  const auto text = [](const InInterfaceMatch& match) { return in_words({.in_interface = match}); };
  CHECK(text({.name = "a", .is_prefix = true, .negated = true}) == R"(iifname != "a*" return)");
  CHECK(text({.name = "a*"}) == R"(iifname "a\*" return)");
  CHECK(text({.name = "a*", .is_prefix = true}) == R"(iifname "a**" return)");
  CHECK(text({.name = R"(a\b)"}) == R"(iifname "a\b" return)");
  // It has no words for these.
  CHECK(text({.name = R"(a\b*)"}) == R"(iifname [a\x5cb\x2a] return)");
  CHECK(text({.name = R"(a\)", .is_prefix = true}) == R"(iifname [a\x5c*] return)");
  CHECK(text({.name = "a\"] drop"}) == R"(iifname [a\x22\x5d drop] return)");
  for (const auto& match :
       {InInterfaceMatch{.name = R"(a\b*)"}, InInterfaceMatch{.name = "*"},
        InInterfaceMatch{.name = R"(a\)", .is_prefix = true},
        InInterfaceMatch{.name = "", .is_prefix = true}, InInterfaceMatch{.name = "a\"b"}})
    CHECK(text(match).find('[') != std::string::npos);
}

// Rules of few parts, so that equal texts would be met.
class RandomRules {
 public:
  Rule next() {
    Rule rule;
    if (chance())
      rule.source =
          SourceMatch{.prefix = *netlink::IpPrefix::parse(any(kPrefixes)), .negated = chance()};
    if (chance())
      rule.in_interface =
          InInterfaceMatch{.name = any(kNames), .is_prefix = chance(), .negated = chance()};
    if (chance()) rule.protocol = any(std::array{Protocol::tcp, Protocol::udp, Protocol::sctp});
    if (chance()) add_match(rule.matches);
    if (chance()) add_match(rule.matches);
    choose(rule.target);
    return rule;
  }

 private:
  static constexpr std::array<const char*, 3> kPrefixes = {"0.0.0.0/0", "10.0.0.0/8",
                                                           "10.0.0.0/32"};
  static constexpr std::array<const char*, 9> kNames = {"a",        "a*",    R"(a\)", R"(a\*)", "*",
                                                        R"(a\x2a)", R"(a")", "[a]",   "a]"};
  static constexpr std::array<std::uint32_t, 5> kBits = {0, 1, 0x4000, 0xffffbfff, 0xffffffff};

  bool chance() { return random_() % 2 == 0; }
  template <typename Values>
  typename Values::value_type any(const Values& values) {
    return values.at(random_() % values.size());
  }
  Direction direction() { return chance() ? Direction::src : Direction::dst; }

  void add_match(std::vector<Match>& matches) {
    switch (random_() % 6) {
      case 0: {
        SetMatch match{.set = chance() ? "ip kube-ipvs s" : "ip kube-ipvs t",
                       .directions = {direction()}};
        if (chance()) match.directions.push_back(direction());
        match.negated = chance();
        matches.emplace_back(std::move(match));
        return;
      }
      case 1:
        matches.emplace_back(MarkMatch{any(kBits), any(kBits), chance()});
        return;
      case 2:
        matches.emplace_back(ConntrackStateMatch{chance(), chance(), chance()});
        return;
      case 3:
        matches.emplace_back(LocalAddressMatch{direction(), chance()});
        return;
      case 4:
        matches.emplace_back(EchoRequestMatch{});
        return;
      default:
        matches.emplace_back(ConfirmedMatch{chance()});
    }
  }
  void choose(Target& target) {
    switch (random_() % 8) {
      case 0:
        target = any(std::array{Verdict::accept, Verdict::drop, Verdict::return_});
        return;
      case 1:
        target = JumpTarget{chance() ? "c" : "d"};
        return;
      case 2:
        target = MasqueradeTarget{chance(), any(kBits)};
        return;
      case 3:
        target = RejectTarget{};
        return;
      case 4:
        target = VerdictMapTarget{chance() ? "ip kube-ipvs s" : "ip kube-ipvs t"};
        return;
      case 5:
        target = KeepDestinationTarget{};
        return;
      case 6:
        target = DestinationMapTarget{chance() ? "ip kube-ipvs s" : "ip kube-ipvs t"};
        return;
      default:
        target = MarkTarget{.value = any(kBits), .mask = any(kBits)};
    }
  }

  std::mt19937 random_{1};
};

TEST_CASE("rules in the words of nft(8): different rules have different texts") {
  RandomRules random;
  std::map<std::string, std::vector<netlink::NftExpression>> seen;
  std::size_t again = 0;
  for (int i = 0; i < 30'000; ++i) {
    const auto rule = random.next();
    const auto expressions = expressions_of(rule, Family::ipv4);
    REQUIRE_FALSE(expressions.empty());
    const auto [found, is_new] = seen.try_emplace(in_words(rule), expressions);
    if (!is_new) ++again;
    INFO(found->first);
    REQUIRE(found->second == expressions);
    // What is read has the text of what was written.
    REQUIRE(in_words(rule_in(expressions, Family::ipv4)) == found->first);
  }
  CHECK(again > 1000);
}

}  // namespace
}  // namespace ipvsproxier::ipset
