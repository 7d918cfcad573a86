#pragma once

// Opens the kernel tables of this network namespace. A table that cannot be opened becomes an
// absent one (absent_tables.h), so that the others work. One thread.

#include <memory>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "ipset/rules/rule_iptc.h"
#include "netlink/conntrack/conntrack_table.h"
#include "proxier/sync/kernel.h"
#include "proxier/sync/reconciler.h"

namespace ipvsproxier::cmd {

struct KernelTables {
  std::unique_ptr<netlink::IpvsTable> ipvs;
  std::unique_ptr<netlink::LinkTable> links;
  std::unique_ptr<ipset::SetTable> sets;
  std::unique_ptr<ipset::IptcRuleTable> rules;
  std::unique_ptr<netlink::ConntrackTable> conntrack;

  sync::Kernel kernel() const { return {*ipvs, *links, *sets, *rules, *conntrack}; }
};

// Loads the modules that the kernel does not load by itself, and opens all tables; logs failures
// and later successes. `logger` must outlive the tables.
KernelTables open_kernel_tables(spdlog::logger& logger);

// Loads nothing: a table without its module is nullptr, because it cannot have any entries. Has no
// conntrack table.
KernelTables open_loaded_tables();

// For a dry run, which applies nothing: loads nothing; a table without its module is empty; the
// rule table reports changes and commits nothing. Connection tracking is not read.
KernelTables open_tables_to_read();

// Warnings about chains of nf_tables that drop what Services need (nft_tables.h). None if nf_tables
// is not loaded, because asking would load it.
netlink::Result<std::vector<std::string>> loaded_nft_warnings();

// The settings for this machine; logs what the machine lacks.
sync::ReconcilerSettings host_reconciler_settings(const Options& options,
                                                  const KernelTables& tables,
                                                  spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
