// The search of legacy iptables for an address and port: whatever the addresses are, each is found,
// nothing else is, and few rules are met.

#include "ipset/rules/address_search.h"

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

namespace ipvsproxier::ipset {
namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;

constexpr std::array kProtocols = {Protocol::tcp, Protocol::udp, Protocol::sctp};

using Entries = std::set<InClusterEntry>;

IpAddress address(Family family, std::uint64_t number) {
  std::vector<std::uint8_t> bytes(netlink::address_bits(family) / 8U);
  for (std::size_t i = 0; i < bytes.size() && i < 8; ++i)
    bytes[bytes.size() - 1 - i] = static_cast<std::uint8_t>(number >> 8 * i);
  return *IpAddress::from_bytes(family, bytes);
}

// Its only bit that is set is this one, from the left.
IpAddress one_hot(Family family, unsigned bit) {
  std::vector<std::uint8_t> bytes(netlink::address_bits(family) / 8U);
  bytes[bit / 8] = static_cast<std::uint8_t>(0x80U >> bit % 8);
  return *IpAddress::from_bytes(family, bytes);
}

InClusterEntry entry(const IpAddress& vip, Protocol protocol, std::uint16_t port,
                     std::uint16_t to_port) {
  return {vip, protocol, port, vip, to_port};
}

// Walks packets through chains as the kernel does.
class Walker {
 public:
  explicit Walker(std::vector<Chain> chains) : chains_(std::move(chains)) {
    for (const auto& chain : chains_) REQUIRE(by_name_.emplace(chain.name, &chain).second);
  }

  struct Outcome {
    std::optional<DestinationTarget> to;
    std::size_t met = 0;  // rules
  };
  Outcome walk(const IpAddress& destination, Protocol protocol, std::uint16_t port) const {
    Outcome outcome;
    run(chains_.front(), {destination, protocol, port, {}, 0}, outcome);
    return outcome;
  }

 private:
  static bool matches(const Rule& rule, const InClusterEntry& packet) {
    if (!rule.destination || !rule.destination->contains(packet.address)) return false;
    if (rule.protocol && *rule.protocol != packet.protocol) return false;
    return std::ranges::all_of(rule.matches, [&](const Match& match) {
      const auto& ports = std::get<DestinationPortMatch>(match);
      return rule.protocol == ports.protocol && packet.port >= ports.first &&
             packet.port <= ports.last;
    });
  }
  bool run(const Chain& chain, const InClusterEntry& packet, Outcome& outcome) const {
    for (const auto& rule : chain.rules) {
      ++outcome.met;
      if (!matches(rule, packet)) continue;
      if (const auto* to = std::get_if<DestinationTarget>(&rule.target)) {
        outcome.to = *to;
        return true;
      }
      if (run(*by_name_.at(std::get<JumpTarget>(rule.target).chain), packet, outcome)) return true;
    }
    return false;
  }

  std::vector<Chain> chains_;
  std::map<std::string, const Chain*> by_name_;
};

// The most rules that the packets to all of them meet.
std::size_t check_found(Family family, const Entries& entries) {
  const auto chains = search_chains("KUBE-IN-CLUSTER", family, entries);
  CHECK(chains.front().name == "KUBE-IN-CLUSTER");
  for (const auto& chain : chains) CHECK(chain.name.size() <= 28);
  CHECK(chains == search_chains("KUBE-IN-CLUSTER", family, entries));
  const auto back = entries_in(chains);
  CHECK(Entries(back.begin(), back.end()) == entries);
  CHECK(back.size() == entries.size());
  const Walker walker(chains);
  std::size_t most = 0;
  std::size_t wrong = 0;
  for (const auto& one : entries) {
    const auto outcome = walker.walk(one.address, one.protocol, one.port);
    const bool right = outcome.to == DestinationTarget{one.to, one.to_port};
    wrong += right ? 0 : 1;
    most = std::max(most, outcome.met);
    // Neighbours that are not there are not found.
    for (const auto protocol : kProtocols)
      for (const int port : {one.port - 1, one.port + 1}) {
        const auto next = static_cast<std::uint16_t>(port);
        const auto there =
            entries.lower_bound({one.address, protocol, next, IpAddress::any(family), 0});
        const bool is_there = there != entries.end() &&
                              same_key(*there, {one.address, protocol, next, one.address, 0});
        if (walker.walk(one.address, protocol, next).to.has_value() != is_there) ++wrong;
      }
  }
  CHECK(wrong == 0);
  return most;
}

// Twice the logarithm to the base 3 is what thirds cost at worst; one heavy address costs a test.
std::size_t bound(std::size_t entries) {
  std::size_t most = 4;
  for (std::size_t i = 3; i < entries; i *= 3) most += 2;
  return most;
}

void check_bounded(Family family, const Entries& entries) {
  INFO(entries.size() << " entries");
  CHECK(check_found(family, entries) <= bound(entries.size()));
}

TEST_CASE("address search: no address, one, and addresses of the other family") {
  CHECK(search_chains("X", Family::ipv4, {}) == std::vector<Chain>{{.name = "X", .rules = {}}});
  const auto vip = address(Family::ipv4, 0xc0000201);
  const Entries one{entry(vip, Protocol::udp, 53, 54)};
  const auto chains = search_chains("X", Family::ipv4, one);
  REQUIRE(chains.size() == 1);
  REQUIRE(chains.front().rules.size() == 1);
  CHECK(to_string(chains.front().rules.front(), Family::ipv4) ==
        "-d 192.0.2.1/32 -p udp -m udp --dport 53 -j DNAT --to-destination 192.0.2.1:54");
  CHECK(search_chains("X", Family::ipv6, one).front().rules.empty());
  const Entries v6{entry(*IpAddress::parse("2001:db8::1"), Protocol::sctp, 9, 10)};
  CHECK(to_string(search_chains("X", Family::ipv6, v6).front().rules.front(), Family::ipv6) ==
        "-d 2001:db8::1/128 -p sctp -m sctp --dport 9 -j DNAT --to-destination [2001:db8::1]:10");
}

TEST_CASE("address search: two Services that want one address for a moment count once") {
  const auto vip = address(Family::ipv4, 0xc0000201);
  const Entries both{entry(vip, Protocol::tcp, 80, 1), entry(vip, Protocol::tcp, 80, 2)};
  CHECK(search_chains("X", Family::ipv4, both).front().rules.size() == 1);
}

TEST_CASE("address search: tests of four addresses, and of ports of one") {
  Entries entries;
  for (std::uint64_t i = 0; i < 4; ++i)
    entries.insert(entry(address(Family::ipv4, 0xc0000200 + i), Protocol::tcp, 80, 80));
  auto chains = search_chains("X", Family::ipv4, entries);
  REQUIRE(chains.size() == 2);
  const auto text = [&](std::size_t rule) {
    return to_string(chains.front().rules.at(rule), Family::ipv4);
  };
  CHECK(text(0) == "-d 192.0.2.0/31 -j " + chains[1].name);
  CHECK(text(1).starts_with("-d 192.0.2.2/32 -p tcp "));
  CHECK(text(2).starts_with("-d 192.0.2.3/32 -p tcp "));

  entries.clear();
  for (const auto port : std::initializer_list<std::uint16_t>{80, 443, 8080, 8443})
    entries.insert(entry(address(Family::ipv4, 0xc0000200), Protocol::tcp, port, 80));
  chains = search_chains("X", Family::ipv4, entries);
  REQUIRE(chains.size() == 2);
  CHECK(text(0) == "-d 192.0.2.0/32 -p tcp -m tcp --dport 80:443 -j " + chains[1].name);
}

TEST_CASE("address search: every set of addresses is searched in few rules") {
  constexpr std::size_t kMany = 2000;
  for (const auto family : netlink::kFamilies) {
    INFO(to_string(family));
    Entries entries;
    SECTION(fmt::format("{}: a range", to_string(family))) {
      for (std::uint64_t i = 0; i < kMany; ++i)
        entries.insert(entry(address(family, 0x0a000000 + i), Protocol::tcp, 80, 80));
      CHECK(check_found(family, entries) <= 13);
    }
    SECTION(fmt::format("{}: all ports of one address", to_string(family))) {
      for (std::uint16_t i = 0; i < kMany; ++i)
        entries.insert(entry(address(family, 7), kProtocols.at(i % 3), 1000 + i, i));
      check_bounded(family, entries);
    }
    SECTION(fmt::format("{}: one address has most", to_string(family))) {
      for (std::uint16_t i = 0; i < kMany; ++i)
        entries.insert(
            entry(address(family, i % 4 == 0 ? 0x0a000000 + i : 7), Protocol::tcp, 1000 + i, i));
      check_bounded(family, entries);
    }
    SECTION(fmt::format("{}: addresses of one bit", to_string(family))) {
      for (unsigned bit = 0; bit < netlink::address_bits(family); ++bit)
        for (std::uint16_t port = 1; port < 20; ++port)
          entries.insert(entry(one_hot(family, bit), Protocol::udp, port, port));
      check_bounded(family, entries);
    }
    SECTION(fmt::format("{}: thirds of thirds", to_string(family))) {
      // A node of three branches that are alike, of which two are together.
      const std::function<void(std::uint64_t, int)> add = [&](std::uint64_t number, int left) {
        if (left == 0) {
          entries.insert(entry(address(family, number), Protocol::tcp, 80, 80));
          return;
        }
        for (const auto branch : std::initializer_list<std::uint64_t>{0, 2, 3})
          add(number << 2U | branch, left - 1);
      };
      add(0, 7);
      check_bounded(family, entries);
    }
  }
}

TEST_CASE("address search: random addresses, close together or not") {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto family = random() % 2 == 0 ? Family::ipv4 : Family::ipv6;
    const auto bits = 1 + random() % 32;
    const auto ports = 1 + random() % 40;
    const auto wanted = 1 + random() % 600;
    Entries entries;
    for (std::uint32_t i = 0; i < wanted; ++i) {
      const auto vip = address(family, random() & (0xffffffffU >> (32 - bits)));
      const auto protocol = kProtocols.at(random() % 3);
      const auto port = static_cast<std::uint16_t>(1 + random() % ports);
      const auto next = entries.lower_bound({vip, protocol, port, IpAddress::any(family), 0});
      if (next == entries.end() || !same_key(*next, {vip, protocol, port, vip, 0}))
        entries.insert(entry(vip, protocol, port, static_cast<std::uint16_t>(random())));
    }
    check_bounded(family, entries);
  }
}

TEST_CASE("address search: one address more leaves most chains as they are") {
  Entries entries;
  for (std::uint64_t i = 0; i < 2000; ++i)
    entries.insert(entry(address(Family::ipv4, 0x0a000000 + 2 * i), Protocol::tcp, 80, 80));
  const auto before = search_chains("X", Family::ipv4, entries);
  entries.insert(entry(address(Family::ipv4, 0x0a000000 + 777), Protocol::tcp, 80, 80));
  const auto after = search_chains("X", Family::ipv4, entries);
  std::size_t same = 0;
  for (const auto& chain : after)
    if (std::ranges::find(before, chain) != before.end()) ++same;
  INFO(same << " of " << after.size());
  CHECK(same * 2 > after.size());
}

}  // namespace
}  // namespace ipvsproxier::ipset
