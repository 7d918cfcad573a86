#pragma once

// NftWorld: our tables of nf_tables in memory, and somebody else who changes them.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_set_table.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/sets/set_catalog.h"
#include "test/fakes/fake_filter_table.h"

namespace ipvsproxier::ipset {

inline const netlink::NftTableKey kV4 = nft_table_of(Family::ipv4);
inline const IpAddress kVip = IpAddress::v4(0x0a600001);  // 10.96.0.1

// The source ranges of the virtual service at port 80 of that address. The prefixes are sorted.
inline RangesElement ranges(const std::vector<const char*>& prefixes) {
  RangesElement element{kVip, Protocol::tcp, 80, {}};
  for (const auto* prefix : prefixes) element.ranges.push_back(*IpPrefix::parse(prefix));
  return element;
}
inline RangesElement range(const char* prefix) {
  return ranges({prefix});
}

struct NftWorld {
  test::FakeNfTables kernel;
  test::FakeFilterTable table{kernel, 1};
  test::FakeFilterTable stranger{kernel, 2};
  NftRuleTable rules{table};
  NftSetTable sets{table};
  std::map<SetKey, ElementSet> known;

  void make_sets(Family family) {
    for (const auto id : kNftSetIds) REQUIRE(sets.ensure(set_spec(id, family)));
    known.clear();
  }
  // Everything, as at the start of the daemon.
  void make_all(Family family, const RuleParameters& parameters = restricted()) {
    make_sets(family);
    const auto made = rules.apply(nft_rules(family, parameters));
    REQUIRE(made);
    CHECK(*made);
  }
  static RuleParameters restricted() { return {.non_empty = {SetId::nft_source_ranges}}; }

  // Somebody else's transaction.
  void meddle(std::vector<netlink::NftOp> ops) {
    const netlink::NftUnit unit{std::move(ops)};
    const auto applied = stranger.apply({&unit, 1}).front();
    if (!applied) FAIL(netlink::to_string(applied.error()));
  }
  std::vector<std::string> listed(SetId id, Family family) {
    const auto list = sets.list(set_name(id, family));
    REQUIRE(list);
    REQUIRE(*list);
    const auto& elements = (*list)->elements;
    known[{family, id}] = {elements.begin(), elements.end()};
    std::vector<std::string> texts;
    for (const auto& element : elements) texts.push_back(to_string(element));
    return texts;
  }
  // As the daemon does it, which knows what it wrote and read.
  std::vector<Status> change(SetId id, Family family, const std::vector<ElementOp>& ops) {
    auto& has = known[{family, id}];
    const std::vector<SetTable::SetOps> all{{set_spec(id, family), ops, &has}};
    auto outcomes = sets.apply_all(all).front();
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (!outcomes[i]) continue;
      for (const auto& replaced : has.replaced_by(ops[i].element)) has.erase(replaced);
      if (ops[i].add)
        has.insert(ops[i].element);
      else
        has.erase(ops[i].element);
    }
    return outcomes;
  }
  void add(SetId id, Family family, const Element& element) {
    REQUIRE(change(id, family, {{true, element}}).front());
  }
  void remove(SetId id, Family family, const Element& element) {
    REQUIRE(change(id, family, {{false, element}}).front());
  }
};

}  // namespace ipvsproxier::ipset
