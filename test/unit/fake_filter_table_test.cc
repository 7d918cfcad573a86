#include "test/fakes/fake_filter_table.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "test/contract/filter_contract.h"

namespace ipvsproxier::test {
namespace {

using namespace netlink;

struct FakeFilterWorld {
  FakeNfTables kernel;
  FakeFilterTable ours{kernel, 1};
  FakeFilterTable theirs{kernel, 2};

  ipset::FilterTable& table() { return ours; }
  ipset::FilterTable& other() { return theirs; }
};

TEST_CASE("fake: tables of nf_tables keep the contract") {
  check_filter_contents_contract<FakeFilterWorld>();
}

TEST_CASE("fake: nf_tables refuses what the kernel refuses") {
  check_filter_refusal_contract<FakeFilterWorld>();
}

TEST_CASE("fake: listings of nf_tables in parts keep the contract") {
  check_filter_parts_contract<FakeFilterWorld>();
}

TEST_CASE("fake: a unit that fails late leaves the table as it was") {
  FakeFilterWorld world;
  must_apply(world.ours, {filter_frame(),
                          {{add_element("services", leads(1, "keep")),
                            add_element("vips", {.key = filter_address(1)})}}});
  const auto before = filter_contents(world.ours);
  auto undone = filter_frame();
  undone.ops.insert(
      undone.ops.begin(),
      {add_element("services", leads(2, "mark")), delete_element("services", filter_key(1)),
       NftFlushSet{kFilterTable, "vips"}, NftDeleteTable{kFilterTable}});
  undone.ops.push_back(NftDeleteChain{kFilterTable, "absent"});
  CHECK(refused(world.ours, undone) == ErrorKind::missing);
  const auto after = filter_contents(world.ours);
  CHECK(after.sets.at("services").elements == before.sets.at("services").elements);
  CHECK(after.sets.at("vips").elements == before.sets.at("vips").elements);
  REQUIRE(after.chains.at("mark").rules.size() == before.chains.at("mark").rules.size());
  CHECK(after.chains.at("mark").rules[0].handle == before.chains.at("mark").rules[0].handle);
}

TEST_CASE("fake: units and listings of nf_tables fail as told") {
  FakeFilterWorld world;
  must_apply(world.ours, {filter_frame()});
  world.ours.faults.fail("add 1 element to ip contract vips",
                         Error{ErrorKind::denied, 1, "told so"}, 1);
  const NftUnit unit{{add_element("vips", {.key = filter_address(1)})}};
  CHECK(refused(world.ours, unit) == ErrorKind::denied);
  CHECK(filter_elements(world.ours, "vips").empty());
  world.ours.faults.lose("add 1 element to ip contract vips", 1);
  CHECK(refused(world.ours, unit) == ErrorKind::overrun);
  CHECK(filter_elements(world.ours, "vips").size() == 1);
  world.ours.faults.fail("list ip contract", Error{ErrorKind::timeout, 110, ""}, 1);
  CHECK_FALSE(world.ours.list(kFilterTable));
}

}  // namespace
}  // namespace ipvsproxier::test
