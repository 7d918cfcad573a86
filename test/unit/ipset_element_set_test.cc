#include "ipset/sets/element_set.h"

#include <random>
#include <set>

#include <catch2/catch.hpp>

namespace ipvsproxier::ipset {
namespace {

// What both must hold after the same random insertions and removals: the values, in their order.
template <typename Set, typename Value, typename MakeValue>
void check_like_a_set(MakeValue make_value, int steps, int removals_in_ten) {
  Set tested;
  std::set<Value> model;
  std::mt19937 random(static_cast<std::uint32_t>(steps + removals_in_ten));
  for (int step = 0; step < steps; ++step) {
    const Value value = make_value(random);
    REQUIRE(tested.contains(value) == model.contains(value));
    if (random() % 10 < static_cast<unsigned>(removals_in_ten))
      REQUIRE(tested.erase(value) == model.erase(value));
    else
      REQUIRE(tested.insert(value) == model.insert(value).second);
    REQUIRE(tested.size() == model.size());
  }
  CHECK(std::equal(tested.begin(), tested.end(), model.begin(), model.end()));
  Set again;
  for (auto it = model.rbegin(); it != model.rend(); ++it) again.insert(*it);
  CHECK(again == tested);
  for (const auto& value : model) again.erase(value);
  CHECK(again.empty());
  CHECK(again.begin() == again.end());
}

TEST_CASE("sorted chunks are a set") {
  const auto [range, removals] =
      GENERATE(table<unsigned, int>({{20, 5}, {3000, 1}, {3000, 5}, {100'000, 0}, {500, 7}}));
  const auto make = [r = range](std::mt19937& random) { return static_cast<int>(random() % r); };
  check_like_a_set<netlink::SortedChunks<int>, int>(make, 20'000, removals);
}

TEST_CASE("sorted chunks take what comes in order, from either end") {
  const int step = GENERATE(1, -1);
  netlink::SortedChunks<int> chunks;
  for (int i = 0; i < 5000; ++i) REQUIRE(chunks.insert(i * step));
  CHECK(chunks.size() == 5000);
  CHECK(std::is_sorted(chunks.begin(), chunks.end()));
  CHECK(*chunks.lower_bound(step > 0 ? 700 : -700) == 700 * step);
  CHECK_FALSE(chunks.insert(17 * step));
}

TEST_CASE("sorted chunks are merged") {
  netlink::SortedChunks<int> even;
  for (int i = 0; i < 3000; i += 2) even.insert(i);
  netlink::SortedChunks<int> threes;
  for (int i = 0; i < 3000; i += 3) threes.insert(i);
  even.merge(threes);
  CHECK(even.size() == 1500 + 1000 - 500);
  CHECK(std::is_sorted(even.begin(), even.end()));
  CHECK((even.contains(9) && even.contains(10) && !even.contains(11)));
}

IpAddress address_of(std::mt19937& random, bool v6) {
  std::array<std::uint8_t, 16> bytes{};
  bytes[0] = static_cast<std::uint8_t>(random() % 3 * 120);
  bytes[v6 ? 15 : 3] = static_cast<std::uint8_t>(random());
  const auto size = v6 ? 16U : 4U;
  return IpAddress::from_bytes(v6 ? Family::ipv6 : Family::ipv4, std::span(bytes).first(size))
      .value();
}

Element element_of(SetKind kind, std::mt19937& random) {
  constexpr Protocol kProtocols[] = {Protocol::tcp, Protocol::udp, Protocol::sctp,
                                     static_cast<Protocol>(1)};
  const bool v6 = random() % 3 == 0;
  const auto ip = address_of(random, v6);
  const auto protocol = kProtocols[random() % 4];
  const auto port = static_cast<std::uint16_t>(random() % 2 * 65'000 + random() % 3);
  const auto length = static_cast<std::uint8_t>(random() % (v6 ? 129 : 33));
  switch (kind) {
    case SetKind::hash_ip:
    case SetKind::nft_addresses:
    case SetKind::nft_hairpins:
      return IpElement{ip};
    case SetKind::hash_ip_port:
      return IpPortElement{ip, protocol, port};
    case SetKind::hash_ip_port_ip:
      return IpPortIpElement{ip, protocol, port, address_of(random, v6)};
    case SetKind::hash_ip_port_net:
      return IpPortNetElement{ip, protocol, port, IpPrefix::of(address_of(random, v6), length)};
    case SetKind::nft_source_ranges:
      return RangesElement{ip, protocol, port, {IpPrefix::of(address_of(random, v6), length)}};
    case SetKind::nft_services:
      return ServiceElement{ip, protocol, port,
                            kServiceVerdicts[random() % kServiceVerdicts.size()]};
    case SetKind::nft_destinations:
      return DestinationElement{ip, protocol, port, address_of(random, v6),
                                static_cast<std::uint16_t>(random())};
    case SetKind::bitmap_port:
    case SetKind::nft_ports:
      break;
  }
  return PortElement{static_cast<std::uint16_t>(random())};
}

TEST_CASE("the elements of one set, of either family, are a set of elements") {
  const auto kind = GENERATE(SetKind::hash_ip, SetKind::hash_ip_port, SetKind::hash_ip_port_ip,
                             SetKind::hash_ip_port_net, SetKind::bitmap_port, SetKind::nft_services,
                             SetKind::nft_destinations, SetKind::nft_source_ranges);
  const auto make = [k = kind](std::mt19937& random) { return element_of(k, random); };
  check_like_a_set<ElementSet, Element>(make, 4000, 3);
}

TEST_CASE("an element of a map replaces those with its key, one of a set none") {
  std::mt19937 random(3);
  for (const auto kind : {SetKind::hash_ip_port, SetKind::hash_ip_port_ip, SetKind::nft_services,
                          SetKind::nft_destinations, SetKind::nft_source_ranges}) {
    ElementSet set;
    std::set<Element> all;
    for (int i = 0; i < 3000; ++i) {
      const auto element = element_of(kind, random);
      set.insert(element);
      all.insert(element);
    }
    std::size_t replaced = 0;
    for (int i = 0; i < 200; ++i) {
      const auto element = element_of(kind, random);
      std::vector<Element> expected;
      std::ranges::copy_if(all, std::back_inserter(expected),
                           [&](const Element& one) { return replaces(element, one); });
      CHECK(set.replaced_by(element) == expected);
      replaced += expected.size();
    }
    CHECK((replaced != 0) == (kind == SetKind::nft_services || kind == SetKind::nft_destinations ||
                              kind == SetKind::nft_source_ranges));
  }
}

TEST_CASE("a packed element is its element, and takes 16 bytes") {
  CHECK(sizeof(PackedElement) == 16);
  std::mt19937 random(1);
  int packed = 0;
  for (const auto kind : {SetKind::hash_ip, SetKind::hash_ip_port, SetKind::hash_ip_port_ip,
                          SetKind::hash_ip_port_net, SetKind::bitmap_port, SetKind::nft_services,
                          SetKind::nft_destinations})
    for (int i = 0; i < 500; ++i) {
      const auto element = element_of(kind, random);
      const auto small = PackedElement::pack(element);
      if (!small) continue;
      ++packed;
      REQUIRE(small->unpack() == element);
    }
  CHECK(packed > 1000);
  CHECK_FALSE(PackedElement::pack(IpElement{*IpAddress::parse("::")}));
  CHECK_FALSE(PackedElement::pack(
      IpPortIpElement{IpAddress(), Protocol::tcp, 1, *IpAddress::parse("fd00::1")}));
}

}  // namespace
}  // namespace ipvsproxier::ipset
