#pragma once

// IptcRuleTable: the kernel's legacy tables of the calling thread's network namespace, through
// libiptc (libip4tc for IPv4, libip6tc for IPv6). libiptc has static state: all objects of this
// class must be used on one thread. Blocks while another program holds the xtables lock.
//
// Errors name the table and the family, and if possible the missing set, extension and module, or
// the missing capability. After an error the table is unchanged.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "ipset/rules/rule_table.h"

namespace ipvsproxier::ipset {

struct IptcSettings {
  std::string lock_path = "/run/xtables.lock";
  std::chrono::milliseconds lock_wait{5000};
  // Called with "ip_tables" or "ip6_tables" if the kernel does not have the legacy tables at all
  // (single tables and extensions are loaded by the kernel itself); may be empty.
  std::function<void(const std::string& module)> load_module;
  // Commits nothing, and does not create a table by reading it; results say what would be done.
  bool dry_run = false;
};

// " (the kernel has no match set of revision 1: module xt_set)" for each extension that the rules
// need and the kernel lacks, even after the attempt to load its module.
std::string missing_extensions(const TableRules& desired);

class IptcRuleTable : public RuleTable {
 public:
  explicit IptcRuleTable(IptcSettings settings = {}) : settings_(std::move(settings)) {}

  Result<TableRules> list(const TableRules& wanted) override;
  Result<bool> apply(const TableRules& desired) override;
  Result<RemovedRules> remove(const RuleRemoval& removal) override;
  Result<bool> set_aside(const ChainMove& move, const RuleRemoval& surplus) override;

  // A whole table; nullopt if this network namespace has no such table (reading does not create
  // it). E2BIG, `unsupported`: it has more rules than `most`.
  Result<std::optional<WholeTable>> read(
      netlink::Family family, Table table,
      std::size_t most = std::numeric_limits<std::size_t>::max());

  // Whether the chain POSTROUTING of the table nat can be listed: kube-proxy's criterion for "this
  // host supports the family".
  Status family_usable(netlink::Family family);

  // The number of tables that apply() wrote.
  std::uint64_t commits() const { return commits_; }

 private:
  IptcSettings settings_;
  std::uint64_t commits_ = 0;
};

}  // namespace ipvsproxier::ipset
