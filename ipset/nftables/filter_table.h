#pragma once

// FilterTable: interface to tables of nf_tables with maps, sets, chains and rules in one network
// namespace: the packet filter where legacy iptables and IP sets (ipset/rules, ipset/sets) are not
// there. NftSetTable and NftRuleTable keep in it what the planner asks for. One thread.
// Implementations: KernelFilterTable (filter_kernel.h), FakeFilterTable (test/fakes).

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
  std::map<std::string, FilterChain> chains;
  std::map<std::string, FilterSet> sets;
};

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

  // The table at one moment; nullopt if there is none of this name.
  virtual netlink::Result<std::optional<FilterContents>> list(const netlink::NftTableKey& table);

  // The same in parts: begin_list(), then next_list() until a part has `last`. The first part has
  // the chains with their rules, and the sets without elements; each further part one set with its
  // elements. A part is the table at one moment; between the parts the table may be changed. A set
  // that is gone by then is left out. Beginning another listing ends an unfinished one.
  struct Part {
    FilterContents contents;
    bool last = true;
    // Whether somebody else changed any table since the listing began, as far as the number of
    // transactions tells; NftMonitor tells which table.
    bool disturbed = false;
  };
  virtual netlink::Result<std::optional<Part>> begin_list(const netlink::NftTableKey& table) = 0;
  virtual netlink::Result<Part> next_list() = 0;

  // The chains with their rules and the sets without their elements: the first part of a listing,
  // which ends an unfinished one. nullopt if there is no table of this name.
  netlink::Result<std::optional<FilterContents>> list_frame(const netlink::NftTableKey& table);
  // The elements of one set at one moment, sorted; nullopt if the table has no set of this name.
  virtual netlink::Result<std::optional<std::vector<netlink::NftElement>>> list_elements(
      const netlink::NftTableKey& table, const std::string& set) = 0;

  // The number by which notifications name our own changes (NftMonitor).
  virtual std::uint32_t port() const = 0;

  // Number of requests sent to the kernel so far; 0 if not counted. Cheap.
  virtual std::uint64_t requests() const { return 0; }

 protected:
  static netlink::Error no_filter_listing() {
    return {netlink::ErrorKind::busy, EBUSY, "no listing of a table has begun"};
  }
};

}  // namespace ipvsproxier::ipset
