#include "ipset/rules/rule_codec.h"

#include <fstream>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>

#include "ipset/rules/entry_rules.h"
#include "ipset/rules/rule_catalog.h"
#include "test/rule_bytes.h"
#include "test/support/hex.h"
#include "test/support/paths.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::ErrorKind;
using netlink::Family;
using test::CatalogSets;

// A line of test/reference/rules.
struct Captured {
  std::string label;
  Bytes entry;
  std::string text;
};

std::vector<Captured> captured(Family family) {
  const auto* const file = family == Family::ipv4 ? "ipv4.txt" : "ipv6.txt";
  std::ifstream in(test::data_path("reference/rules/") + file);
  std::vector<Captured> result;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    Captured one;
    std::string hex;
    words >> one.label >> hex >> std::ws;
    std::getline(words, one.text);
    one.entry = test::from_hex(hex);
    result.push_back(std::move(one));
  }
  REQUIRE(result.size() == 56);
  return result;
}

std::vector<Rule> all_rules(Family family) {
  std::vector<Rule> rules;
  for (const auto& parameters : test::all_parameters(family))
    for (const auto& table : rules_for(family, parameters)) {
      for (const auto& chain : table.chains)
        rules.insert(rules.end(), chain.rules.begin(), chain.rules.end());
      for (const auto& jump : table.jumps) rules.push_back(jump.rule);
    }
  return rules;
}

bool is_foreign(const Rule& rule) {
  return std::holds_alternative<ForeignTarget>(rule.target);
}

// The verdict of a jump is libiptc's to fill in.
EntryParts without_verdict(Family family, const Bytes& entry) {
  auto parts = *split_entry(family, entry);
  if (parts.target.name.empty()) std::fill(parts.target.data.begin(), parts.target.data.end(), 0);
  return parts;
}

TEST_CASE("the rule of our health server's port survives encoding and decoding") {
  CatalogSets sets;
  for (const auto family : netlink::kFamilies) {
    const auto rule = healthz_rule(family, {.healthz_port = 10256, .non_empty = {SetId::healthz}},
                                   SetId::healthz);
    REQUIRE(rule);
    const auto bytes = encode_rule(*rule, family, sets);
    REQUIRE(bytes);
    const auto label = test::label_of(family, *bytes);
    CHECK(decode_rule(family, test::as_read(*rule, family, *bytes), label, sets) == *rule);
  }
}

TEST_CASE("rules that drop invalid packets survive encoding and decoding") {
  CatalogSets sets;
  RuleParameters parameters{.drop_invalid = true, .non_empty = {SetId::other_endpoints}};
  for (const auto family : netlink::kFamilies) {
    parameters.detector =
        *netlink::IpPrefix::parse(family == Family::ipv4 ? "10.244.0.0/16" : "fd00:244::/48");
    const auto rules = invalid_rules(family, parameters, SetId::other_endpoints);
    REQUIRE(rules.size() == 2);
    for (const auto& rule : rules) {
      const auto bytes = encode_rule(rule, family, sets);
      REQUIRE(bytes);
      const auto label = test::label_of(family, *bytes);
      CHECK(decode_rule(family, test::as_read(rule, family, *bytes), label, sets) == rule);
    }
  }
}

TEST_CASE("every rule survives encoding and decoding") {
  CatalogSets sets;
  for (const auto family : netlink::kFamilies)
    for (const auto& rule : all_rules(family)) {
      CAPTURE(to_string(rule, family));
      const auto bytes = encode_rule(rule, family, sets);
      REQUIRE(bytes);
      const auto label = test::label_of(family, *bytes);
      const auto read = decode_rule(family, test::as_read(rule, family, *bytes), label, sets);
      CHECK(to_string(read, family) == to_string(rule, family));
      CHECK(read == rule);
    }
}

TEST_CASE("every rule is encoded to the bytes that iptables writes, and read from them") {
  CatalogSets sets;
  for (const auto family : netlink::kFamilies) {
    const auto golden = captured(family);
    for (const auto& rule : all_rules(family)) {
      const auto text = to_string(rule, family);
      CAPTURE(text);
      const auto found = std::find_if(golden.begin(), golden.end(),
                                      [&](const Captured& one) { return one.text == text; });
      REQUIRE(found != golden.end());
      CHECK(decode_rule(family, found->entry, found->label, sets) == rule);
      const auto bytes = encode_rule(rule, family, sets);
      REQUIRE(bytes);
      const auto expected = without_verdict(family, found->entry);
      const auto actual = without_verdict(family, test::as_read(rule, family, *bytes));
      CHECK(bytes->size() == found->entry.size());
      CHECK(actual.header == expected.header);
      CHECK(actual.matches == expected.matches);
      CHECK(actual.target == expected.target);
    }
  }
}

TEST_CASE("a cut entry is foreign at every length") {
  CatalogSets sets;
  for (const auto family : netlink::kFamilies)
    for (const auto& one : captured(family))
      for (std::size_t size = 0; size < one.entry.size(); ++size) {
        // A copy of its own, so that a sanitizer sees a read beyond it.
        const Bytes cut(one.entry.begin(), one.entry.begin() + static_cast<std::ptrdiff_t>(size));
        if (!is_foreign(decode_rule(family, cut, one.label, sets))) FAIL(one.text << size);
      }
}

// Any one bit that makes a difference to the kernel makes a difference to the rule, so that a
// changed rule is never taken for the one that is wanted.
TEST_CASE("no changed entry is taken for the rule that it was") {
  CatalogSets sets;
  for (const auto family : netlink::kFamilies)
    for (const auto& one : captured(family)) {
      const auto rule = decode_rule(family, one.entry, one.label, sets);
      const auto parts = *split_entry(family, one.entry);
      for (std::size_t match = 0; match < parts.matches.size(); ++match)
        for (std::size_t i = 0; i < parts.matches[match].data.size(); ++i) {
          auto changed = parts;
          changed.matches[match].data[i] ^= 0x40;
          const auto read = decode_rule(family, join_entry(family, changed), one.label, sets);
          const auto tail = parts.matches[match].data.size() - i;
          // Up to seven bytes of padding follow the kernel's structure.
          if (read == rule && tail > 7) FAIL(one.text << " match " << match << " byte " << i);
        }
      auto renamed = parts;
      renamed.target.name = "TRACE";
      CHECK(is_foreign(decode_rule(family, join_entry(family, renamed), "TRACE", sets)));
    }
}

TEST_CASE("an inconsistent layout is refused") {
  CatalogSets sets;
  const auto entry = *encode_rule({.comment = "x"}, Family::ipv4, sets);
  const auto header = entry_header_size(Family::ipv4);
  auto with = [&](std::size_t place, std::uint16_t value) {
    auto changed = entry;
    changed[place] = static_cast<std::uint8_t>(value & 0xff);
    changed[place + 1] = static_cast<std::uint8_t>(value >> 8);
    return split_entry(Family::ipv4, changed).has_value();
  };
  const auto size_of_match = static_cast<std::uint16_t>(entry[header] | entry[header + 1] << 8);
  CHECK(with(header, size_of_match));
  for (const int size : {0, 1, 31, 32, size_of_match - 8, size_of_match + 8, 0xffff})
    CHECK_FALSE(with(header, static_cast<std::uint16_t>(size)));
}

TEST_CASE("what cannot be expressed is an error that says so") {
  CatalogSets sets;
  const auto error = [&](const Rule& rule) {
    const auto bytes = encode_rule(rule, Family::ipv4, sets);
    REQUIRE_FALSE(bytes);
    return bytes.error();
  };
  CHECK(error({.comment = std::string(256, 'x')}).kind == ErrorKind::malformed);
  CHECK(error({.target = ForeignTarget{"x"}}).kind == ErrorKind::malformed);
  CHECK(error({.target = JumpTarget{std::string(29, 'X')}}).kind == ErrorKind::malformed);
  CHECK(error({.target = JumpTarget{}}).kind == ErrorKind::malformed);
  CHECK(error({.in_interface = InInterfaceMatch{.name = std::string(16, 'x')}}).kind ==
        ErrorKind::malformed);
  CHECK(error({.source = SourceMatch{*netlink::IpPrefix::parse("fd00::/8")}}).kind ==
        ErrorKind::malformed);
  CHECK(error({.protocol = netlink::Protocol::tcp, .matches = {EchoRequestMatch{}}}).kind ==
        ErrorKind::malformed);
  const auto missing = error({.matches = {SetMatch{"NO-SUCH-SET", {Direction::dst}}}});
  CHECK(missing.kind == ErrorKind::missing);
  CHECK(missing.where == "NO-SUCH-SET");
}

TEST_CASE("the extensions that a rule needs") {
  const Rule rule{.comment = "x", .matches = {BridgePortInMatch{}}, .target = MarkTarget{}};
  CHECK(extensions_of(rule, Family::ipv6) == std::vector<ExtensionName>{{"comment", 0, false},
                                                                        {"physdev", 0, false},
                                                                        {"MARK", 2, true}});
  CHECK(extensions_of({.target = JumpTarget{"X"}}, Family::ipv4).empty());
}

TEST_CASE("the modules of our rules, by the names of their files") {
  RuleParameters parameters;
  parameters.non_empty.insert(kSetIds.begin(), kSetIds.end());
  std::set<std::string> modules;
  SECTION("IPv4") {
    for (const auto& rules : rules_for(Family::ipv4, parameters)) modules.merge(modules_of(rules));
    CHECK(modules == std::set<std::string>{"ip_tables", "ipt_REJECT", "iptable_filter",
                                           "iptable_nat", "xt_MASQUERADE", "xt_addrtype",
                                           "xt_comment", "xt_conntrack", "xt_mark", "xt_physdev",
                                           "xt_set"});
  }
  SECTION("IPv6") {
    for (const auto& rules : rules_for(Family::ipv6, parameters)) modules.merge(modules_of(rules));
    CHECK(modules == std::set<std::string>{"ip6_tables", "ip6t_REJECT", "ip6table_filter",
                                           "ip6table_nat", "xt_MASQUERADE", "xt_addrtype",
                                           "xt_comment", "xt_conntrack", "xt_mark", "xt_physdev",
                                           "xt_set"});
  }
}

TEST_CASE("the comment of an entry is found wherever it stands") {
  for (const auto family : netlink::kFamilies) {
    CatalogSets sets;
    const Rule rule{.comment = "a b",
                    .matches = {ConntrackStateMatch{.is_new = true}},
                    .target = JumpTarget{"KUBE-SERVICES"}};
    auto parts = *split_entry(family, *encode_rule(rule, family, sets));
    CHECK(comment_of(family, join_entry(family, parts)) == "a b");
    // As iptables mode writes its jumps: not a rule of ours.
    std::swap(parts.matches.at(0), parts.matches.at(1));
    const auto swapped = join_entry(family, parts);
    CHECK(is_foreign(decode_rule(family, swapped, "KUBE-SERVICES", sets)));
    CHECK(comment_of(family, swapped) == "a b");
    parts.matches.pop_back();
    CHECK(comment_of(family, join_entry(family, parts)) == "");
    CHECK(comment_of(family, Bytes(10)) == "");
  }
}

}  // namespace
}  // namespace ipvsproxier::ipset
