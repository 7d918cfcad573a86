// Our sets of nf_tables in the kernel: source ranges that change, a large map, and what a change
// costs beside many virtual services with source ranges.

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/nftables/filter_kernel.h"
#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_table.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/sets/set_catalog.h"
#include "test/kernel/netns.h"
#include "test/support/nft_layouts.h"
#include "test/support/require.h"

namespace ipvsproxier::test {
namespace {

using ipset::ElementOp;
using ipset::NftSetTable;
using ipset::RangesElement;
using ipset::SetId;
using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;
using netlink::Protocol;

struct NftSets {
  std::unique_ptr<ipset::KernelFilterTable> table = require(ipset::KernelFilterTable::open());
  NftSetTable sets{*table};
};

std::vector<IpPrefix> ranges_listed(Family family) {
  NftSets fresh;
  const auto listed = require(fresh.sets.list(ipset::set_name(SetId::nft_source_ranges, family)));
  const auto& elements = listed.value().elements;
  if (elements.empty()) return {};
  REQUIRE(elements.size() == 1);
  return std::get<RangesElement>(elements.front()).ranges;
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
  ipset::ElementSet known;
  for (int step = 0; step < 100; ++step) {
    const auto next = some_prefix(family, random);
    if (wanted.erase(next) == 0) wanted.insert(next);
    // Another one is removed in the same step.
    if (wanted.size() > 8 || (wanted.size() > 1 && random() % 2 == 0)) {
      const auto leaves = *std::next(wanted.begin(), static_cast<long>(random() % wanted.size()));
      if (leaves != next) wanted.erase(leaves);
    }
    const RangesElement now{vip, Protocol::tcp, 80,
                            ipset::outermost_of({wanted.begin(), wanted.end()})};
    std::vector<ElementOp> ops{{true, now}};
    if (now.ranges.empty()) ops = {{false, *known.begin()}};
    const std::vector<ipset::SetTable::SetOps> change{{spec, ops, &known}};
    const auto before = ours.table->requests();
    INFO("step " << step << ": " << ipset::to_string(now));
    REQUIRE(ours.sets.apply_all(change).front().front());
    // A message for what leaves, one for what comes, and two for the rule that compares few ranges.
    if (!known.empty() && !now.ranges.empty()) CHECK(ours.table->requests() - before <= 4);
    REQUIRE(ranges_listed(family) == now.ranges);
    known.clear();
    if (!now.ranges.empty()) known.insert(now);
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

// Processor time of this thread, which is in the kernel while a transaction is committed, in ms.
double thread_time() {
  timespec now{};
  REQUIRE(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

template <typename Step>
double time_of(Step&& step) {
  const auto start = thread_time();
  step();
  return thread_time() - start;
}

// The shortest times that it takes to change one virtual service, and to lead packets somewhere in
// another's table.
struct ChangeTimes {
  double added = 0;
  double removed = 0;
  double foreign = 0;
};

// Our table with virtual services that have source ranges, and a table of another program.
class RestrictedServices {
 public:
  explicit RestrictedServices(std::uint32_t count) {
    for (const auto id : ipset::kNftSetIds)
      REQUIRE(ours_.sets.ensure(ipset::set_spec(id, Family::ipv4)));
    REQUIRE(ipset::NftRuleTable(*ours_.table).apply(rules()));
    std::vector<ElementOp> ranges;
    std::vector<ElementOp> services;
    for (std::uint32_t i = 0; i < count; ++i) {
      auto service = numbered(Family::ipv4, i, ipset::ServiceVerdict::mark);
      service.restricted = true;
      services.push_back({true, service});
      ranges.push_back(
          {true,
           RangesElement{
               service.ip, service.protocol, service.port, {*IpPrefix::parse("203.0.113.0/24")}}});
    }
    apply(SetId::nft_source_ranges, ranges);
    apply(SetId::nft_services, services);
    const netlink::NftUnit other{
        {netlink::NftAddTable{kOther}, netlink::NftAddChain{kOther, {.name = "to", .base = {}}},
         netlink::NftAddChain{
             kOther,
             {.name = "from",
              .base = netlink::NftBase{
                  .type = "filter", .hook = netlink::NftHook::forward, .priority = 0}}}}};
    REQUIRE(ours_.table->apply({&other, 1}).front());
  }

  // As an earlier daemon left it.
  void share_chains() {
    const auto contents = require(ours_.table->list(kOurs));
    const auto unit = as_with_shared_chains(contents.value(), Family::ipv4);
    const auto status = ours_.table->apply({&unit, 1}).front();
    if (!status) FAIL(netlink::to_string(status.error()));
  }
  // As a daemon of today makes it ours.
  void own_chains(std::uint32_t count) {
    ipset::NftRuleTable table(*ours_.table);
    REQUIRE(table.apply(rules()));
    std::vector<ElementOp> services;
    for (std::uint32_t i = 0; i < count; ++i) {
      auto service = numbered(Family::ipv4, i, ipset::ServiceVerdict::mark);
      service.restricted = true;
      services.push_back({true, service});
    }
    apply(SetId::nft_services, services);
    REQUIRE(table.apply(rules()));
    CHECK(require(table.list(rules())) == rules());
  }

  ChangeTimes change(int times) {
    constexpr std::uint32_t kUnrelated = 1 << 20;
    ChangeTimes took;
    const auto one = numbered(Family::ipv4, kUnrelated, ipset::ServiceVerdict::cluster);
    const auto timed_change = [&](bool add) {
      const ElementOp op{add, one};
      return time_of([&] { apply(SetId::nft_services, {&op, 1}); });
    };
    for (int i = 0; i < times; ++i) {
      take_least(took.added, timed_change(true));
      take_least(took.removed, timed_change(false));
      take_least(took.foreign, time_of([&] { jump_elsewhere(); }));
    }
    return took;
  }

  std::size_t steps() {
    return ValidationWalk::steps_of(require(ours_.table->list(kOurs)).value());
  }

 private:
  static void take_least(double& least, double took) {
    if (least == 0 || took < least) least = took;
  }
  void jump_elsewhere() {
    const netlink::NftImmediate jump{.data =
                                         netlink::NftVerdict{netlink::NftVerdictCode::jump, "to"}};
    const netlink::NftUnit unit{
        {netlink::NftAddRule{kOther, {.chain = "from", .expressions = {jump}}}}};
    REQUIRE(ours_.table->apply({&unit, 1}).front());
  }
  static ipset::TableRules rules() {
    return ipset::nft_rules(Family::ipv4,
                            {.detector = *IpPrefix::parse("10.244.0.0/16"),
                             .non_empty = {ipset::kNftSetIds.begin(), ipset::kNftSetIds.end()}});
  }
  void apply(SetId id, std::span<const ElementOp> ops) {
    for (const auto& status : ours_.sets.apply(ipset::set_spec(id, Family::ipv4), ops))
      if (!status) FAIL(netlink::to_string(status.error()));
  }

  static inline const netlink::NftTableKey kOurs = ipset::nft_table_of(Family::ipv4);
  static inline const netlink::NftTableKey kOther{netlink::NftFamily::ip, "other"};
  NftSets ours_;
};

void print(const char* layout, std::uint32_t count, const ChangeTimes& took) {
  std::printf(
      "%u virtual services with source ranges, %s: added %.2f ms, removed %.2f ms, "
      "a jump in another table %.2f ms\n",
      count, layout, took.added, took.removed, took.foreign);
  std::fflush(stdout);
}

TEST_CASE("kernel: a change beside many virtual services with source ranges costs in proportion",
          "[large]") {
  const FreshNetns netns;
  constexpr std::uint32_t kFew = 125;
  constexpr std::uint32_t kMany = 2000;
  const auto times_of = [](RestrictedServices& services, const char* layout, std::uint32_t count,
                           int times = 5) {
    const auto took = services.change(times);
    print(layout, count, took);
    return took;
  };
  ChangeTimes few;
  {
    const FreshNetns of_few;
    RestrictedServices services(kFew);
    few = times_of(services, "chains of their own", kFew);
  }
  RestrictedServices services(kMany);
  const auto many = times_of(services, "chains of their own", kMany);
  // Sixteen times as many, which caches do not hold as well. The square would be 256 times.
  CHECK(many.added < 80 * few.added);
  CHECK(many.foreign < 80 * few.foreign);

  services.share_chains();
  times_of(services, "shared chains", kMany, 1);
  CHECK(services.steps() > kMany * kMany);
  services.own_chains(kMany);
  CHECK(services.steps() < 30 * kMany);
  times_of(services, "chains of their own again", kMany);
}

// For docs/scale.md, by hand: kernel_nftables_tests [figures].
TEST_CASE("kernel: figures of changes beside virtual services with source ranges", "[.][figures]") {
  for (const std::uint32_t count : {0U, 1000U, 4000U, 16000U}) {
    const FreshNetns netns;
    RestrictedServices services(count);
    print("chains of their own", count, services.change(5));
    if (count > 1000) continue;  // the next steps take minutes: their cost is the square of it
    services.share_chains();
    print("shared chains", count, services.change(3));
    const auto took = time_of([&] { services.own_chains(count); });
    std::printf("%u converted: %.0f ms\n", count, took);
    print("chains of their own again", count, services.change(5));
  }
}

}  // namespace
}  // namespace ipvsproxier::test
