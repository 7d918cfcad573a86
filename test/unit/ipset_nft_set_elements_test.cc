#include "ipset/nftables/nft_set_elements.h"

#include <algorithm>
#include <random>

#include <catch2/catch.hpp>

#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ipset {
namespace {

IpAddress any_address(std::mt19937& random, Family family) {
  std::array<std::uint8_t, 16> bytes{};
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  const auto size = netlink::address_bits(family) / 8U;
  return IpAddress::from_bytes(family, std::span(bytes).first(size)).value();
}

Element any_element(std::mt19937& random, SetKind kind, Family family) {
  constexpr std::array kAll{Protocol::tcp, Protocol::udp, Protocol::sctp};
  const auto address = any_address(random, family);
  const auto port = static_cast<std::uint16_t>(random());
  if (kind == SetKind::nft_ports) return PortElement{port};
  if (kind != SetKind::nft_services) return IpElement{address};
  return ServiceElement{address, kAll.at(random() % 3), port,
                        static_cast<ServiceVerdict>(random() % 3)};
}

TEST_CASE("nf_tables: an element is what its key and data say") {
  std::mt19937 random(1);
  for (const auto family : netlink::kFamilies)
    for (const auto id :
         {SetId::nft_vips, SetId::nft_hairpins, SetId::nft_services, SetId::nft_health_ports}) {
      const auto spec = set_spec(id, family);
      for (int i = 0; i < 200; ++i) {
        const auto element = any_element(random, spec.kind, family);
        const auto written = nft_element_of(spec, element);
        REQUIRE(written);
        CHECK(written->key.size() == nft_set_of(spec).key_bytes);
        CHECK(element_of(spec, *written) == element);
      }
    }
}

TEST_CASE("nf_tables: keys that are none of ours, and foreign verdicts") {
  const auto services = set_spec(SetId::nft_services, Family::ipv4);
  const ServiceElement element{IpAddress::v4(0x0a000001), Protocol::tcp, 80, ServiceVerdict::keep};
  auto written = *nft_element_of(services, element);
  written.data = netlink::NftVerdict{netlink::NftVerdictCode::drop, ""};
  auto foreign = element;
  foreign.verdict = ServiceVerdict::foreign;
  CHECK(element_of(services, written) == Element(foreign));
  written.data = netlink::NftVerdict{netlink::NftVerdictCode::go_to, "elsewhere"};
  CHECK(element_of(services, written) == Element(foreign));
  for (const std::size_t place : {5U, 10U}) {  // the padding of protocol and port
    auto odd = written;
    odd.key[place] = 1;
    CHECK_FALSE(element_of(services, odd));
  }
  auto icmp = written;
  icmp.key[4] = 1;
  CHECK_FALSE(element_of(services, icmp));
  icmp.key.clear();
  CHECK_FALSE(element_of(services, icmp));
  const auto hairpins = set_spec(SetId::nft_hairpins, Family::ipv4);
  CHECK_FALSE(element_of(hairpins, {.key = {10, 0, 0, 1, 10, 0, 0, 2}, .key_end = {}, .data = {}}));
  CHECK_FALSE(nft_element_of(hairpins, PortElement{1}));
  CHECK_FALSE(nft_element_of(set_spec(SetId::nft_vips, Family::ipv6), IpElement{IpAddress::v4(1)}));
}

TEST_CASE("nf_tables: a restricted virtual service is told by the name of its chain") {
  std::mt19937 random(2);
  for (const auto family : netlink::kFamilies)
    for (int i = 0; i < 200; ++i) {
      const RestrictedService service{any_address(random, family), Protocol::sctp,
                                      static_cast<std::uint16_t>(random())};
      CHECK(restricted_of(ranges_name(service)) == service);
    }
  for (const auto* name :
       {"", "ranges_", "ranges_1.2.3.4_tcp", "ranges_1.2.3.4_tcp_99999", "ranges_1.2.3.4_icmp_1",
        "ranges_x_tcp_1", "ranges__tcp_1", "input", "ranges_1.2.3.4_tcp_080", "ranges__"})
    CHECK_FALSE(restricted_of(name));
}

// Whether the address is in one of the intervals, as the kernel looks it up: the last key that is
// not behind it decides.
bool holds_address(const std::vector<netlink::NftElement>& intervals, const IpAddress& address) {
  const auto bytes = address.bytes();
  const netlink::Bytes wanted(bytes.begin(), bytes.end());
  const netlink::NftElement* last = nullptr;
  for (const auto& element : intervals)
    if (element.key <= wanted &&
        (last == nullptr ||
         std::pair(last->key, !last->interval_end) < std::pair(element.key, !element.interval_end)))
      last = &element;
  return last != nullptr && !last->interval_end;
}

TEST_CASE("nf_tables: intervals hold the addresses of their prefixes and no others") {
  std::mt19937 random(3);
  for (const auto family : netlink::kFamilies)
    for (int round = 0; round < 200; ++round) {
      std::vector<IpPrefix> prefixes;
      for (auto count = random() % 8; count > 0; --count) {
        // Near each other, so that some are parts of others, or follow each other.
        const auto bits = netlink::address_bits(family);
        const auto base = prefixes.empty() || random() % 2 == 0
                              ? any_address(random, family)
                              : prefixes[random() % prefixes.size()].address;
        prefixes.push_back(IpPrefix::of(base, static_cast<std::uint8_t>(1 + random() % bits)));
      }
      const auto intervals = intervals_of(prefixes);
      const auto read = prefixes_of(intervals, family);
      REQUIRE(read);
      for (const auto& prefix : *read) {
        CHECK(std::ranges::find(prefixes, prefix) != prefixes.end());
        CHECK(std::ranges::count_if(*read, [&](const IpPrefix& other) {
                return other.contains(prefix.address);
              }) == 1);
      }
      std::vector<IpAddress> tried{any_address(random, family)};
      for (const auto& prefix : prefixes) tried.push_back(prefix.address);
      for (const auto& element : intervals)
        tried.push_back(IpAddress::from_bytes(family, element.key).value());
      for (const auto& address : tried)
        CHECK(holds_address(intervals, address) ==
              std::ranges::any_of(
                  prefixes, [&](const IpPrefix& prefix) { return prefix.contains(address); }));
    }
}

TEST_CASE("nf_tables: intervals that somebody else wrote") {
  const auto at = [](std::uint8_t last, bool end) {
    return netlink::NftElement{
        .key = {10, 0, 0, last}, .key_end = {}, .interval_end = end, .data = {}};
  };
  // nft(8) begins with the end of nothing.
  const std::vector usual{
      netlink::NftElement{.key = {0, 0, 0, 0}, .key_end = {}, .interval_end = true, .data = {}},
      at(4, false), at(8, true)};
  CHECK(prefixes_of(usual, Family::ipv4) == std::vector{*IpPrefix::parse("10.0.0.4/30")});
  CHECK_FALSE(prefixes_of(std::vector{at(4, false), at(9, true)}, Family::ipv4));
  CHECK_FALSE(prefixes_of(std::vector{at(4, false), at(8, true)}, Family::ipv6));
  CHECK(prefixes_of({}, Family::ipv4)->empty());
  const std::vector half{netlink::NftElement{.key = {128, 0, 0, 0}, .key_end = {}, .data = {}}};
  CHECK(prefixes_of(half, Family::ipv4) == std::vector{*IpPrefix::parse("128.0.0.0/1")});
}

}  // namespace
}  // namespace ipvsproxier::ipset
