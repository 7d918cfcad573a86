// The chains of virtual services with source ranges: what they cost the kernel, how a table of
// another layout becomes ours, and what is left of them when others damage the map.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/nftables/rule_decoding.h"
#include "test/support/nft_layouts.h"
#include "test/support/nft_world.h"

namespace ipvsproxier::ipset {
namespace {

constexpr auto kFamily = Family::ipv4;

// All chains that there can be.
RuleParameters everything() {
  return {.detector = *IpPrefix::parse("10.244.0.0/16"),
          .non_empty = {kNftSetIds.begin(), kNftSetIds.end()}};
}

RestrictedService numbered_service(std::uint32_t number) {
  return {IpAddress::v4(0xc0000200 + number), Protocol::tcp, 80};
}

ServiceElement element_of(std::uint32_t number, ServiceVerdict verdict) {
  const auto service = numbered_service(number);
  return {service.address, service.protocol, service.port, verdict, true};
}

RangesElement range_of(std::uint32_t number, const char* prefix) {
  const auto service = numbered_service(number);
  return {service.address, service.protocol, service.port, {*IpPrefix::parse(prefix)}};
}

// So many, of each verdict in turn.
void restrict_many(NftWorld& world, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    world.add(SetId::nft_source_ranges, kFamily, range_of(i, "203.0.113.0/24"));
    world.add(SetId::nft_services, kFamily,
              element_of(i, kServiceVerdicts[i % kServiceVerdicts.size()]));
  }
}

FilterContents contents_of(NftWorld& world) {
  const auto contents = world.stranger.list(kV4);
  REQUIRE(contents);
  return contents->value();
}

std::size_t steps_with(std::uint32_t restricted, bool shared) {
  NftWorld world;
  world.make_all(kFamily, everything());
  restrict_many(world, restricted);
  if (shared) world.meddle(test::as_with_shared_chains(contents_of(world), kFamily).ops);
  return test::ValidationWalk::steps_of(contents_of(world));
}

TEST_CASE("nf_tables: the kernel validates restricted virtual services in linear time") {
  const auto some = steps_with(20, false);
  CHECK(steps_with(40, false) - some == some - steps_with(0, false));
  // What it walks for each, from the map of virtual services twice and from that of ranges twice.
  CHECK((some - steps_with(0, false)) / 20 <= 24);
  // With shared chains it did not.
  CHECK(steps_with(40, true) > 3 * steps_with(20, true));
}

// What becomes of a new packet from this source to a virtual service.
struct Fate {
  bool dropped = false;
  bool marked = false;
  friend bool operator==(const Fate&, const Fate&) = default;
};

class FateWalk {
 public:
  FateWalk(const FilterContents& table, const RestrictedService& service, const IpAddress& source)
      : table_(table), service_(service), source_(source) {}

  Fate run() {
    lead("services");
    return fate_;
  }

 private:
  void lead(const std::string& map) {
    for (const auto& element : table_.sets.at(map).elements)
      if (service_of(element.key, kFamily) == service_)
        follow(std::get<netlink::NftVerdict>(*element.data).chain);
  }
  void follow(const std::string& chain) {
    for (const auto& has : table_.chains.at(chain).rules) {
      const auto rule = rule_in(has.expressions, kFamily);
      if (fate_.dropped) return;
      if (!holds_for(rule)) continue;
      if (const auto* jump = std::get_if<JumpTarget>(&rule.target)) follow(jump->chain);
      if (std::holds_alternative<VerdictMapTarget>(rule.target)) lead("restricted");
      if (std::holds_alternative<MarkTarget>(rule.target)) fate_.marked = true;
      if (rule.target == Target(Verdict::drop)) fate_.dropped = true;
    }
  }
  // The source is not of this node.
  bool holds_for(const Rule& rule) const {
    if (rule.source && rule.source->prefix.contains(source_) == rule.source->negated) return false;
    return std::ranges::all_of(rule.matches, [](const Match& match) {
      const auto* local = std::get_if<LocalAddressMatch>(&match);
      return local == nullptr || local->negated;
    });
  }

  const FilterContents& table_;
  RestrictedService service_;
  IpAddress source_;
  Fate fate_;
};

// Of packets to all virtual services, from within their ranges and from outside.
std::vector<Fate> fates_in(NftWorld& world, std::uint32_t count) {
  const auto contents = contents_of(world);
  std::vector<Fate> fates;
  for (std::uint32_t i = 0; i < count; ++i)
    for (const char* source : {"203.0.113.7", "198.51.100.9"})
      fates.push_back(FateWalk(contents, numbered_service(i), *IpAddress::parse(source)).run());
  return fates;
}

// Calls back behind every transaction.
class WatchedFilterTable final : public FilterTable {
 public:
  WatchedFilterTable(FilterTable& table, std::function<void()> then)
      : table_(table), then_(std::move(then)) {}

  std::vector<Status> apply(std::span<const netlink::NftUnit> units) override {
    std::vector<Status> statuses;
    for (const auto& unit : units) {
      statuses.push_back(table_.apply({&unit, 1}).front());
      then_();
    }
    return statuses;
  }
  Result<std::vector<netlink::NftTableKey>> list_tables() override { return table_.list_tables(); }
  Result<std::optional<FilterContents>> list_frame(const netlink::NftTableKey& table) override {
    return table_.list_frame(table);
  }
  Result<std::optional<netlink::NftSetSpec>> find_set(const netlink::NftTableKey& table,
                                                      const std::string& set) override {
    return table_.find_set(table, set);
  }
  Result<std::optional<netlink::NftExpectation>> find_expectation(
      const netlink::NftTableKey& table, const std::string& name) override {
    return table_.find_expectation(table, name);
  }
  Result<std::vector<netlink::NftFlowRule>> list_flow_rules() override {
    return table_.list_flow_rules();
  }
  Result<std::optional<ElementsPart>> begin_elements(const netlink::NftTableKey& table,
                                                     const std::string& set) override {
    return table_.begin_elements(table, set);
  }
  Result<ElementsPart> next_elements() override { return table_.next_elements(); }
  std::uint32_t port() const override { return table_.port(); }

 private:
  FilterTable& table_;
  std::function<void()> then_;
};

TEST_CASE("nf_tables: a table with shared chains becomes ours while source ranges hold") {
  constexpr std::uint32_t kCount = 10;
  NftWorld world;
  const auto wanted = nft_rules(kFamily, everything());
  world.make_all(kFamily, everything());
  restrict_many(world, kCount);
  const auto ours = contents_of(world);
  const auto fates = fates_in(world, kCount);
  for (std::size_t i = 0; i < fates.size(); ++i) {
    const auto verdict = kServiceVerdicts[i / 2 % kServiceVerdicts.size()];
    CHECK(fates[i].dropped == (i % 2 == 1 || verdict == ServiceVerdict::absent));
  }
  CHECK(std::ranges::count(fates, Fate{.dropped = false, .marked = true}) > 0);
  world.meddle(test::as_with_shared_chains(ours, kFamily).ops);
  REQUIRE(contents_of(world).chains.contains("svc_mark_ranges"));

  // The mark of what is dropped does not matter.
  const auto check_fates = [&] {
    const auto now = fates_in(world, kCount);
    for (std::size_t i = 0; i < fates.size(); ++i) {
      CHECK(now[i].dropped == fates[i].dropped);
      if (!now[i].dropped) CHECK(now[i].marked == fates[i].marked);
    }
  };
  check_fates();
  WatchedFilterTable watched(world.table, check_fates);
  NftRuleTable rules(watched);
  NftSetTable sets(watched);
  CHECK_FALSE(rules.list(wanted).value() == wanted);
  REQUIRE(rules.apply(wanted));
  // Their verdicts are not ours.
  std::vector<ElementOp> ops;
  const auto read = sets.list(set_name(SetId::nft_services, kFamily)).value().value();
  for (const auto& element : read.elements)
    if (std::get<ServiceElement>(element).verdict == ServiceVerdict::foreign)
      ops.push_back({true, element});
  CHECK(ops.size() == kCount - kCount / kServiceVerdicts.size());
  for (auto& op : ops) {
    auto& element = std::get<ServiceElement>(op.element);
    const auto number = element.ip.bytes().back();
    element = element_of(number, kServiceVerdicts[number % kServiceVerdicts.size()]);
  }
  for (const auto& status : sets.apply(set_spec(SetId::nft_services, kFamily), ops))
    REQUIRE(status);
  REQUIRE(rules.apply(wanted));
  CHECK(rules.list(wanted).value() == wanted);
  const auto after = contents_of(world);
  CHECK(after.sets.at("services").elements == ours.sets.at("services").elements);
  const auto names_in = [](const FilterContents& contents) {
    std::vector<std::string> names;
    for (const auto& [name, _] : contents.chains) names.push_back(name);
    return names;
  };
  CHECK(names_in(after) == names_in(ours));
}

// Names of chains and sets of virtual services with source ranges.
std::vector<std::string> parts_in(NftWorld& world) {
  std::vector<std::string> names;
  const auto contents = contents_of(world);
  for (const auto& [name, _] : contents.chains)
    if (name.find("192.0.2.") != name.npos) names.push_back(name);
  for (const auto& [name, _] : contents.sets)
    if (name.find("192.0.2.") != name.npos) names.push_back("set " + name);
  return names;
}

TEST_CASE("nf_tables: a restricted virtual service has one chain for its verdict") {
  using Names = std::vector<std::string>;
  NftWorld world;
  world.make_all(kFamily, everything());
  const auto give = [&](ServiceVerdict verdict, bool restricted) {
    auto element = element_of(1, verdict);
    element.restricted = restricted;
    world.add(SetId::nft_services, kFamily, element);
  };
  world.add(SetId::nft_source_ranges, kFamily, range_of(1, "203.0.113.0/24"));
  give(ServiceVerdict::mark, true);
  CHECK(parts_in(world) == Names{"ranges_192.0.2.1_tcp_80", "svc_mark_192.0.2.1_tcp_80",
                                 "set ranges_192.0.2.1_tcp_80"});
  give(ServiceVerdict::absent, true);
  CHECK(parts_in(world) == Names{"ranges_192.0.2.1_tcp_80", "svc_absent_192.0.2.1_tcp_80",
                                 "set ranges_192.0.2.1_tcp_80"});
  give(ServiceVerdict::keep, true);
  CHECK(parts_in(world) == Names{"ranges_192.0.2.1_tcp_80", "set ranges_192.0.2.1_tcp_80"});
  give(ServiceVerdict::cluster, true);
  give(ServiceVerdict::cluster, false);
  world.remove(SetId::nft_source_ranges, kFamily, range_of(1, "203.0.113.0/24"));
  CHECK(parts_in(world).empty());
}

TEST_CASE("nf_tables: a chain of a restricted virtual service is written again as it was") {
  NftWorld world;
  const auto wanted = nft_rules(kFamily, everything());
  world.make_all(kFamily, everything());
  restrict_many(world, 2);
  CHECK(world.rules.list(wanted).value() == wanted);
  const auto before = fates_in(world, 2);
  const std::string name = "svc_mark_192.0.2.1_tcp_80";
  world.meddle({netlink::NftFlushChain{kV4, name}});
  if (GENERATE(true, false))
    world.meddle({netlink::NftAddRule{
        kV4,
        {.chain = name,
         .expressions = expressions_of({.target = JumpTarget{.chain = "svc_mark"}}, kFamily)}}});
  CHECK_FALSE(fates_in(world, 2) == before);
  CHECK_FALSE(world.rules.list(wanted).value() == wanted);
  REQUIRE(world.rules.apply(wanted));
  CHECK(world.rules.list(wanted).value() == wanted);
  CHECK(fates_in(world, 2) == before);
}

TEST_CASE("nf_tables: what is left of source ranges whose map was flushed is removed") {
  NftWorld world;
  const auto wanted = nft_rules(kFamily, everything());
  world.make_all(kFamily, everything());
  restrict_many(world, 3);
  // Of one whose Service goes before anybody reads the map again.
  const auto gone = element_of(1, ServiceVerdict::mark);
  SECTION("flushed") {
    world.meddle({netlink::NftFlushSet{kV4, "restricted"}});
  }
  SECTION("the set is gone, too") {
    world.meddle({netlink::NftDeleteSet{kV4, "ranges_192.0.2.1_tcp_80"}});
  }
  SECTION("its element leads elsewhere") {
    auto element = restricted_element_of(numbered_service(1));
    auto open = element;
    open.data = netlink::NftVerdict{netlink::NftVerdictCode::accept, ""};
    element.data.reset();
    world.meddle({netlink::NftDeleteElements{kV4, "restricted", {element}},
                  netlink::NftAddElements{kV4, "restricted", {open}}});
  }
  NftSetTable anew(world.table);
  REQUIRE(anew.apply(set_spec(SetId::nft_services, kFamily), std::vector<ElementOp>{{false, gone}})
              .front());
  CHECK_FALSE(world.rules.list(wanted).value() == wanted);
  REQUIRE(world.rules.apply(wanted));
  for (const auto& name : parts_in(world)) CHECK(name.find("192.0.2.1_") == name.npos);
  // Those of which there are virtual services yet stay until their ranges are written again.
  for (const std::uint32_t number : {0U, 2U}) {
    CHECK(contents_of(world).chains.contains(ranges_name(numbered_service(number))));
    REQUIRE(anew.list(set_name(SetId::nft_source_ranges, kFamily)));
    REQUIRE(anew.apply(set_spec(SetId::nft_source_ranges, kFamily),
                       std::vector<ElementOp>{{true, range_of(number, "203.0.113.0/24")}})
                .front());
  }
  CHECK(world.rules.list(wanted).value() == wanted);
  CHECK_FALSE(world.rules.apply(wanted).value());
}

}  // namespace
}  // namespace ipvsproxier::ipset
