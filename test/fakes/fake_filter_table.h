#pragma once

// FakeNfTables: nf_tables of one network namespace in memory, and FakeFilterTable: a socket to it.
// It refuses what the kernel refuses of what our packet filter uses; overlapping intervals it does
// not know.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ipset/nftables/filter_table.h"
#include "test/fakes/fault_injector.h"

namespace ipvsproxier::test {

class FakeNfTables {
 public:
  // Applies a unit whole or not at all.
  netlink::Status apply(const netlink::NftUnit& unit);

  struct Set {
    netlink::NftSetSpec spec;
    // By key; the end of an interval may be the key of the next one.
    std::map<std::pair<netlink::Bytes, bool>, netlink::NftElement> elements;
  };
  struct Table {
    netlink::NftTableFlags flags;
    std::map<std::string, netlink::NftExpectation> expectations;
    std::map<std::string, ipset::FilterChain> chains;
    std::map<std::string, Set> sets;
    // Chains to which elements lead, and how many of each set do.
    std::map<std::string, std::map<std::string, std::size_t>> led;
  };
  // nullptr if there is none of this name.
  const Table* find(const netlink::NftTableKey& table) const;
  // As another program may have made the table, which must exist.
  void set_flags(const netlink::NftTableKey& table, netlink::NftTableFlags flags) {
    tables_.at(table).flags = flags;
  }
  std::vector<netlink::NftTableKey> tables() const;
  std::uint32_t generation() const { return generation_; }

  bool has_expectations = true;  // of a kernel without them the object is refused

 private:
  friend class FakeNfUnit;

  std::map<netlink::NftTableKey, Table> tables_;
  std::uint64_t last_handle_ = 0;
  std::uint32_t generation_ = 1;
};

class FakeFilterTable final : public ipset::FilterTable {
 public:
  FakeFilterTable(FakeNfTables& kernel, std::uint32_t port) : kernel_(kernel), port_(port) {}

  std::vector<netlink::Status> apply(std::span<const netlink::NftUnit> units) override;
  netlink::Result<std::vector<netlink::NftTableKey>> list_tables() override;
  netlink::Result<std::optional<ipset::FilterContents>> list_frame(
      const netlink::NftTableKey& table) override;
  netlink::Result<std::optional<netlink::NftSetSpec>> find_set(const netlink::NftTableKey& table,
                                                               const std::string& set) override;
  netlink::Result<std::optional<netlink::NftExpectation>> find_expectation(
      const netlink::NftTableKey& table, const std::string& name) override;
  netlink::Result<std::vector<netlink::NftFlowRule>> list_flow_rules() override;
  netlink::Result<std::optional<ElementsPart>> begin_elements(const netlink::NftTableKey& table,
                                                              const std::string& set) override;
  netlink::Result<ElementsPart> next_elements() override;
  std::uint32_t port() const override { return port_; }
  std::uint64_t requests() const override { return requests_; }

  // Elements in a part of a listing.
  static constexpr std::size_t kAPart = 16;

  // Consulted before every unit, by what its first operation says, and before every listing of a
  // frame, "list ip kube-ipvs", and of a set, "list ip kube-ipvs vips".
  FaultInjector faults;

 private:
  // A set as it was, and how many of its elements have been listed.
  struct Listing {
    netlink::NftTableKey table;
    std::string set;
    std::vector<netlink::NftElement> whole;
    std::size_t listed = 0;
  };

  std::vector<netlink::NftElement> elements_of(const netlink::NftTableKey& table,
                                               const std::string& set) const;

  FakeNfTables& kernel_;
  std::uint32_t port_;
  std::uint64_t requests_ = 0;
  std::optional<Listing> listing_;
};

}  // namespace ipvsproxier::test
