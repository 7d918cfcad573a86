// Tables of our name: ours, somebody else's, and ours with what somebody else did to it.

#include "ipset/nftables/nft_table_claim.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "test/support/nft_world.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::ErrorKind;
using netlink::NftAddChain;
using netlink::NftAddRule;
using netlink::NftAddSet;
using netlink::NftAddTable;
using netlink::NftBase;
using netlink::NftDeleteChain;
using netlink::NftDeleteSet;
using netlink::NftFlushChain;
using netlink::NftHook;
using netlink::NftImmediate;
using netlink::NftVerdict;
using netlink::NftVerdictCode;

TableClaim claim_in(NftWorld& world) {
  return claim_of(world.table.list_frame(kV4).value(), Family::ipv4);
}

NftBase their_base(std::int32_t priority = 0) {
  return {.type = "filter", .hook = NftHook::input, .priority = priority, .accepts = false};
}

netlink::NftSetSpec their_set(const std::string& name) {
  return {.name = name,
          .key_type = netlink::nft_type({netlink::NftType::inet_service}),
          .key_bytes = 2,
          .fields = {}};
}

NftAddRule jump_to(const std::string& from, const std::string& to) {
  return {kV4, {from, {NftImmediate{.data = NftVerdict{NftVerdictCode::jump, to}}}}};
}

TEST_CASE("nf_tables: whose a table of our name is") {
  NftWorld world;
  CHECK(claim_in(world) == TableClaim::absent);
  world.meddle({NftAddTable{kV4}});
  CHECK(claim_in(world) == TableClaim::empty);
  SECTION("the first thing that a start makes") {
    REQUIRE(world.sets.ensure(set_spec(SetId::nft_vips, Family::ipv4)));
    CHECK(claim_in(world) == TableClaim::ours);
  }
  SECTION("its rules and sets apart from one") {
    world.make_all(Family::ipv4);
    for (const auto* chain : {"input", "prerouting", "output", "postrouting"})
      world.meddle({NftFlushChain{kV4, chain}, NftDeleteChain{kV4, chain}});
    CHECK(claim_in(world) == TableClaim::ours);
  }
  SECTION("somebody else's chain of a common name") {
    world.meddle({NftAddChain{kV4, {"input", their_base()}}});
    CHECK(claim_in(world) == TableClaim::foreign);
  }
  SECTION("somebody else's set of a name of ours") {
    world.meddle({NftAddSet{kV4, their_set("vips")}});
    CHECK(claim_in(world) == TableClaim::foreign);
  }
  SECTION("a process keeps it for itself") {
    world.make_all(Family::ipv4);
    world.kernel.set_flags(kV4, {.owned = true});
    CHECK(claim_in(world) == TableClaim::foreign);
  }
}

TEST_CASE("nf_tables: somebody else's table of our name is left alone, and one error says so") {
  NftWorld world;
  const NftAddChain chain{kV4, {"input", their_base()}};
  world.meddle({NftAddTable{kV4}, chain, NftAddSet{kV4, their_set("vips")}});
  const auto before = world.kernel.generation();
  const auto wanted = nft_rules(Family::ipv4, {});
  CHECK(world.rules.list(wanted)->chains.empty());
  std::vector<netlink::Error> errors;
  for (const auto id : kNftSetIds) {
    CHECK_FALSE(world.sets.list(set_name(id, Family::ipv4)).value());
    CHECK_FALSE(world.sets.begin_list(set_name(id, Family::ipv4)).value());
    const auto made = world.sets.ensure(set_spec(id, Family::ipv4));
    REQUIRE_FALSE(made);
    errors.push_back(made.error());
  }
  const auto applied = world.rules.apply(wanted);
  REQUIRE_FALSE(applied);
  errors.push_back(applied.error());
  for (const auto& error : errors)
    CHECK(to_string(error) == to_string(foreign_table(Family::ipv4)));
  CHECK(errors.front().kind == ErrorKind::already);
  CHECK(to_string(errors.front()).find("nft delete table ip kube-ipvs") != std::string::npos);
  CHECK(world.rules.remove({.family = Family::ipv4, .table = Table::kube_ipvs}).value() ==
        RemovedRules{});
  CHECK(world.kernel.generation() == before);
  // The other family is none the worse.
  world.make_all(Family::ipv6);
}

TEST_CASE("nf_tables: an empty table of our name is used") {
  NftWorld world;
  world.meddle({NftAddTable{kV4}});
  world.make_all(Family::ipv4);
  CHECK(claim_in(world) == TableClaim::ours);
}

TEST_CASE("nf_tables: our table is woken") {
  NftWorld world;
  world.make_all(Family::ipv4);
  const auto wanted = nft_rules(Family::ipv4, NftWorld::restricted());
  world.kernel.set_flags(kV4, {.dormant = true});
  CHECK(world.rules.list(wanted)->chains.empty());
  CHECK(world.rules.apply(wanted).value());
  CHECK_FALSE(world.kernel.find(kV4)->flags.dormant);
  CHECK(world.rules.list(wanted).value() == wanted);
}

TEST_CASE("nf_tables: chains and sets of others in our table are removed") {
  NftWorld world;
  world.make_all(Family::ipv4);
  world.add(SetId::nft_source_ranges, Family::ipv4, range("10.0.0.0/8"));
  const auto wanted = nft_rules(Family::ipv4, NftWorld::restricted());
  const std::vector<netlink::NftOp> theirs{
      NftAddSet{kV4, their_set("theirs")}, NftAddChain{kV4, {"drop_all", their_base(-200)}},
      NftAddChain{kV4, {"one", std::nullopt}}, NftAddChain{kV4, {"two", std::nullopt}},
      jump_to("one", "two")};
  world.meddle(theirs);
  auto found = world.rules.list(wanted);
  REQUIRE(found);
  CHECK_FALSE(holds(*found, wanted));
  SECTION("led to by a rule of theirs in a chain of ours") {
    world.meddle({jump_to("to_vip", "one")});
  }
  SECTION("that nothing leads to") {}
  CHECK(world.rules.apply(wanted).value());
  CHECK(world.rules.list(wanted).value() == wanted);
  CHECK_FALSE(world.kernel.find(kV4)->sets.contains("theirs"));
  // Those of source ranges are none of the catalogue, and ours.
  CHECK(world.listed(SetId::nft_source_ranges, Family::ipv4).size() == 1);
}

TEST_CASE("nf_tables: a set of ours whose type somebody changed is made anew") {
  NftWorld world;
  world.make_all(Family::ipv4);
  world.add(SetId::nft_vips, Family::ipv4, IpElement{kVip});
  const auto spec = set_spec(SetId::nft_vips, Family::ipv4);
  const auto wanted = nft_rules(Family::ipv4, NftWorld::restricted());
  world.meddle(
      {NftFlushChain{kV4, "input"}, NftFlushChain{kV4, "output"}, NftFlushChain{kV4, "prerouting"},
       NftFlushChain{kV4, "svc_cluster"}, NftDeleteSet{kV4, "vips"},
       NftAddSet{kV4, their_set("vips")},
       NftAddRule{
           kV4,
           {"to_vip",
            {netlink::NftPayload{netlink::nft_register(0), netlink::NftHeader::transport, 2, 2},
             netlink::NftLookup{
                 .set = "vips", .source = netlink::nft_register(0), .target = std::nullopt}}}}});
  CHECK(claim_in(world) == TableClaim::ours);
  CHECK_FALSE(world.sets.list(spec.name).value());
  CHECK_FALSE(world.sets.begin_list(spec.name).value());
  REQUIRE(world.sets.ensure(spec));
  world.add(SetId::nft_vips, Family::ipv4, IpElement{kVip});
  CHECK(world.listed(SetId::nft_vips, Family::ipv4).size() == 1);
  CHECK(world.rules.apply(wanted).value());
  CHECK(world.rules.list(wanted).value() == wanted);
}

}  // namespace
}  // namespace ipvsproxier::ipset
