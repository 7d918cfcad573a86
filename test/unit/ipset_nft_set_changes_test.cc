// NftSetTable over nf_tables in memory: listings in parts, and changes of several sets.

#include <algorithm>
#include <functional>

#include "test/support/nft_world.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::ErrorKind;

using Texts = std::vector<std::string>;

// All parts of a listing, `between` called behind the first.
std::vector<Element> in_parts(NftSetTable& sets, SetId id, const std::function<void()>& between) {
  std::vector<Element> elements;
  for (bool whole = false; !whole;) {
    auto part = sets.begin_list(set_name(id, Family::ipv4));
    REQUIRE(part);
    REQUIRE(*part);
    elements = std::move((*part)->set.elements);
    between();
    for (whole = (*part)->last; !whole;) {
      auto next = sets.next_list();
      if (!next) {
        CHECK(next.error().kind == ErrorKind::busy);
        break;
      }
      elements.insert(elements.end(), next->set.elements.begin(), next->set.elements.end());
      whole = next->last;
    }
  }
  std::ranges::sort(elements);
  return elements;
}

TEST_CASE("nf_tables: sets are listed in parts, and at once where changes go on and on") {
  NftWorld world;
  world.make_all(Family::ipv4);
  for (std::uint32_t i = 0; i < 100; ++i)
    world.add(SetId::nft_vips, Family::ipv4, IpElement{IpAddress::v4(0x0a600001 + i)});
  const auto name = set_name(SetId::nft_vips, Family::ipv4);
  const auto whole = world.sets.list(name).value().value().elements;
  CHECK(whole.size() == 100);
  CHECK(in_parts(world.sets, SetId::nft_vips, [] {}) == whole);
  int changes = 0;
  const auto disturbed = in_parts(world.sets, SetId::nft_vips, [&] {
    world.add(SetId::nft_vips, Family::ipv4,
              IpElement{IpAddress::v4(0x0a700001 + static_cast<std::uint32_t>(++changes))});
  });
  CHECK(changes == 3);
  CHECK(disturbed.size() == 102);  // at once, before the third
  CHECK(in_parts(world.sets, SetId::nft_vips, [] {}).size() == 103);
  CHECK(world.sets.next_list().error().kind == ErrorKind::busy);
}

TEST_CASE("nf_tables: source ranges are listed in parts, also while they change") {
  NftWorld world;
  world.make_all(Family::ipv4);
  const auto range_of = [](std::uint32_t service) {
    return RangesElement{
        IpAddress::v4(0x0a600001 + service), Protocol::tcp, 80, {*IpPrefix::parse("192.0.2.0/24")}};
  };
  for (std::uint32_t i = 0; i < 200; ++i)
    world.add(SetId::nft_source_ranges, Family::ipv4, range_of(i));
  int begun = 0;
  const auto listed = in_parts(world.sets, SetId::nft_source_ranges, [&] {
    ++begun;
    world.add(SetId::nft_source_ranges, Family::ipv4, range_of(200));
  });
  CHECK(begun == 1);
  CHECK(listed.size() == 200);  // the one that came meanwhile is not listed
  CHECK(in_parts(world.sets, SetId::nft_source_ranges, [] {}).size() == 201);
  world.remove(SetId::nft_source_ranges, Family::ipv4, range_of(7));
  CHECK(in_parts(world.sets, SetId::nft_source_ranges, [] {}).size() == 200);
}

TEST_CASE("nf_tables: verdicts of many virtual services are replaced") {
  NftWorld world;
  world.make_all(Family::ipv4);
  const auto service = [](std::uint32_t number, ServiceVerdict verdict) {
    return ServiceElement{IpAddress::v4(0x0a600001 + number), Protocol::tcp, 80, verdict};
  };
  std::vector<ElementOp> keep;
  std::vector<ElementOp> mark;
  for (std::uint32_t i = 0; i < 50; ++i) {
    keep.push_back({true, service(i, ServiceVerdict::keep)});
    mark.push_back({true, service(i, ServiceVerdict::mark)});
  }
  for (const auto& outcome : world.change(SetId::nft_services, Family::ipv4, keep)) CHECK(outcome);
  for (const auto& outcome : world.change(SetId::nft_services, Family::ipv4, mark)) CHECK(outcome);
  const auto texts = world.listed(SetId::nft_services, Family::ipv4);
  CHECK(texts.size() == 50);
  CHECK(std::ranges::all_of(texts, [](const auto& text) { return text.ends_with("mark"); }));
}

TEST_CASE("nf_tables: operations on several sets are one transaction, but for what is refused") {
  NftWorld world;
  world.make_all(Family::ipv4);
  const ServiceElement served{kVip, Protocol::tcp, 80, ServiceVerdict::keep};
  const std::vector<ElementOp> restriction{{true, ranges({"192.0.2.0/24", "198.51.100.0/24"})}};
  const std::vector<ElementOp> services{{true, served}};
  const std::vector<ElementOp> vips{{true, IpElement{kVip}},
                                    {false, IpElement{IpAddress::v4(0x0a600009)}},
                                    {true, PortElement{80}}};
  const auto spec = [](SetId id) { return set_spec(id, Family::ipv4); };
  const std::vector<SetTable::SetOps> all{{spec(SetId::nft_source_ranges), restriction},
                                          {spec(SetId::nft_services), services},
                                          {spec(SetId::nft_vips), vips}};
  const auto generation = world.kernel.generation();
  const auto outcomes = world.sets.apply_all(all);
  REQUIRE(outcomes.size() == 3);
  for (const auto& outcome : outcomes[0]) CHECK(outcome);
  CHECK(outcomes[1][0]);
  CHECK(outcomes[2][0]);
  CHECK(outcomes[2][1]);  // it is not there
  CHECK(outcomes[2][2].error().kind == ErrorKind::malformed);
  CHECK(world.listed(SetId::nft_source_ranges, Family::ipv4) ==
        Texts{"10.96.0.1,tcp:80,192.0.2.0/24,198.51.100.0/24"});
  CHECK(world.listed(SetId::nft_vips, Family::ipv4) == Texts{"10.96.0.1"});
  // The fake applies a unit after the other, each as a transaction.
  CHECK(world.kernel.generation() == generation + 3);

  // The ranges go as they came, with all else.
  std::vector<ElementOp> gone = restriction;
  for (auto& op : gone) op.add = false;
  const std::vector<SetTable::SetOps> back{{spec(SetId::nft_source_ranges), gone}};
  const auto removed = world.sets.apply_all(back);
  for (const auto& outcome : removed.front()) CHECK(outcome);
  CHECK_FALSE(world.kernel.find(kV4)->chains.contains("ranges_10.96.0.1_tcp_80"));
}

TEST_CASE("nf_tables: source ranges come back after somebody deleted the table") {
  NftWorld world;
  world.make_all(Family::ipv4);
  world.add(SetId::nft_source_ranges, Family::ipv4, range("192.0.2.0/24"));
  world.meddle({netlink::NftDeleteTable{kV4}});
  const bool reads = GENERATE(true, false);
  if (reads) CHECK_FALSE(*world.sets.begin_list(set_name(SetId::nft_source_ranges, Family::ipv4)));
  world.make_all(Family::ipv4);
  world.add(SetId::nft_source_ranges, Family::ipv4, range("192.0.2.0/24"));
  CHECK(world.listed(SetId::nft_source_ranges, Family::ipv4) ==
        Texts{"10.96.0.1,tcp:80,192.0.2.0/24"});
  CHECK(world.kernel.find(kV4)->chains.contains("ranges_10.96.0.1_tcp_80"));
}

}  // namespace
}  // namespace ipvsproxier::ipset
