// NftRuleTable and NftSetTable over nf_tables in memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/nftables/foreign_steps.h"
#include "ipset/nftables/rule_decoding.h"
#include "ipset/nftables/rule_expressions.h"
#include "test/support/nft_world.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::ErrorKind;
using netlink::NftVerdictCode;

using Texts = std::vector<std::string>;

TEST_CASE("nf_tables: rules are written once, and read back as ours") {
  NftWorld world;
  for (const auto family : netlink::kFamilies) {
    world.make_all(family);
    const auto wanted = nft_rules(family, NftWorld::restricted());
    CHECK(world.rules.list(wanted).value() == wanted);
    const auto generation = world.kernel.generation();
    CHECK_FALSE(world.rules.apply(wanted).value());
    CHECK(world.kernel.generation() == generation);
  }
}

TEST_CASE("nf_tables: before anything is there, nothing is listed") {
  NftWorld world;
  const auto wanted = nft_rules(Family::ipv4, {});
  CHECK(world.rules.list(wanted)->chains.empty());
  CHECK_FALSE(*world.sets.list(set_name(SetId::nft_services, Family::ipv4)));
  CHECK_FALSE(*world.sets.list(set_name(SetId::nft_source_ranges, Family::ipv4)));
  CHECK_FALSE(*world.sets.list("some other set"));
  CHECK(world.rules.remove({.family = Family::ipv4, .table = Table::kube_ipvs}).value() ==
        RemovedRules{});
}

TEST_CASE("nf_tables: other parameters rewrite the chains that differ") {
  NftWorld world;
  world.make_all(Family::ipv4, {});
  const auto wanted = nft_rules(Family::ipv4, NftWorld::restricted());
  const auto before = world.rules.list(wanted);
  REQUIRE(before);
  CHECK(*before == nft_rules(Family::ipv4, {}));
  CHECK(world.rules.apply(wanted).value());
  CHECK(world.rules.list(wanted).value() == wanted);
  const auto other = nft_rules(Family::ipv4, {.detector = *IpPrefix::parse("10.244.0.0/16")});
  const auto found = world.rules.list(other);
  REQUIRE(found);
  const auto cluster = std::ranges::find(found->chains, "svc_cluster", &Chain::name);
  REQUIRE(cluster->rules.size() == 1);  // of no detector: not one that is wanted
  CHECK(world.rules.apply(other).value());
  CHECK(world.rules.list(other).value() == other);
}

TEST_CASE("nf_tables: a chain that somebody changed is written again") {
  NftWorld world;
  world.make_all(Family::ipv4);
  const auto wanted = nft_rules(Family::ipv4, NftWorld::restricted());
  SECTION("flushed") {
    world.meddle({netlink::NftFlushChain{kV4, "input"}});
  }
  SECTION("a rule more") {
    world.meddle(
        {netlink::NftAddRule{kV4,
                             {.chain = "to_vip",
                              .expressions = {netlink::NftImmediate{
                                  .data = netlink::NftVerdict{NftVerdictCode::accept, ""}}}}}});
  }
  SECTION("called elsewhere") {
    world.meddle({netlink::NftFlushChain{kV4, "input"}, netlink::NftDeleteChain{kV4, "input"},
                  netlink::NftAddChain{
                      kV4,
                      {.name = "input",
                       .base = netlink::NftBase{
                           .type = "filter", .hook = netlink::NftHook::forward, .priority = 0}}}});
  }
  SECTION("dropping by policy") {
    auto base = netlink::NftBase{
        .type = "filter", .hook = netlink::NftHook::input, .priority = -5, .accepts = false};
    world.meddle({netlink::NftFlushChain{kV4, "input"}, netlink::NftDeleteChain{kV4, "input"},
                  netlink::NftAddChain{kV4, {.name = "input", .base = base}}});
  }
  CHECK_FALSE(world.rules.list(wanted).value() == wanted);
  CHECK(world.rules.apply(wanted).value());
  CHECK(world.rules.list(wanted).value() == wanted);
}

TEST_CASE("nf_tables: that the kernel takes our rules is tried without a trace") {
  NftWorld world;
  for (const auto family : netlink::kFamilies) CHECK(world.rules.family_usable(family));
  for (const auto* name : {"kube-ipvs", "kube-ipvs-probe"})
    CHECK(world.kernel.find({netlink::NftFamily::ip, name}) == nullptr);
}

TEST_CASE("nf_tables: rules that only iptables has are refused, and nothing is written") {
  NftWorld world;
  auto wanted = nft_rules(Family::ipv4, {});
  wanted.chains.front().rules.push_back({.matches = {IpvsMatch{}}, .target = Verdict::drop});
  const auto applied = world.rules.apply(wanted);
  REQUIRE_FALSE(applied);
  CHECK(applied.error().kind == ErrorKind::malformed);
  CHECK(world.kernel.find(kV4) == nullptr);
}

TEST_CASE("nf_tables: sets keep their elements, in both families") {
  NftWorld world;
  for (const auto family : netlink::kFamilies) {
    world.make_all(family);
    const auto ip = family == Family::ipv4 ? kVip : *IpAddress::parse("fd96::1");
    world.add(SetId::nft_vips, family, IpElement{ip});
    world.add(SetId::nft_hairpins, family, IpElement{ip});
    world.add(SetId::nft_health_ports, family, PortElement{32000});
    world.add(SetId::nft_services, family,
              ServiceElement{ip, Protocol::udp, 53, ServiceVerdict::cluster});
    const auto text = ip.to_string();
    CHECK(world.listed(SetId::nft_vips, family) == Texts{text});
    CHECK(world.listed(SetId::nft_hairpins, family) == Texts{text});
    CHECK(world.listed(SetId::nft_health_ports, family) == Texts{"32000"});
    CHECK(world.listed(SetId::nft_services, family) == Texts{text + ",udp:53,cluster"});
    // Again, and what is not there.
    world.add(SetId::nft_vips, family, IpElement{ip});
    world.remove(SetId::nft_health_ports, family, PortElement{1});
    world.remove(SetId::nft_vips, family, IpElement{ip});
    CHECK(world.listed(SetId::nft_vips, family).empty());
  }
}

TEST_CASE("nf_tables: a verdict takes the place of another one in one step") {
  NftWorld world;
  world.make_all(Family::ipv4);
  ServiceElement element{kVip, Protocol::tcp, 80, ServiceVerdict::keep};
  world.add(SetId::nft_services, Family::ipv4, element);
  element.verdict = ServiceVerdict::mark;
  world.add(SetId::nft_services, Family::ipv4, element);
  CHECK(world.listed(SetId::nft_services, Family::ipv4) == Texts{"10.96.0.1,tcp:80,mark"});
  const auto spec = set_spec(SetId::nft_services, Family::ipv4);
  auto foreign = *nft_element_of(spec, element);
  foreign.data = netlink::NftVerdict{NftVerdictCode::drop, ""};
  auto key = foreign;
  key.data.reset();
  world.meddle({netlink::NftDeleteElements{kV4, "services", {key}},
                netlink::NftAddElements{kV4, "services", {foreign}}});
  CHECK(world.listed(SetId::nft_services, Family::ipv4) == Texts{"10.96.0.1,tcp:80,foreign"});
  world.add(SetId::nft_services, Family::ipv4, element);
  CHECK(world.listed(SetId::nft_services, Family::ipv4) == Texts{"10.96.0.1,tcp:80,mark"});
  // Whatever it has become, a removal removes it; a foreign verdict is never written.
  element.verdict = ServiceVerdict::foreign;
  CHECK(world.change(SetId::nft_services, Family::ipv4, {{true, element}}).front().error().kind ==
        ErrorKind::malformed);
  world.remove(SetId::nft_services, Family::ipv4, element);
  CHECK(world.listed(SetId::nft_services, Family::ipv4).empty());
}

TEST_CASE("nf_tables: an element of another kind or family fails alone") {
  NftWorld world;
  world.make_all(Family::ipv4);
  const auto outcomes = world.change(SetId::nft_vips, Family::ipv4,
                                     {{true, PortElement{1}},
                                      {true, IpElement{kVip}},
                                      {true, IpElement{*IpAddress::parse("fd96::1")}}});
  CHECK(outcomes[0].error().kind == ErrorKind::malformed);
  CHECK(outcomes[1]);
  CHECK(outcomes[2].error().kind == ErrorKind::malformed);
  CHECK(world.listed(SetId::nft_vips, Family::ipv4) == Texts{"10.96.0.1"});
}

TEST_CASE("nf_tables: source ranges, replaced by larger ones") {
  NftWorld world;
  world.make_all(Family::ipv4);
  const auto family = Family::ipv4;
  const auto listed = [&] { return world.listed(SetId::nft_source_ranges, family); };
  world.add(SetId::nft_source_ranges, family, ranges({"192.0.2.0/25", "198.51.100.0/24"}));
  CHECK(listed() == Texts{"10.96.0.1,tcp:80,192.0.2.0/25,198.51.100.0/24"});
  world.add(SetId::nft_source_ranges, family, ranges({"192.0.2.0/24", "198.51.100.0/24"}));
  CHECK(listed() == Texts{"10.96.0.1,tcp:80,192.0.2.0/24,198.51.100.0/24"});
  world.remove(SetId::nft_source_ranges, family, ranges({"192.0.2.0/24", "198.51.100.0/24"}));
  CHECK(listed().empty());
  const auto* table = world.kernel.find(kV4);
  REQUIRE(table != nullptr);
  for (const auto& [name, _] : table->chains) CHECK_FALSE(name.starts_with("ranges_"));
  for (const auto& [name, _] : table->sets) CHECK_FALSE(name.starts_with("ranges_"));
}

// Counts the elements that are sent to the table of another.
class CountedFilterTable final : public FilterTable {
 public:
  explicit CountedFilterTable(FilterTable& table) : table_(table) {}

  std::vector<Status> apply(std::span<const netlink::NftUnit> units) override {
    for (const auto& unit : units) {
      for (const auto& op : unit.ops) {
        if (const auto* add = std::get_if<netlink::NftAddElements>(&op))
          elements += add->elements.size();
        if (const auto* removal = std::get_if<netlink::NftDeleteElements>(&op))
          elements += removal->elements.size();
      }
    }
    return table_.apply(units);
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

  std::size_t elements = 0;

 private:
  FilterTable& table_;
};

TEST_CASE("nf_tables: one source range of thousands costs two elements") {
  NftWorld world;
  CountedFilterTable counted(world.table);
  NftSetTable sets(counted);
  world.make_all(Family::ipv4);
  RangesElement many{kVip, Protocol::tcp, 80, {}};
  for (std::uint32_t i = 0; i < 3000; ++i)
    many.ranges.push_back(IpPrefix::of(IpAddress::v4(0x64000000 + i * 512), 24));
  auto more = many;
  more.ranges.push_back(*IpPrefix::parse("203.0.113.0/24"));
  ElementSet known;
  // The number of elements that are sent to replace what is known.
  const auto change = [&](const RangesElement& wanted) {
    counted.elements = 0;
    const std::vector<ElementOp> ops{{true, wanted}};
    const std::vector<SetTable::SetOps> all{
        {set_spec(SetId::nft_source_ranges, Family::ipv4), ops, &known}};
    REQUIRE(sets.apply_all(all).front().front());
    known = {wanted};
    return counted.elements;
  };
  const auto listed = [&] {
    return world.sets.list(set_name(SetId::nft_source_ranges, Family::ipv4));
  };
  CHECK(change(many) == 2 * many.ranges.size() + 1);
  CHECK(change(more) == 2);
  CHECK(change(many) == 2);
  CHECK(change(range("100.0.0.0/8")) == 2 * many.ranges.size() + 2);
  CHECK(change(many) == 2 * many.ranges.size() + 2);
  CHECK(listed().value().value().elements == std::vector<Element>{many});

  // What another program took away meanwhile comes back with the next change that meets it.
  const auto name = ranges_name({kVip, Protocol::tcp, 80});
  world.meddle({netlink::NftFlushSet{kV4, name}});
  auto fewer = many;
  fewer.ranges.erase(fewer.ranges.begin());
  CHECK(change(fewer) > 2 * fewer.ranges.size());
  CHECK(listed().value().value().elements == std::vector<Element>{fewer});
}

TEST_CASE("nf_tables: the chain of source ranges follows them, also where it compares them") {
  NftWorld world;
  world.make_all(Family::ipv4);
  const auto rules = [&] {
    std::vector<std::string> texts;
    for (const auto& rule :
         world.kernel.find(kV4)->chains.at(ranges_name({kVip, Protocol::tcp, 80})).rules)
      texts.push_back(to_nft_string(rule_in(rule.expressions, Family::ipv4), Family::ipv4));
    return texts;
  };
  const auto set = [&](const RangesElement& wanted) {
    world.add(SetId::nft_source_ranges, Family::ipv4, wanted);
  };
  set(range("192.0.2.0/24"));
  CHECK(rules() == Texts{"ip saddr != 192.0.2.0/24 drop"});
  set(ranges({"192.0.2.0/24", "198.51.100.0/24"}));
  CHECK(rules() == Texts{"ip saddr != 192.0.2.0/24 ip saddr != 198.51.100.0/24 drop"});
  set(range("198.51.100.0/24"));
  CHECK(rules() == Texts{"ip saddr != 198.51.100.0/24 drop"});
  RangesElement many{kVip, Protocol::tcp, 80, {}};
  for (std::uint32_t i = 0; i < 16; ++i)
    many.ranges.push_back(IpPrefix::of(IpAddress::v4(0x64000000 + i * 512), 24));
  auto more = many;
  more.ranges.push_back(*IpPrefix::parse("198.51.100.0/24"));
  set(more);
  CHECK(rules() == Texts{"ip saddr != @ranges_10.96.0.1_tcp_80 drop"});
  set(many);
  CHECK(rules().front().starts_with("ip saddr != 100.0.0.0/24 ip saddr != "));
  set(range("0.0.0.0/0"));
  CHECK(rules().empty());
  // All that is read as it was written.
  CHECK(world.listed(SetId::nft_source_ranges, Family::ipv4) ==
        Texts{"10.96.0.1,tcp:80,0.0.0.0/0"});
}

TEST_CASE("nf_tables: a virtual service leads to its source ranges as long as they are there") {
  NftWorld world;
  world.make_all(Family::ipv4);
  const ServiceElement open{kVip, Protocol::tcp, 80, ServiceVerdict::keep};
  auto restricted = open;
  restricted.restricted = true;
  world.add(SetId::nft_services, Family::ipv4, open);
  // Without its chain nobody is led there.
  CHECK_FALSE(world.change(SetId::nft_services, Family::ipv4, {{true, restricted}}).front());
  world.add(SetId::nft_source_ranges, Family::ipv4, range("192.0.2.0/24"));
  world.add(SetId::nft_services, Family::ipv4, restricted);
  CHECK(world.listed(SetId::nft_services, Family::ipv4) ==
        Texts{"10.96.0.1,tcp:80,keep,restricted"});
  // The chain stays while it is asked.
  CHECK_FALSE(world.change(SetId::nft_source_ranges, Family::ipv4, {{false, range("192.0.2.0/24")}})
                  .front());
  world.add(SetId::nft_services, Family::ipv4, open);
  world.remove(SetId::nft_source_ranges, Family::ipv4, range("192.0.2.0/24"));
  CHECK(world.listed(SetId::nft_source_ranges, Family::ipv4).empty());
}

TEST_CASE("nf_tables: source ranges that somebody opened are written again") {
  NftWorld world;
  world.make_all(Family::ipv4);
  world.add(SetId::nft_source_ranges, Family::ipv4, range("192.0.2.0/24"));
  const RestrictedService service{kVip, Protocol::tcp, 80};
  const auto name = ranges_name(service);
  auto element = restricted_element_of(service);
  element.data.reset();
  SECTION("the chain flushed") {
    world.meddle({netlink::NftFlushChain{kV4, name}});
  }
  SECTION("the chain with other ranges") {
    const auto other = rules_of_ranges(
        service, {*IpPrefix::parse("192.0.2.0/24"), *IpPrefix::parse("10.0.0.0/8")});
    world.meddle(
        {netlink::NftFlushChain{kV4, name},
         netlink::NftAddRule{
             kV4, {.chain = name, .expressions = expressions_of(other[0], Family::ipv4)}}});
  }
  SECTION("the map's element deleted") {
    world.meddle({netlink::NftDeleteElements{kV4, "restricted", {element}}});
  }
  SECTION("the map's element led elsewhere") {
    auto open = element;
    open.data = netlink::NftVerdict{NftVerdictCode::accept, ""};
    world.meddle({netlink::NftDeleteElements{kV4, "restricted", {element}},
                  netlink::NftAddElements{kV4, "restricted", {open}}});
  }
  SECTION("the set of another type, and a rule of others that looks into it") {
    auto other = ranges_set_of(service);
    other.flags = 0;
    const auto lookup = expressions_of(
        {.matches = {SetMatch{.set = "ip kube-ipvs " + name, .directions = {Direction::src}}},
         .target = Verdict::drop},
        Family::ipv4);
    world.meddle({netlink::NftDeleteSet{kV4, name}, netlink::NftAddSet{kV4, other},
                  netlink::NftAddRule{kV4, {.chain = "svc_keep", .expressions = lookup}}});
  }
  SECTION("the set of another type, and the map's element led elsewhere") {
    auto other = ranges_set_of(service);
    other.flags = 0;
    auto open = element;
    open.data = netlink::NftVerdict{NftVerdictCode::accept, ""};
    world.meddle({netlink::NftDeleteSet{kV4, name}, netlink::NftAddSet{kV4, other},
                  netlink::NftDeleteElements{kV4, "restricted", {element}},
                  netlink::NftAddElements{kV4, "restricted", {open}}});
  }
  CHECK(world.listed(SetId::nft_source_ranges, Family::ipv4).empty());
  world.add(SetId::nft_source_ranges, Family::ipv4, range("192.0.2.0/24"));
  CHECK(world.listed(SetId::nft_source_ranges, Family::ipv4) ==
        Texts{"10.96.0.1,tcp:80,192.0.2.0/24"});
  CHECK(world.kernel.find(kV4)->sets.at(name).spec == ranges_set_of(service));
  world.remove(SetId::nft_source_ranges, Family::ipv4, range("192.0.2.0/24"));
  CHECK(world.listed(SetId::nft_source_ranges, Family::ipv4).empty());
}

TEST_CASE("nf_tables: a daemon that starts anew changes the source ranges that it finds") {
  NftWorld world;
  world.make_all(Family::ipv4);
  world.add(SetId::nft_source_ranges, Family::ipv4, range("192.0.2.0/24"));
  NftSetTable anew(world.table);
  const std::vector<ElementOp> more{{true, ranges({"192.0.2.0/24", "198.51.100.0/24"})}};
  REQUIRE(anew.apply(set_spec(SetId::nft_source_ranges, Family::ipv4), more).front());
  CHECK(world.listed(SetId::nft_source_ranges, Family::ipv4) ==
        Texts{"10.96.0.1,tcp:80,192.0.2.0/24,198.51.100.0/24"});
}

TEST_CASE("nf_tables: removing the rules removes the table, with source ranges in it") {
  NftWorld world;
  world.make_all(Family::ipv4);
  world.add(SetId::nft_source_ranges, Family::ipv4, range("192.0.2.0/24"));
  const auto removed = world.rules.remove({.family = Family::ipv4, .table = Table::kube_ipvs});
  REQUIRE(removed);
  CHECK(removed->chains == 14);
  CHECK(world.kernel.find(kV4) == nullptr);
  for (const auto id : kNftSetIds) CHECK(world.sets.destroy(set_name(id, Family::ipv4)));
}

TEST_CASE("nf_tables: sets are destroyed one by one as well") {
  NftWorld world;
  world.make_sets(Family::ipv4);
  world.add(SetId::nft_source_ranges, Family::ipv4, range("192.0.2.0/24"));
  for (const auto id : kNftSetIds) CHECK(world.sets.destroy(set_name(id, Family::ipv4)));
  CHECK(world.kernel.find(kV4)->sets.empty());
  for (const auto& [name, _] : world.kernel.find(kV4)->chains)
    CHECK_FALSE(name.starts_with("ranges_"));
}

}  // namespace
}  // namespace ipvsproxier::ipset
