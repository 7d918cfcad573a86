#pragma once

// What every FilterTable keeps: the same cases for the fake and for the kernel. A World has two
// tables of one empty network namespace: table() and other(), which is somebody else's.
//
//   TEST_CASE("...") { test::check_filter_contract<World>(); }

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ipset/nftables/filter_table.h"

namespace ipvsproxier::test {

inline const netlink::NftTableKey kFilterTable{netlink::NftFamily::ip, "contract"};

inline netlink::Bytes filter_address(std::uint32_t number) {
  return {10, static_cast<std::uint8_t>(number >> 16), static_cast<std::uint8_t>(number >> 8),
          static_cast<std::uint8_t>(number)};
}

// The key of a virtual service over TCP.
inline netlink::Bytes filter_key(std::uint32_t number) {
  netlink::Bytes key;
  netlink::append_nft_part(key, filter_address(number));
  netlink::append_nft_part(key, netlink::Bytes{6});
  netlink::append_nft_part(key, netlink::Bytes{0, 80});
  return key;
}

inline netlink::NftElement leads(std::uint32_t number, const std::string& chain,
                                 netlink::NftVerdictCode code = netlink::NftVerdictCode::go_to) {
  return {.key = filter_key(number), .data = netlink::NftVerdict{code, chain}};
}

inline netlink::NftSetSpec filter_services() {
  using netlink::NftType;
  return {.name = "services",
          .flags = netlink::NftSetSpec::kMap,
          .key_type =
              netlink::nft_type({NftType::ipv4_addr, NftType::inet_proto, NftType::inet_service}),
          .key_bytes = 12,
          .data_type = netlink::kNftVerdictType};
}

inline netlink::NftSetSpec filter_vips(const std::string& name = "vips") {
  return {
      .name = name, .key_type = netlink::nft_type({netlink::NftType::ipv4_addr}), .key_bytes = 4};
}

// ip daddr . meta l4proto . th dport vmap @services
inline std::vector<netlink::NftExpression> look_up_services() {
  using namespace netlink;
  return {NftPayload{nft_register(0), NftHeader::network, 16, 4},
          NftMeta{.key = NftMeta::kL4Protocol, .target = nft_register(1)},
          NftPayload{nft_register(2), NftHeader::transport, 2, 2},
          NftLookup{.set = "services", .source = nft_register(0), .target = kNftVerdictRegister}};
}

inline netlink::NftImmediate filter_verdict(netlink::NftVerdictCode code,
                                            const std::string& chain = "") {
  return {netlink::kNftVerdictRegister, netlink::NftVerdict{code, chain}};
}

inline netlink::NftOp add_chain(const std::string& name) {
  return netlink::NftAddChain{kFilterTable, {name, std::nullopt}};
}
inline netlink::NftOp add_rule(const std::string& chain,
                               std::vector<netlink::NftExpression> expressions) {
  return netlink::NftAddRule{kFilterTable, {chain, std::move(expressions)}};
}
inline netlink::NftOp add_element(const std::string& set, netlink::NftElement element) {
  return netlink::NftAddElements{kFilterTable, set, {std::move(element)}};
}
inline netlink::NftOp delete_element(const std::string& set, netlink::Bytes key) {
  return netlink::NftDeleteElements{kFilterTable, set, {{.key = std::move(key)}}};
}

// A table with a map that a base chain looks into, a set, and two chains to lead to.
inline netlink::NftUnit filter_frame() {
  using namespace netlink;
  const NftBase input{.type = "filter", .hook = NftHook::input, .priority = -5};
  return {{NftAddTable{kFilterTable}, NftAddSet{kFilterTable, filter_services()},
           NftAddSet{kFilterTable, filter_vips()}, add_chain("keep"), add_chain("mark"),
           NftAddChain{kFilterTable, {"input", input}}, add_rule("input", look_up_services()),
           add_rule(
               "mark",
               {NftMeta{.key = NftMeta::kMark, .target = nft_register(0)},
                NftBitwise{
                    nft_register(0), nft_register(0), 4, {0xff, 0xbf, 0xff, 0xff}, {0, 0x40, 0, 0}},
                NftMeta{.key = NftMeta::kMark, .source = nft_register(0)}}),
           add_rule("mark", {filter_verdict(NftVerdictCode::give_back)})}};
}

inline void must_apply(ipset::FilterTable& table, const std::vector<netlink::NftUnit>& units) {
  const auto outcomes = table.apply(units);
  REQUIRE(outcomes.size() == units.size());
  for (const auto& outcome : outcomes)
    if (!outcome) FAIL(to_string(outcome.error()));
}

inline netlink::ErrorKind refused(ipset::FilterTable& table, const netlink::NftUnit& unit) {
  const auto outcomes = table.apply(std::vector{unit});
  REQUIRE(outcomes.size() == 1);
  REQUIRE_FALSE(outcomes[0]);
  INFO(to_string(outcomes[0].error()));
  CHECK_FALSE(outcomes[0].error().where.empty());
  return outcomes[0].error().kind;
}

inline ipset::FilterContents filter_contents(ipset::FilterTable& table) {
  auto contents = table.list(kFilterTable);
  if (!contents) FAIL(to_string(contents.error()));
  REQUIRE(contents->has_value());
  return **contents;
}

inline std::vector<netlink::NftElement> filter_elements(ipset::FilterTable& table,
                                                        const std::string& set) {
  return filter_contents(table).sets.at(set).elements;
}

template <typename World>
void check_filter_contents_contract() {
  using namespace netlink;
  World world;
  ipset::FilterTable& table = world.table();
  const auto none = table.list(kFilterTable);
  REQUIRE(none);
  CHECK_FALSE(none->has_value());
  CHECK(table.apply({}).empty());
  CHECK(refused(table, {{NftDeleteTable{kFilterTable}}}) == ErrorKind::missing);
  const auto frame = filter_frame();
  must_apply(table, {frame});

  SECTION("what was written is read") {
    const auto contents = filter_contents(table);
    CHECK(contents.chains.size() == 3);
    CHECK_FALSE(contents.chains.at("keep").base);
    CHECK(contents.chains.at("input").base ==
          NftBase{.type = "filter", .hook = NftHook::input, .priority = -5});
    REQUIRE(contents.chains.at("input").rules.size() == 1);
    CHECK(contents.chains.at("input").rules[0].expressions == look_up_services());
    REQUIRE(contents.chains.at("mark").rules.size() == 2);
    CHECK(contents.chains.at("mark").rules[1].expressions ==
          std::vector<NftExpression>{filter_verdict(NftVerdictCode::give_back)});
    CHECK(contents.sets.size() == 2);
    CHECK(contents.sets.at("services").spec == filter_services());
    CHECK(contents.sets.at("vips").spec == filter_vips());
    CHECK(contents.sets.at("vips").elements.empty());
  }
  SECTION("what exists may be added again; a rule is then there twice") {
    must_apply(table, {{{NftAddTable{kFilterTable}, add_chain("keep"),
                         add_element("vips", {.key = filter_address(1)})}},
                       {{add_element("vips", {.key = filter_address(1)}),
                         add_rule("input", look_up_services())}}});
    CHECK(filter_elements(table, "vips") == std::vector<NftElement>{{.key = filter_address(1)}});
    CHECK(filter_contents(table).chains.at("input").rules.size() == 2);
  }
  SECTION("rules go by their number, or all of a chain") {
    const auto rules = filter_contents(table).chains.at("mark").rules;
    must_apply(table, {{{NftDeleteRule{kFilterTable, "mark", rules[0].handle}}}});
    CHECK(refused(table, {{NftDeleteRule{kFilterTable, "mark", rules[0].handle}}}) ==
          ErrorKind::missing);
    CHECK(filter_contents(table).chains.at("mark").rules.size() == 1);
    CHECK(filter_contents(table).chains.at("mark").rules[0].handle == rules[1].handle);
    must_apply(table, {{{NftFlushChain{kFilterTable, "mark"}}}});
    CHECK(filter_contents(table).chains.at("mark").rules.empty());
  }
  SECTION("a table goes with what is in it, and may come back in the same unit") {
    must_apply(table, {{{add_element("services", leads(1, "keep"))}}});
    auto again = frame;
    again.ops.insert(again.ops.begin(), NftDeleteTable{kFilterTable});
    must_apply(table, {again});
    CHECK(filter_elements(table, "services").empty());
    must_apply(table, {{{NftDeleteTable{kFilterTable}}}});
    CHECK_FALSE(table.list(kFilterTable)->has_value());
  }
  SECTION("sets may be limited, emptied and deleted") {
    auto limited = filter_vips("few");
    limited.size = 2;
    must_apply(table,
               {{{NftAddSet{kFilterTable, limited}}}, {{NftFlushSet{kFilterTable, "services"}}}});
    CHECK(filter_contents(table).sets.at("few").spec == limited);
    must_apply(table, {{{add_element("few", {.key = filter_address(1)}),
                         add_element("few", {.key = filter_address(2)})}}});
    CHECK(refused(table, {{add_element("few", {.key = filter_address(3)})}}) == ErrorKind::io);
    must_apply(
        table,
        {{{NftFlushSet{kFilterTable, "few"}, add_element("few", {.key = filter_address(3)})}}});
    CHECK(filter_elements(table, "few") == std::vector<NftElement>{{.key = filter_address(3)}});
    must_apply(table, {{{NftDeleteSet{kFilterTable, "few"}}}});
    CHECK_FALSE(filter_contents(table).sets.contains("few"));
  }
}

template <typename World>
void check_filter_refusal_contract() {
  using namespace netlink;
  World world;
  ipset::FilterTable& table = world.table();
  must_apply(table, {filter_frame(), {{NftAddTable{{NftFamily::ip6, "contract"}}}}});

  SECTION("a unit is applied whole or not at all, and does not stop the others") {
    const std::vector<NftUnit> units = {
        {{add_element("vips", {.key = filter_address(1)}),
          add_element("services", leads(1, "keep"))}},
        {{add_element("vips", {.key = filter_address(2)}),
          add_element("services", leads(2, "nowhere"))}},
        {{add_chain("ranges"), add_rule("ranges", {filter_verdict(NftVerdictCode::drop)}),
          add_element("services", leads(3, "ranges", NftVerdictCode::jump))}}};
    const auto outcomes = table.apply(units);
    REQUIRE(outcomes.size() == 3);
    CHECK(outcomes[0]);
    REQUIRE_FALSE(outcomes[1]);
    CHECK(outcomes[1].error().kind == ErrorKind::missing);
    CHECK(outcomes[2]);
    CHECK(filter_elements(table, "vips") == std::vector<NftElement>{{.key = filter_address(1)}});
    CHECK(filter_elements(table, "services") ==
          std::vector{leads(1, "keep"), leads(3, "ranges", NftVerdictCode::jump)});
  }
  SECTION("another verdict for a key needs the old one deleted in the same unit") {
    must_apply(table, {{{add_element("services", leads(1, "keep"))}}});
    CHECK(refused(table, {{add_element("services", leads(1, "mark"))}}) == ErrorKind::already);
    must_apply(
        table,
        {{{delete_element("services", filter_key(1)), add_element("services", leads(1, "mark"))}}});
    CHECK(filter_elements(table, "services") == std::vector{leads(1, "mark")});
    CHECK(refused(table, {{delete_element("services", filter_key(2))}}) == ErrorKind::missing);
  }
  SECTION("what is in use stays") {
    must_apply(table, {{{add_element("services", leads(1, "keep")),
                         add_rule("input", {filter_verdict(NftVerdictCode::jump, "mark")})}}});
    CHECK(refused(table, {{NftDeleteChain{kFilterTable, "keep"}}}) == ErrorKind::busy);
    CHECK(refused(table, {{NftDeleteChain{kFilterTable, "mark"}}}) == ErrorKind::busy);
    CHECK(refused(table, {{NftDeleteSet{kFilterTable, "services"}}}) == ErrorKind::busy);
    must_apply(table,
               {{{delete_element("services", filter_key(1)), NftDeleteChain{kFilterTable, "keep"},
                  NftFlushChain{kFilterTable, "input"}, NftDeleteSet{kFilterTable, "services"},
                  NftDeleteChain{kFilterTable, "mark"}}}});
    CHECK(filter_contents(table).chains.size() == 1);
  }
  SECTION("a ct expectation of size 0 is kept as it is, while a rule uses it") {
    const NftExpectation object{
        .name = "unaccelerated", .protocol = 6, .port = 9, .timeout = 1, .size = 0};
    const NftObjectRef use{.type = NftObjectRef::kExpectation, .object = object.name};
    CHECK(table.find_expectation(kFilterTable, object.name).value() == std::nullopt);
    CHECK(refused(table, {{add_rule("input", {use})}}) == ErrorKind::missing);
    must_apply(table, {{{NftAddExpectation{kFilterTable, object}, add_rule("input", {use})}}});
    CHECK(table.find_expectation(kFilterTable, object.name).value() == object);
    CHECK(filter_contents(table).chains.at("input").rules.back().expressions ==
          std::vector<NftExpression>{use});
    must_apply(table, {{{NftAddExpectation{kFilterTable, object}}}});
    const NftUnit end{{NftDeleteExpectation{kFilterTable, object.name}}};
    CHECK(refused(table, end) == ErrorKind::busy);
    must_apply(table, {{{NftFlushChain{kFilterTable, "input"}}}, end});
    CHECK(table.find_expectation(kFilterTable, object.name).value() == std::nullopt);
    CHECK(refused(table, end) == ErrorKind::missing);
  }
  SECTION("without a flowtable no rule adds to one") {
    CHECK(table.list_flow_rules().value().empty());
  }
  SECTION("values that make no sense cost their own unit") {
    CHECK(refused(table, {{add_element("vips", {.key = {10, 0, 0}})}}) == ErrorKind::malformed);
    CHECK(refused(table, {{add_element("services", {.key = filter_key(1)})}}) ==
          ErrorKind::malformed);
    CHECK(refused(table, {{add_element("services", leads(1, "input"))}}) == ErrorKind::unsupported);
    CHECK(refused(table, {{add_element("absent", {.key = filter_address(1)})}}) ==
          ErrorKind::missing);
    CHECK(refused(table, {{add_rule("absent", {})}}) == ErrorKind::missing);
    CHECK(refused(table, {{NftDeleteChain{kFilterTable, "absent"}}}) == ErrorKind::missing);
    CHECK(refused(table, {{NftDeleteSet{kFilterTable, "absent"}}}) == ErrorKind::missing);
    CHECK(refused(table, {{NftAddChain{kFilterTable, {"keep", NftBase{.type = "filter"}}}}}) ==
          ErrorKind::unsupported);
    // Which of the two depends on the version of the kernel.
    const auto moved =
        refused(table, {{NftAddChain{kFilterTable, {"input", NftBase{.type = "filter"}}}}});
    CHECK((moved == ErrorKind::already || moved == ErrorKind::unsupported));
  }
  SECTION("verdicts in circles are found, and the rest is applied") {
    const std::vector<NftUnit> units = {
        {{add_element("vips", {.key = filter_address(1)})}},
        {{add_rule("keep", {filter_verdict(NftVerdictCode::jump, "mark")}),
          add_rule("mark", {filter_verdict(NftVerdictCode::jump, "keep")}),
          add_rule("input", {filter_verdict(NftVerdictCode::jump, "keep")})}},
        {{add_element("vips", {.key = filter_address(2)})}}};
    const auto outcomes = table.apply(units);
    CHECK(outcomes[0]);
    REQUIRE_FALSE(outcomes[1]);
    CHECK(outcomes[1].error().kind == ErrorKind::malformed);
    CHECK(outcomes[2]);
    CHECK(filter_elements(table, "vips").size() == 2);
    CHECK(filter_contents(table).chains.at("keep").rules.empty());
  }
  SECTION("many units with some culprits") {
    std::vector<NftUnit> units;
    for (std::uint32_t i = 0; i < 3000; ++i)
      units.push_back({{add_element("services", leads(i, i % 100 == 7 ? "nowhere" : "keep"))}});
    const auto outcomes = table.apply(units);
    for (std::uint32_t i = 0; i < 3000; ++i) REQUIRE(outcomes[i].has_value() == (i % 100 != 7));
    CHECK(filter_elements(table, "services").size() == 2970);
  }
  SECTION("a unit may be large") {
    NftAddElements many{kFilterTable, "services", {}};
    for (std::uint32_t i = 0; i < 20000; ++i) many.elements.push_back(leads(i, "keep"));
    must_apply(table, {{{many}}});
    std::ranges::sort(many.elements);
    CHECK(filter_elements(table, "services") == many.elements);
    auto wrong = many;
    wrong.elements[19999] = leads(19999, "nowhere");
    const auto outcomes =
        table.apply(std::vector<NftUnit>{{{NftFlushSet{kFilterTable, "services"}, wrong}}});
    CHECK_FALSE(outcomes[0]);
    CHECK(filter_elements(table, "services").size() == 20000);
  }
}

// A set of so many elements has several parts.
inline constexpr std::uint32_t kManyVips = 5'000;

// All parts of a listing of the set of VIPs, with `between` called behind the first.
inline netlink::Result<std::vector<netlink::NftElement>> vips_in_parts(
    ipset::FilterTable& table, const std::function<void()>& between) {
  auto part = table.begin_elements(kFilterTable, "vips");
  REQUIRE(part);
  REQUIRE(part->has_value());
  REQUIRE_FALSE((*part)->last);
  auto elements = std::move((*part)->elements);
  between();
  for (bool last = false; !last;) {
    auto next = table.next_elements();
    if (!next) return next.error();
    elements.insert(elements.end(), next->elements.begin(), next->elements.end());
    last = next->last;
  }
  std::ranges::sort(elements);
  return elements;
}

template <typename World>
void check_filter_parts_contract() {
  using namespace netlink;
  World world;
  ipset::FilterTable& table = world.table();
  CHECK(table.next_elements().error().kind == ErrorKind::busy);
  NftAddElements vips{kFilterTable, "vips", {}};
  for (std::uint32_t i = 0; i < kManyVips; ++i) vips.elements.push_back({.key = filter_address(i)});
  must_apply(table, {filter_frame(), {{add_element("services", leads(1, "keep"))}}, {{vips}}});
  std::ranges::sort(vips.elements);

  SECTION("the frame has no elements") {
    const auto tables = table.list_tables();
    REQUIRE(tables);
    CHECK(std::ranges::count(*tables, kFilterTable) == 1);
    const auto frame = table.list_frame(kFilterTable);
    REQUIRE(frame);
    REQUIRE(frame->has_value());
    CHECK((*frame)->chains.size() == 3);
    CHECK((*frame)->sets.at("services").spec == filter_services());
    CHECK((*frame)->sets.at("services").elements.empty());
    const auto rules_of = [](const ipset::FilterContents& contents) {
      std::size_t rules = 0;
      for (const auto& [name, chain] : contents.chains) rules += chain.rules.size();
      return rules;
    };
    std::size_t seen = 0;
    const auto none = [&](const auto& chain, const ipset::FilterRule& rule) {
      seen += (*frame)->chains.contains(chain) && rule.handle != 0 ? 1 : 0;
      return false;
    };
    const auto chains = table.list_chains(kFilterTable, none);
    REQUIRE(chains);
    REQUIRE(chains->has_value());
    CHECK((*chains)->chains.size() == 3);
    CHECK(rules_of(**chains) == 0);
    CHECK(seen == rules_of(**frame));
    CHECK(seen > 0);
    const auto without = table.list_chains(kFilterTable, {});
    REQUIRE(without);
    REQUIRE(without->has_value());
    CHECK((*without)->chains.size() == 3);
    CHECK(rules_of(**without) == 0);
    const auto absent = table.list_frame({NftFamily::ip6, "none"});
    REQUIRE(absent);
    CHECK_FALSE(absent->has_value());
  }
  SECTION("one set is listed alone, in parts or at once") {
    CHECK(vips_in_parts(table, [] {}) == vips.elements);
    CHECK(table.list_elements(kFilterTable, "vips") == vips.elements);
    const auto services = table.begin_elements(kFilterTable, "services");
    REQUIRE(services);
    CHECK((*services)->last);
    CHECK((*services)->elements == std::vector{leads(1, "keep")});
    CHECK(table.next_elements().error().kind == ErrorKind::busy);
    const auto none = table.list_elements(kFilterTable, "none");
    REQUIRE(none);
    CHECK_FALSE(none->has_value());
  }
  SECTION("changes elsewhere do not disturb it, by whomever") {
    CHECK(vips_in_parts(table, [&] {
            must_apply(table, {{{add_element("services", leads(2, "keep"))}}});
            must_apply(world.other(), {{{NftAddTable{{NftFamily::ip6, "theirs"}}}}});
          }) == vips.elements);
  }
  SECTION("changes of the set end it, by whomever") {
    const auto changer = GENERATE(0, 1);
    const auto listed = vips_in_parts(table, [&] {
      must_apply(changer == 0 ? table : world.other(),
                 {{{NftDeleteElements{kFilterTable, "vips", {{.key = filter_address(3)}}}}}});
    });
    REQUIRE_FALSE(listed);
    CHECK(listed.error().kind == ErrorKind::busy);
    CHECK(table.next_elements().error().kind == ErrorKind::busy);
    CHECK(table.list_elements(kFilterTable, "vips")->value().size() == kManyVips - 1);
  }
  SECTION("it ends when the table goes") {
    CHECK_FALSE(vips_in_parts(
        table, [&] { must_apply(world.other(), {{{NftDeleteTable{kFilterTable}}}}); }));
    CHECK_FALSE(table.list_elements(kFilterTable, "vips")->has_value());
  }
  SECTION("a chain goes together with the element that leads to it") {
    must_apply(table, {{{NftDeleteElements{kFilterTable, "services", {{.key = filter_key(1)}}},
                         NftDeleteChain{kFilterTable, "keep"}}}});
    CHECK_FALSE(filter_contents(table).chains.contains("keep"));
  }
  SECTION("a listing that was left begins anew") {
    REQUIRE_FALSE((*table.begin_elements(kFilterTable, "vips"))->last);
    CHECK(vips_in_parts(table, [] {}) == vips.elements);
    REQUIRE_FALSE((*table.begin_elements(kFilterTable, "vips"))->last);
    CHECK((*table.begin_elements(kFilterTable, "services"))->last);
    CHECK(table.port() != world.other().port());
  }
}

}  // namespace ipvsproxier::test
