// The table of nf_tables that keeps connections of Services out of flowtables beside iptables.

#include "ipset/nftables/flow_table.h"

#include <catch2/catch.hpp>

#include "test/fakes/fake_filter_table.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::Family;

struct Beside {
  test::FakeNfTables kernel;
  test::FakeFilterTable nftables{kernel, 1};

  const test::FakeNfTables::Table* table(Family family) const {
    return kernel.find(flow_table_of(family));
  }
  void change(netlink::NftOp op) { REQUIRE(kernel.apply({{std::move(op)}})); }
};

TEST_CASE("flow table: it is made once, for each family, and removed") {
  const auto family = GENERATE(Family::ipv4, Family::ipv6);
  Beside beside;
  CHECK(has_flow_table(beside.nftables, family).value() == false);
  CHECK(remove_flow_table(beside.nftables, family).value() == false);
  REQUIRE(make_flow_table(beside.nftables, family));
  CHECK(has_flow_table(beside.nftables, family).value());
  REQUIRE(beside.table(family));
  const auto& chain = beside.table(family)->chains.at("input");
  CHECK(chain.rules.size() == 1);
  REQUIRE(chain.base);
  CHECK(chain.base->hook == netlink::NftHook::input);
  CHECK(chain.base->priority < 98);  // of IPVS
  CHECK(beside.table(family)->expectations.at("unaccelerated").size == 0);
  const auto generation = beside.kernel.generation();
  REQUIRE(make_flow_table(beside.nftables, family));
  CHECK(beside.kernel.generation() == generation);
  CHECK(remove_flow_table(beside.nftables, family).value());
  CHECK(beside.table(family) == nullptr);
}

TEST_CASE("flow table: what others change of it is made anew") {
  Beside beside;
  const auto key = flow_table_of(Family::ipv4);
  REQUIRE(make_flow_table(beside.nftables, Family::ipv4));
  SECTION("its rule") {
    beside.change(netlink::NftFlushChain{key, "input"});
  }
  SECTION("the table is dormant") {
    beside.kernel.set_flags(key, {.dormant = true});
  }
  SECTION("its object") {
    beside.change(netlink::NftFlushChain{key, "input"});
    beside.change(netlink::NftDeleteExpectation{key, "unaccelerated"});
  }
  CHECK(has_flow_table(beside.nftables, Family::ipv4).value() == false);
  REQUIRE(make_flow_table(beside.nftables, Family::ipv4));
  CHECK(has_flow_table(beside.nftables, Family::ipv4).value());
}

TEST_CASE("flow table: another program's table of this name stays") {
  Beside beside;
  const auto key = flow_table_of(Family::ipv4);
  beside.change(netlink::NftAddTable{key});
  SECTION("it has another chain") {
    beside.change(netlink::NftAddChain{key, {.name = "theirs", .base = {}}});
  }
  SECTION("its socket alone may change it") {
    beside.kernel.set_flags(key, {.owned = true});
  }
  const auto generation = beside.kernel.generation();
  const auto made = make_flow_table(beside.nftables, Family::ipv4);
  REQUIRE_FALSE(made);
  CHECK(made.error().kind == netlink::ErrorKind::already);
  CHECK(netlink::to_string(made.error()).find("another program's") != std::string::npos);
  CHECK(remove_flow_table(beside.nftables, Family::ipv4).value() == false);
  CHECK(beside.kernel.generation() == generation);
}

TEST_CASE("flow table: a kernel without the object says so") {
  Beside beside;
  beside.kernel.has_expectations = false;
  CHECK_FALSE(make_flow_table(beside.nftables, Family::ipv4));
  CHECK(beside.table(Family::ipv4) == nullptr);
}

}  // namespace
}  // namespace ipvsproxier::ipset
