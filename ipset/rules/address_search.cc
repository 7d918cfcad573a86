#include "ipset/rules/address_search.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;

using Keys = std::vector<const InClusterEntry*>;

// With so few left, a test would cost as much as the rules that it saves.
constexpr std::size_t kMostAtEnd = 3;

// A test, and the keys for which it holds: neighbours.
struct Test {
  IpPrefix prefix;
  std::optional<DestinationPortMatch> ports;
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

// The bits that both addresses begin with.
std::uint8_t common_bits(const IpAddress& one, const IpAddress& other) {
  const auto left = one.bytes();
  const auto right = other.bytes();
  unsigned bits = 0;
  for (std::size_t i = 0; i < left.size(); ++i, bits += 8) {
    const unsigned differing = left[i] ^ right[i];
    if (differing == 0) continue;
    while ((differing & (0x80U >> bits % 8U)) == 0) ++bits;
    break;
  }
  return static_cast<std::uint8_t>(bits);
}

bool bit_of(const IpAddress& address, std::uint8_t bit) {
  return (address.bytes()[bit / 8U] & (0x80U >> bit % 8U)) != 0;
}

Rule rule_of(const Test& test) {
  Rule rule;
  rule.destination = test.prefix;
  if (!test.ports) return rule;
  rule.protocol = test.ports->protocol;
  rule.matches.emplace_back(*test.ports);
  return rule;
}

IpPrefix host(const IpAddress& address) {
  return IpPrefix::of(address, netlink::address_bits(address.family()));
}

Rule last_rule(const InClusterEntry& entry) {
  Test test;
  test.prefix = host(entry.address);
  test.ports = {.protocol = entry.protocol, .first = entry.port, .last = entry.port};
  auto rule = rule_of(test);
  rule.target = DestinationTarget{.address = entry.to, .port = entry.to_port};
  return rule;
}

// Of all keys, which begin with the prefix of all; the smaller distance from one half wins.
Test address_test(const Keys& keys) {
  const auto half_off = [&](const Test& test) {
    const auto twice = 2 * test.size();
    return twice > keys.size() ? twice - keys.size() : keys.size() - twice;
  };
  Test test;
  test.end = keys.size();
  // Down the larger branch, until it has no more than half of them.
  while (true) {
    const auto& first = keys[test.begin]->address;
    const auto& last = keys[test.end - 1]->address;
    const auto bits = common_bits(first, last);
    test.prefix = IpPrefix::of(first, bits);
    if (2 * test.size() <= keys.size() || first == last) return test;
    const auto at = [&](std::size_t i) { return keys.begin() + static_cast<std::ptrdiff_t>(i); };
    const auto middle = static_cast<std::size_t>(
        std::partition_point(at(test.begin), at(test.end),
                             [&](const auto* key) { return !bit_of(key->address, bits); }) -
        keys.begin());
    Test below = test;
    if (middle - test.begin >= test.end - middle)
      below.end = middle;
    else
      below.begin = middle;
    below.prefix =
        IpPrefix::of(keys[below.begin]->address,
                     common_bits(keys[below.begin]->address, keys[below.end - 1]->address));
    if (test.size() < keys.size() && half_off(test) <= half_off(below)) return test;
    test = below;
  }
}

// Keys of one address are sorted by protocol and port. One protocol has a third of them or more.
Test port_test(const Keys& keys) {
  Test best;
  for (std::size_t begin = 0; begin < keys.size();) {
    const auto protocol = keys[begin]->protocol;
    auto end = begin;
    while (end < keys.size() && keys[end]->protocol == protocol) ++end;
    const auto some = std::min(end - begin, keys.size() / 2);
    if (some > best.size())
      best = {.prefix = host(keys[begin]->address),
              .ports = DestinationPortMatch{.protocol = protocol,
                                            .first = keys[begin]->port,
                                            .last = keys[begin + some - 1]->port},
              .begin = begin,
              .end = begin + some};
    begin = end;
  }
  return best;
}

class Search {
 public:
  explicit Search(std::string_view first) : first_(first) {}

  std::vector<Chain> run(Keys keys) {
    names_.insert(std::string(first_));
    fill(std::string(first_), std::move(keys));
    return std::move(chains_);
  }

 private:
  void fill(std::string name, Keys keys) {
    const auto place = chains_.size();
    chains_.push_back({.name = std::move(name), .rules = {}});
    std::vector<Rule> rules;
    while (keys.size() > kMostAtEnd) {
      const bool one_address = keys.front()->address == keys.back()->address;
      const auto test = one_address ? port_test(keys) : address_test(keys);
      const auto begin = keys.begin() + static_cast<std::ptrdiff_t>(test.begin);
      const auto end = keys.begin() + static_cast<std::ptrdiff_t>(test.end);
      Keys below(begin, end);
      keys.erase(begin, end);
      auto rule = rule_of(test);
      if (below.size() == 1) {
        rules.push_back(last_rule(*below.front()));
        continue;
      }
      auto chain = name_of(test);
      rule.target = JumpTarget{.chain = chain};
      rules.push_back(std::move(rule));
      fill(std::move(chain), std::move(below));
    }
    for (const auto* key : keys) rules.push_back(last_rule(*key));
    chains_[place].rules = std::move(rules);
  }

  // A name has at most 28 bytes, fewer than the prefix of an IPv6 address.
  std::string name_of(const Test& test) {
    auto text = test.prefix.to_string();
    if (test.ports)
      text += fmt::format(" {} {} {}", netlink::to_lower_string(test.ports->protocol),
                          test.ports->first, test.ports->last);
    while (true) {
      auto name = fmt::format("{}-{}", first_, short_hash(text));
      // Somebody may look for addresses with one hash.
      if (names_.insert(name).second) return name;
      text += "'";
    }
  }

  // 55 bits of FNV-1a.
  static std::string short_hash(std::string_view text) {
    std::uint64_t hash = 14695981039346656037U;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    std::string result;
    for (std::size_t i = 0; i < kHashLetters; ++i, hash >>= 5U)
      result += kHashAlphabet[hash % kHashAlphabet.size()];
    return result;
  }

  std::string_view first_;
  std::vector<Chain> chains_;
  std::set<std::string> names_;
};

std::optional<InClusterEntry> entry_of(const Rule& rule) {
  const auto* to = std::get_if<DestinationTarget>(&rule.target);
  if (to == nullptr || !rule.destination || !rule.protocol || rule.matches.size() != 1)
    return std::nullopt;
  const auto* port = std::get_if<DestinationPortMatch>(&rule.matches.front());
  const auto& [address, length] = *rule.destination;
  if (port == nullptr || port->first != port->last ||
      length != netlink::address_bits(address.family()))
    return std::nullopt;
  return InClusterEntry{address, *rule.protocol, port->first, to->address, to->port};
}

}  // namespace

bool same_key(const InClusterEntry& one, const InClusterEntry& other) {
  return one.address == other.address && one.protocol == other.protocol && one.port == other.port;
}

std::vector<Chain> search_chains(std::string_view first, Family family,
                                 const std::set<InClusterEntry>& entries) {
  Keys keys;
  for (const auto& entry : entries)
    if (entry.address.family() == family && (keys.empty() || !same_key(*keys.back(), entry)))
      keys.push_back(&entry);
  return Search(first).run(std::move(keys));
}

std::vector<InClusterEntry> entries_in(const std::vector<Chain>& chains) {
  std::vector<InClusterEntry> entries;
  for (const auto& chain : chains) {
    if (!is_made_for_addresses(chain.name)) continue;
    for (const auto& rule : chain.rules)
      if (const auto entry = entry_of(rule)) entries.push_back(*entry);
  }
  return entries;
}

}  // namespace ipvsproxier::ipset
