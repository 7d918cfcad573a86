#pragma once

// FilterTable: interface to tables of nf_tables with maps, sets, chains and rules in one network
// namespace: the packet filter where legacy iptables and IP sets (ipset/rules, ipset/sets) are not
// there. NftSetTable and NftRuleTable keep in it what the planner asks for. One thread.
// Implementations: KernelFilterTable (filter_kernel.h), FakeFilterTable (test/fakes).

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "netlink/nftables/nftables_types.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

struct FilterRule {
  std::uint64_t handle = 0;  // the kernel's number of the rule, to delete it by
  std::vector<netlink::NftExpression> expressions;
};

struct FilterChain {
  std::optional<netlink::NftBase> base;
  std::vector<FilterRule> rules;  // in order
};

struct FilterSet {
  netlink::NftSetSpec spec;
  std::vector<netlink::NftElement> elements;  // sorted
};

// What one table holds.
struct FilterContents {
  netlink::NftTableFlags flags = {};
  std::map<std::string, FilterChain> chains;
  std::map<std::string, FilterSet> sets;
};

// What removes the rules that look into a set, which keep it from going.
std::vector<netlink::NftOp> removal_of_lookups(const netlink::NftTableKey& table,
                                               const FilterContents& contents,
                                               const std::string& set);

class FilterTable {
 public:
  virtual ~FilterTable() = default;

  // Applies the units, each whole or not at all; one Status for each. A unit that fails does not
  // stop the others. Units of one call must not need one another; see apply_nft_units()
  // (netlink/nftables/nftables_transaction.h) for what is sent when.
  //
  // Errors of an operation: `already` for an element that exists with other data, `missing` for
  // what is not there, `busy` for a chain or set that is in use, `malformed` for values that make
  // no sense and for verdicts that go in circles, `unsupported` for verdicts that lead to a base
  // chain and for a kernel without nf_tables.
  virtual std::vector<netlink::Status> apply(std::span<const netlink::NftUnit> units) = 0;

  // The tables of all families, whoever made them.
  virtual netlink::Result<std::vector<netlink::NftTableKey>> list_tables() = 0;

  // The chains with their rules and the sets without their elements, at one moment; nullopt if
  // there is no table of this name. `busy`: others changed it during each of several listings.
  virtual netlink::Result<std::optional<FilterContents>> list_frame(
      const netlink::NftTableKey& table) = 0;

  // The same of a table of others, which may be of any size; E2BIG, `unsupported`: it has more
  // rules than that.
  virtual netlink::Result<std::optional<FilterContents>> list_small_frame(
      const netlink::NftTableKey& table, std::size_t most_rules);

  // The same of a table of others, with those rules alone that `keep` takes. Without `keep` the
  // rules are not read at all: a table may have some hundred thousand.
  using KeepRule = std::function<bool(const std::string& chain, const FilterRule& rule)>;
  virtual netlink::Result<std::optional<FilterContents>> list_chains(
      const netlink::NftTableKey& table, const KeepRule& keep);

  // How a set was made; nullopt if the table has none of this name. One request.
  virtual netlink::Result<std::optional<netlink::NftSetSpec>> find_set(
      const netlink::NftTableKey& table, const std::string& set) = 0;

  // An object "ct expectation"; nullopt if the table has none of this name. One request.
  virtual netlink::Result<std::optional<netlink::NftExpectation>> find_expectation(
      const netlink::NftTableKey& table, const std::string& name) = 0;

  // One rule of each flowtable, in tables of ip, ip6 and inet, to which rules add connections. One
  // request where there is no flowtable; then the rules of each table that has one are read, but
  // not more of them than kMostRulesSearched: a rule behind these has no chain.
  static constexpr std::size_t kMostRulesSearched = 20'000;
  virtual netlink::Result<std::vector<netlink::NftFlowRule>> list_flow_rules() = 0;

  // The elements of one set in parts: begin_elements(), then next_elements() until a part has
  // `last`; nullopt if the table has no set of this name. Everything else is allowed between the
  // parts. All parts together are the set at one moment: if we changed the set before the last
  // part, or others its table, the listing ends with `busy`. Changes of other tables do not matter.
  // Beginning another listing ends an unfinished one.
  struct ElementsPart {
    std::vector<netlink::NftElement> elements;  // not sorted
    bool last = true;
  };
  virtual netlink::Result<std::optional<ElementsPart>> begin_elements(
      const netlink::NftTableKey& table, const std::string& set) = 0;
  virtual netlink::Result<ElementsPart> next_elements() = 0;

  // The same at once, sorted. `busy` after several listings.
  netlink::Result<std::optional<std::vector<netlink::NftElement>>> list_elements(
      const netlink::NftTableKey& table, const std::string& set);

  // The frame, and then each of its sets; nullopt if there is no table of this name.
  netlink::Result<std::optional<FilterContents>> list(const netlink::NftTableKey& table);

  // The number by which notifications name our own changes (NftMonitor).
  virtual std::uint32_t port() const = 0;

  // Number of requests sent to the kernel so far; 0 if not counted. Cheap.
  virtual std::uint64_t requests() const { return 0; }

 protected:
  static netlink::Error too_many_rules(std::size_t most) {
    return {netlink::ErrorKind::unsupported, E2BIG, fmt::format("more than {} rules", most)};
  }
  static netlink::Error no_filter_listing() {
    return {netlink::ErrorKind::busy, EBUSY, "no listing of a set has begun"};
  }
};

}  // namespace ipvsproxier::ipset
