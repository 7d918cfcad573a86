#include "ipset/nftables/nft_set_elements.h"

#include <algorithm>
#include <random>

#include <catch2/catch.hpp>

#include "ipset/nftables/foreign_steps.h"
#include "ipset/nftables/rule_decoding.h"
#include "ipset/nftables/rule_expressions.h"
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
  const auto protocol = kAll.at(random() % 3);
  if (kind == SetKind::nft_destinations)
    return DestinationElement{address, protocol, port, any_address(random, family),
                              static_cast<std::uint16_t>(random())};
  if (kind != SetKind::nft_services) return IpElement{address};
  const auto all = all_of(address, protocol, port);
  return all.at(1 + random() % (all.size() - 1));
}

TEST_CASE("nf_tables: an element is what its key and data say") {
  std::mt19937 random(1);
  for (const auto family : netlink::kFamilies)
    for (const auto id : kNftSetIds) {
      if (id == SetId::nft_source_ranges) continue;
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

TEST_CASE("nf_tables: few source ranges are compared, many looked up, all addresses let in") {
  const auto texts = [](const char* vip, const std::vector<IpPrefix>& ranges) {
    const RestrictedService service{*IpAddress::parse(vip), Protocol::tcp, 80};
    std::vector<std::string> all;
    for (const auto& rule : rules_of_ranges(service, ranges))
      all.push_back(to_nft_string(rule, service.address.family()));
    return all;
  };
  using Texts = std::vector<std::string>;
  const auto prefix = [](const char* text) { return *IpPrefix::parse(text); };
  CHECK(texts("192.0.2.1", {prefix("10.0.0.0/8")}) == Texts{"ip saddr != 10.0.0.0/8 drop"});
  CHECK(texts("192.0.2.1",
              {prefix("198.51.100.7/32"), prefix("10.1.0.0/16"), prefix("10.0.0.0/8")}) ==
        Texts{"ip saddr != 10.0.0.0/8 ip saddr != 198.51.100.7 drop"});
  CHECK(texts("fd00::1", {prefix("fd01::/64"), prefix("fd02::7/128")}) ==
        Texts{"ip6 saddr != fd01::/64 ip6 saddr != fd02::7 drop"});
  CHECK(texts("192.0.2.1", {prefix("10.0.0.0/8"), prefix("0.0.0.0/0")}).empty());
  CHECK(texts("192.0.2.1", {}) == Texts{"ip saddr != @ranges_192.0.2.1_tcp_80 drop"});
  std::vector<IpPrefix> many;
  for (std::uint32_t i = 0; i < 16; ++i)
    many.push_back(IpPrefix::of(IpAddress::v4(0x0a000000 + i * 512), 24));
  CHECK(texts("192.0.2.1", many).front().starts_with("ip saddr != 10.0.0.0/24 ip saddr != "));
  many.push_back(prefix("198.51.100.0/24"));
  CHECK(texts("192.0.2.1", many) == Texts{"ip saddr != @ranges_192.0.2.1_tcp_80 drop"});
}

TEST_CASE("nf_tables: the most comparisons of a rule are expressions that the kernel takes") {
  constexpr std::size_t kMostExpressions = 128;  // NFT_RULE_MAXEXPRS of nf_tables_api.c
  const RestrictedService service{*IpAddress::parse("fd00::1"), Protocol::tcp, 80};
  std::vector<IpPrefix> ranges;
  for (const char* text : {"fd01", "fd02", "fd03", "fd04", "fd05", "fd06", "fd07", "fd08", "fd09",
                           "fd0a", "fd0b", "fd0c", "fd0d", "fd0e", "fd0f", "fd10"})
    ranges.push_back(*IpPrefix::parse(std::string(text) + "::/65"));
  const auto rules = rules_of_ranges(service, ranges);
  REQUIRE(rules.size() == 1);
  const auto expressions = expressions_of(rules.front(), Family::ipv6);
  CHECK(expressions.size() == 49);
  CHECK(expressions.size() <= kMostExpressions);
  CHECK(rule_in(expressions, Family::ipv6) == rules.front());
}

TEST_CASE("nf_tables: a restricted virtual service leads to chains of its own") {
  ServiceElement element{IpAddress::v4(0x0a000001), Protocol::tcp, 80, ServiceVerdict::keep, true};
  CHECK(chain_of(element) == "ranges_10.0.0.1_tcp_80");
  element.verdict = ServiceVerdict::mark;
  CHECK(chain_of(element) == "svc_mark_10.0.0.1_tcp_80");
  element.verdict = ServiceVerdict::cluster;
  CHECK(chain_of(element) == "svc_cluster_10.0.0.1_tcp_80");
  CHECK(to_string(Element(element)) == "10.0.0.1,tcp:80,cluster,restricted");
  // The chain of another virtual service is none of ours.
  const auto services = set_spec(SetId::nft_services, Family::ipv4);
  auto written = *nft_element_of(services, element);
  written.data = netlink::NftVerdict{netlink::NftVerdictCode::go_to, "ranges_10.0.0.2_tcp_80"};
  element = {element.ip, element.protocol, element.port, ServiceVerdict::foreign};
  CHECK(element_of(services, written) == Element(element));
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
  const auto destinations = set_spec(SetId::nft_in_cluster, Family::ipv4);
  auto sent = *nft_element_of(destinations, DestinationElement{element.ip, element.protocol,
                                                               element.port, IpAddress(), 80});
  sent.data = netlink::NftVerdict{netlink::NftVerdictCode::drop, ""};
  CHECK_FALSE(element_of(destinations, sent));
  sent.data = netlink::Bytes{10, 0, 0, 1};
  CHECK_FALSE(element_of(destinations, sent));
  CHECK_FALSE(
      nft_element_of(destinations, DestinationElement{element.ip, element.protocol, element.port,
                                                      IpAddress::any(Family::ipv6), 80}));
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
      for (const auto& chain : chains_of(service))
        CHECK(restricted_chain_of(to_string(chain)) == chain);
    }
  for (const auto* name :
       {"", "ranges_", "ranges_1.2.3.4_tcp", "ranges_1.2.3.4_tcp_99999", "ranges_1.2.3.4_icmp_1",
        "ranges_x_tcp_1", "ranges__tcp_1", "input", "ranges_1.2.3.4_tcp_080", "ranges__"})
    CHECK_FALSE(restricted_of(name));
  for (const auto* name : {"", "svc_mark", "svc_mark_", "svc_keep_1.2.3.4_tcp_80",
                           "svc_mark_1.2.3.4_tcp", "svc_mark_ranges", "ranges_1.2.3.4_tcp_80"})
    CHECK_FALSE(restricted_chain_of(name));
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
