#pragma once

// DumpedTables: tables of nf_tables as a kernel listed them, from a file of test/data/nft. They can
// be listed, not changed.

#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/nftables/filter_table.h"
#include "netlink/nftables/nftables_codec.h"
#include "test/support/hex.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {

class DumpedTables final : public ipset::FilterTable {
 public:
  explicit DumpedTables(const std::string& name) {
    std::ifstream file(data_path("data/nft/" + name + ".dump"));
    REQUIRE(file);
    for (std::string kind, digits; file >> kind >> digits;) take(kind, from_hex(digits));
  }

  std::vector<netlink::Status> apply(std::span<const netlink::NftUnit> units) override {
    return std::vector<netlink::Status>(
        units.size(), netlink::Error{netlink::ErrorKind::denied, 0, "a dump does not change"});
  }
  netlink::Result<std::vector<netlink::NftTableKey>> list_tables() override {
    std::vector<netlink::NftTableKey> tables;
    for (const auto& [key, contents] : contents_) tables.push_back(key);
    return tables;
  }
  netlink::Result<std::optional<netlink::NftExpectation>> find_expectation(
      const netlink::NftTableKey& /*table*/, const std::string& /*name*/) override {
    return std::optional<netlink::NftExpectation>{};
  }
  netlink::Result<std::vector<netlink::NftFlowRule>> list_flow_rules() override {
    return std::vector<netlink::NftFlowRule>{};
  }
  netlink::Result<std::optional<ipset::FilterContents>> list_frame(
      const netlink::NftTableKey& table) override {
    const auto found = contents_.find(table);
    if (found == contents_.end()) return std::optional<ipset::FilterContents>{};
    auto frame = found->second;
    for (auto& [name, set] : frame.sets) set.elements.clear();
    return std::optional(std::move(frame));
  }
  netlink::Result<std::optional<netlink::NftSetSpec>> find_set(const netlink::NftTableKey& table,
                                                               const std::string& set) override {
    const auto found = contents_.find(table);
    if (found == contents_.end() || !found->second.sets.contains(set))
      return std::optional<netlink::NftSetSpec>{};
    return std::optional(found->second.sets.at(set).spec);
  }
  netlink::Result<std::optional<ElementsPart>> begin_elements(const netlink::NftTableKey& table,
                                                              const std::string& set) override {
    const auto found = contents_.find(table);
    if (found == contents_.end() || !found->second.sets.contains(set))
      return std::optional<ElementsPart>{};
    return std::optional(ElementsPart{.elements = found->second.sets.at(set).elements});
  }
  netlink::Result<ElementsPart> next_elements() override { return no_filter_listing(); }
  std::uint32_t port() const override { return 1; }

 private:
  template <typename T>
  static T read(netlink::Result<T> decoded) {
    REQUIRE(decoded);
    return *std::move(decoded);
  }
  void take(const std::string& kind, const netlink::Bytes& payload) {
    if (kind == "table") contents_[read(netlink::decode_nft_table(payload))];
    if (kind == "chain") {
      auto one = read(netlink::decode_nft_chain(payload));
      contents_[one.table].chains[one.chain.name].base = one.chain.base;
    }
    if (kind == "set") {
      auto one = read(netlink::decode_nft_set(payload));
      contents_[one.table].sets[one.set.name].spec = one.set;
    }
    if (kind == "rule") {
      auto one = read(netlink::decode_nft_rule(payload));
      auto& rules = contents_[one.table].chains[one.rule.chain].rules;
      rules.push_back({.handle = one.handle, .expressions = std::move(one.rule.expressions)});
    }
    if (kind == "elements") {
      auto one = read(netlink::decode_nft_elements(payload));
      auto& elements = contents_[one.table].sets[one.set].elements;
      elements.insert(elements.end(), one.elements.begin(), one.elements.end());
    }
  }

  std::map<netlink::NftTableKey, ipset::FilterContents> contents_;
};

}  // namespace ipvsproxier::test
