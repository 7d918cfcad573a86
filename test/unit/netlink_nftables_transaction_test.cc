#include "netlink/nftables/nftables_transaction.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cerrno>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "netlink/nftables/nftables_codec.h"

namespace ipvsproxier::netlink {
namespace {

const NftTableKey kUnitTable{NftFamily::ip, "t"};

// A kernel with one map, from bytes to bytes.
struct OneMap {
  std::map<Bytes, Bytes> elements;
  std::set<Bytes> hated;    // a transaction with this key is refused as a whole
  bool silent = false;      // does not answer any more
  std::size_t batches = 0;  // received
  std::size_t largest = 0;  // bytes of the largest

  Status put(std::map<Bytes, Bytes>& to, bool add, const NftElement& element) const {
    const auto data = element.data ? std::get<Bytes>(*element.data) : Bytes();
    const auto found = to.find(element.key);
    if (add && found != to.end() && found->second != data)
      return make_error(Operation::nftables, EEXIST, "");
    if (!add && found == to.end()) return make_error(Operation::nftables, ENOENT, "");
    if (add)
      to[element.key] = data;
    else
      to.erase(found);
    return {};
  }

  BatchOutcome send(std::span<const Bytes> messages) {
    ++batches;
    BatchOutcome outcome;
    if (silent) {
      outcome.whole = Error{ErrorKind::timeout, ETIMEDOUT, ""};
      return outcome;
    }
    auto copy = elements;
    bool whole = false;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      bytes += messages[i].size();
      const bool add = messages[i][4] == 12;  // NFT_MSG_NEWSETELEM
      const auto listed = decode_nft_elements(ByteView(messages[i]).subspan(kMessageHeaderSize));
      REQUIRE(listed);
      for (const auto& element : listed->elements) {
        whole = whole || hated.contains(element.key);
        if (auto status = put(copy, add, element); !status) {
          outcome.refusals.push_back({i, status.error()});
          break;
        }
      }
    }
    largest = std::max(largest, bytes);
    if (!outcome.refusals.empty())
      outcome.whole = outcome.refusals[0].error;
    else if (whole)
      outcome.whole = make_error(Operation::nftables, EMLINK, "");
    else
      elements = std::move(copy);
    return outcome;
  }

  std::vector<Status> apply(const std::vector<NftUnit>& units) {
    return apply_nft_units(units, [this](auto messages) { return send(messages); });
  }
};

Bytes key_of(unsigned number) {
  return {static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number & 0xff), 0, 0};
}

NftOp put(unsigned key, std::uint8_t data) {
  return NftAddElements{kUnitTable, "m", {{.key = key_of(key), .data = Bytes{data}}}};
}

NftOp drop(unsigned key) {
  return NftDeleteElements{kUnitTable, "m", {{.key = key_of(key)}}};
}

TEST_CASE("units that succeed are one transaction") {
  OneMap kernel;
  const auto outcomes = kernel.apply({{{put(1, 1), put(2, 2)}}, {}, {{put(3, 3)}}});
  REQUIRE(outcomes.size() == 3);
  for (const auto& outcome : outcomes) CHECK(outcome);
  CHECK(kernel.elements.size() == 3);
  CHECK(kernel.batches == 1);
  CHECK(kernel.apply({}).empty());
  CHECK(kernel.batches == 1);
}

TEST_CASE("a unit that is refused changes nothing, and the others are applied") {
  OneMap kernel;
  REQUIRE(kernel.apply({{{put(1, 1)}}})[0]);
  const auto outcomes =
      kernel.apply({{{put(5, 5)}}, {{put(6, 6), put(1, 2)}}, {{drop(7)}}, {{put(8, 8)}}});
  CHECK(outcomes[0]);
  REQUIRE_FALSE(outcomes[1]);
  CHECK(outcomes[1].error().kind == ErrorKind::already);
  CHECK(outcomes[1].error().where == "add 1 element to ip t m");
  REQUIRE_FALSE(outcomes[2]);
  CHECK(outcomes[2].error().kind == ErrorKind::missing);
  CHECK(outcomes[3]);
  CHECK(kernel.elements.size() == 3);
  CHECK_FALSE(kernel.elements.contains(key_of(6)));
}

TEST_CASE("a unit that only a refused one had stood in the way of is applied") {
  OneMap kernel;
  const auto outcomes = kernel.apply({{{put(1, 1), drop(9)}}, {{put(1, 2)}}});
  CHECK_FALSE(outcomes[0]);
  CHECK(outcomes[1]);
  CHECK(kernel.elements == std::map<Bytes, Bytes>{{key_of(1), {2}}});
}

TEST_CASE("many units that are refused for what exists cost few transactions") {
  OneMap kernel;
  std::vector<NftUnit> units;
  for (unsigned i = 0; i < 5000; ++i) {
    if (i % 2 == 0) kernel.elements[key_of(i)] = {1};
    units.push_back({{put(i, 2)}});
  }
  const auto outcomes = kernel.apply(units);
  for (unsigned i = 0; i < 5000; ++i) REQUIRE(outcomes[i].has_value() == (i % 2 != 0));
  CHECK(kernel.elements.size() == 5000);
  CHECK(kernel.batches == 3);
}

TEST_CASE("a transaction refused without a name is taken apart") {
  OneMap kernel;
  std::vector<NftUnit> units;
  for (unsigned i = 0; i < 1000; ++i) units.push_back({{put(i, 1)}});
  kernel.hated = {key_of(0), key_of(500), key_of(999)};
  const auto outcomes = kernel.apply(units);
  for (unsigned i = 0; i < 1000; ++i) CHECK(outcomes[i].has_value() == (i % 500 != 0 && i != 999));
  CHECK(kernel.elements.size() == 997);
  CHECK(kernel.batches < 80);
}

TEST_CASE("after a timeout nothing more is sent, and refusals have an end") {
  OneMap kernel;
  kernel.silent = true;
  std::vector<NftUnit> units;
  for (unsigned i = 0; i < 20000; ++i) units.push_back({{put(i, 1)}});
  const auto outcomes = kernel.apply(units);
  REQUIRE(outcomes.size() == units.size());
  CHECK(kernel.batches == 1);
  for (const auto& outcome : outcomes) {
    REQUIRE_FALSE(outcome);
    REQUIRE(outcome.error().kind == ErrorKind::timeout);
  }
  OneMap strict;
  for (unsigned i = 0; i < 20000; ++i) strict.hated.insert(key_of(i));
  const auto refused = strict.apply(units);
  CHECK(strict.batches == kMostNftFailures);
  for (const auto& outcome : refused) REQUIRE_FALSE(outcome);
  CHECK(refused.front().error().kind == ErrorKind::malformed);
  CHECK(refused.back().error().kind == ErrorKind::busy);
}

TEST_CASE("transactions are bounded, and a larger unit goes alone") {
  OneMap kernel;
  std::vector<NftUnit> units;
  for (unsigned i = 0; i < 30000; ++i) units.push_back({{put(i, 1)}});
  for (const auto& outcome : kernel.apply(units)) REQUIRE(outcome);
  CHECK(kernel.largest <= kNftTransactionBytes);
  CHECK(kernel.batches > 1);
  NftAddElements many{kUnitTable, "m", {}};
  for (unsigned i = 0; i < 60000; ++i)
    many.elements.push_back({.key = key_of(i), .data = Bytes{1}});
  kernel.batches = 0;
  REQUIRE(kernel.apply({{{many}}, {{put(1, 1)}}})[0]);
  CHECK(kernel.largest > kNftTransactionBytes);
  CHECK(kernel.batches == 2);
}

TEST_CASE("of random units exactly those are refused that are refused alone") {
  std::mt19937 random(Catch::rngSeed());
  const auto below = [&](unsigned end) { return static_cast<unsigned>(random() % end); };
  for (int round = 0; round < 300; ++round) {
    OneMap kernel;
    for (unsigned i = 0; i < 20; ++i) kernel.elements[key_of(100 * i)] = {1};
    // Units of keys of their own, as the contract wants.
    std::vector<NftUnit> units;
    for (unsigned unit = 0; unit < 20; ++unit) {
      units.emplace_back();
      for (unsigned op = below(4); op > 0; --op) {
        const auto key = 100 * unit + below(2);
        units.back().ops.push_back(below(3) == 0 ? drop(key)
                                                 : put(key, static_cast<std::uint8_t>(below(3))));
      }
      if (below(8) == 0) kernel.hated.insert(key_of(100 * unit + below(2)));
    }
    auto alone = kernel;
    std::vector<bool> expected;
    for (const auto& unit : units) expected.push_back(alone.apply({unit})[0].has_value());
    const auto outcomes = kernel.apply(units);
    for (std::size_t i = 0; i < units.size(); ++i) REQUIRE(outcomes[i].has_value() == expected[i]);
    REQUIRE(kernel.elements == alone.elements);
  }
}

}  // namespace
}  // namespace ipvsproxier::netlink
