// Our sets of nf_tables in the kernel: source ranges that change, and a large map.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/nftables/filter_kernel.h"
#include "ipset/nftables/nft_set_table.h"
#include "ipset/sets/set_catalog.h"
#include "test/kernel/netns.h"
#include "test/support/require.h"

namespace ipvsproxier::test {
namespace {

using ipset::ElementOp;
using ipset::IpPortNetElement;
using ipset::NftSetTable;
using ipset::SetId;
using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;
using netlink::Protocol;

struct NftSets {
  std::unique_ptr<ipset::KernelFilterTable> table = require(ipset::KernelFilterTable::open());
  NftSetTable sets{*table};
};

std::set<IpPrefix> ranges_listed(Family family) {
  NftSets fresh;
  const auto listed = require(fresh.sets.list(ipset::set_name(SetId::nft_source_ranges, family)));
  std::set<IpPrefix> ranges;
  for (const auto& element : listed.value().elements)
    ranges.insert(std::get<IpPortNetElement>(element).net);
  return ranges;
}

// Those that no other one holds.
std::set<IpPrefix> outermost(const std::set<IpPrefix>& ranges) {
  std::set<IpPrefix> result;
  for (const auto& one : ranges) {
    bool inside = false;
    for (const auto& other : ranges)
      inside =
          inside || (other != one && other.length <= one.length && other.contains(one.address));
    if (!inside) result.insert(one);
  }
  return result;
}

// Close to each other, at both ends of the addresses.
IpPrefix some_prefix(Family family, std::mt19937& random) {
  const auto pick = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  const bool first = pick(2) == 0;
  const auto low = static_cast<std::uint8_t>(first ? pick(8) : 255 - pick(8));
  std::vector<std::uint8_t> bytes(netlink::address_bits(family) / 8, first ? 0x00 : 0xff);
  bytes.back() = low;
  const auto bits = netlink::address_bits(family);
  const unsigned length = pick(20) == 0 ? pick(bits) : bits - pick(6);
  return IpPrefix::of(*IpAddress::from_bytes(family, bytes), static_cast<std::uint8_t>(length));
}

TEST_CASE("kernel: source ranges change by what differs, whatever lies in what") {
  const auto family = GENERATE(Family::ipv4, Family::ipv6);
  const auto seed = GENERATE(1U, 2U);
  INFO(netlink::to_string(family) << " seed " << seed);
  std::mt19937 random(seed);
  const FreshNetns netns;
  NftSets ours;
  for (const auto id : ipset::kNftSetIds) REQUIRE(ours.sets.ensure(ipset::set_spec(id, family)));
  const auto vip = *IpAddress::parse(family == Family::ipv4 ? "192.0.2.1" : "2001:db8::1");
  const auto spec = ipset::set_spec(SetId::nft_source_ranges, family);
  std::set<IpPrefix> wanted;
  for (int step = 0; step < 100; ++step) {
    std::vector<ElementOp> ops;
    const bool had_ranges = !wanted.empty();
    const auto next = some_prefix(family, random);
    const bool add = !wanted.contains(next);
    ops.push_back({add, IpPortNetElement{vip, Protocol::tcp, 80, next}});
    if (add)
      wanted.insert(next);
    else
      wanted.erase(next);
    // Another one goes in the same step.
    if (wanted.size() > 8 || (wanted.size() > 1 && random() % 2 == 0)) {
      const auto goes = *std::next(wanted.begin(), static_cast<long>(random() % wanted.size()));
      if (goes != next) {
        ops.push_back({false, IpPortNetElement{vip, Protocol::tcp, 80, goes}});
        wanted.erase(goes);
      }
    }
    const auto before = ours.table->requests();
    for (const auto& status : ours.sets.apply(spec, ops)) REQUIRE(status);
    INFO("step " << step);
    std::string told;
    for (const auto& op : ops) told += (op.add ? " +" : " -") + ipset::to_string(op.element);
    for (const auto& one : outermost(wanted)) told += " " + one.to_string();
    INFO(told);
    // A message for what goes, one for what comes, and two for the rule that compares few ranges.
    if (had_ranges && !wanted.empty()) CHECK(ours.table->requests() - before <= 4);
    REQUIRE(ranges_listed(family) == outermost(wanted));
  }
}

ipset::ServiceElement numbered(Family family, std::uint32_t number, ipset::ServiceVerdict verdict) {
  auto address = *IpAddress::parse(family == Family::ipv4 ? "10.0.0.0" : "fd00::");
  std::vector<std::uint8_t> bytes(address.bytes().begin(), address.bytes().end());
  for (std::size_t i = 0; i < 3; ++i)
    bytes[bytes.size() - 1 - i] = static_cast<std::uint8_t>(number >> 8 * i);
  return {*IpAddress::from_bytes(family, bytes), Protocol::tcp, 80, verdict};
}

// Prints how long it took.
template <typename Fn>
void timed(const std::string& what, Fn&& step) {
  const auto start = std::chrono::steady_clock::now();
  step();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::printf("%s: %.2f ms\n", what.c_str(), took.count());
}

TEST_CASE("kernel: a map of 100,000 virtual services is filled, read back and changed", "[large]") {
  constexpr std::uint32_t kMany = 100'000;
  const auto family = GENERATE(Family::ipv4, Family::ipv6);
  const auto in_words = std::string(netlink::to_string(family)) + ", 100,000 elements: ";
  const FreshNetns netns;
  NftSets ours;
  for (const auto id : ipset::kNftSetIds) REQUIRE(ours.sets.ensure(ipset::set_spec(id, family)));
  const auto spec = ipset::set_spec(SetId::nft_services, family);
  std::vector<ElementOp> ops;
  for (std::uint32_t i = 0; i < kMany; ++i)
    ops.push_back({true, numbered(family, i, ipset::ServiceVerdict::cluster)});
  timed(in_words + "fill", [&] {
    for (const auto& status : ours.sets.apply(spec, ops))
      if (!status) FAIL(netlink::to_string(status.error()));
  });
  timed(in_words + "read back", [&] {
    const auto listed = require(ours.sets.list(spec.name));
    CHECK(listed.value().elements.size() == kMany);
  });
  const auto before = ours.table->requests();
  timed(in_words + "add one", [&] {
    const ElementOp one{true, numbered(family, kMany, ipset::ServiceVerdict::keep)};
    REQUIRE(ours.sets.apply(spec, {&one, 1}).front());
  });
  CHECK(ours.table->requests() == before + 1);
  timed(in_words + "remove one", [&] {
    const ElementOp one{false, numbered(family, 7, ipset::ServiceVerdict::cluster)};
    REQUIRE(ours.sets.apply(spec, {&one, 1}).front());
  });
  CHECK(ours.table->requests() == before + 2);
  timed(in_words + "give one another verdict", [&] {
    const ElementOp one{true, numbered(family, 8, ipset::ServiceVerdict::mark)};
    REQUIRE(ours.sets.apply(spec, {&one, 1}).front());
  });
  const auto after = require(ours.sets.list(spec.name));
  const auto has = [&](std::uint32_t number, ipset::ServiceVerdict verdict) {
    return std::ranges::binary_search(after.value().elements,
                                      ipset::Element(numbered(family, number, verdict)));
  };
  CHECK(after.value().elements.size() == kMany);
  CHECK(has(kMany, ipset::ServiceVerdict::keep));
  CHECK_FALSE(has(7, ipset::ServiceVerdict::cluster));
  CHECK(has(8, ipset::ServiceVerdict::mark));
  CHECK(has(9, ipset::ServiceVerdict::cluster));
}

}  // namespace
}  // namespace ipvsproxier::test
