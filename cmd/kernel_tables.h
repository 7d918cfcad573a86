#pragma once

// The concrete kernel tables of this network namespace. A table that cannot be opened is an absent
// one (sync/absent_tables.h), so that the others work. One thread.

#include <memory>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "ipset/rule_iptc.h"
#include "netlink/conntrack_table.h"
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

// Loads the modules that do not load by themselves, and opens all tables; says which cannot be
// opened, and when they can. `logger` outlives them.
KernelTables open_kernel_tables(spdlog::logger& logger);

// Loads nothing: a table whose module is not loaded is nullptr, for nobody has put anything there.
// There is no conntrack table.
KernelTables open_loaded_tables();

// As open_loaded_tables(), to read: the rules answer what they would commit and commit nothing.
KernelTables open_tables_to_read();

// The settings for this machine; says what it lacks.
sync::ReconcilerSettings host_reconciler_settings(const Options& options,
                                                  const KernelTables& tables,
                                                  spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
