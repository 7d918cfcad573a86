#pragma once

// Opens the kernel tables of this network namespace. A table that cannot be opened answers the
// error, so that the others work, and opens itself later. One thread.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "ipset/nftables/filter_table.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/rules/rule_table.h"
#include "netlink/conntrack/conntrack_table.h"
#include "proxier/sync/kernel.h"
#include "proxier/sync/reconciler.h"

namespace ipvsproxier::cmd {

// Whether a table of nf_tables may be opened where it cannot be told whether the kernel has them:
// opening would load the module.
enum class MayLoad : std::uint8_t { no, yes };

// Every table of nf_tables, to read; nullptr: the kernel does not have it now. `MayLoad::no`: an
// error where that cannot be told.
netlink::Result<std::unique_ptr<ipset::FilterTable>> open_nftables(MayLoad may_load);

// nf_tables that could not be opened at the start; the kernel may have it later.
class LateNftables {
 public:
  // Opens it if that is possible now; nullptr: the kernel does not have it.
  netlink::Result<ipset::FilterTable*> table();

 private:
  std::unique_ptr<ipset::FilterTable> table_;
};

struct KernelTables {
  ipset::PacketFilterChoice chosen;              // where our sets and rules are
  std::unique_ptr<ipset::FilterTable> nftables;  // what `sets` and `rules` use, if they are its
  std::unique_ptr<LateNftables> late_nftables = std::make_unique<LateNftables>();
  std::unique_ptr<netlink::IpvsTable> ipvs;
  std::unique_ptr<netlink::LinkTable> links;
  std::unique_ptr<ipset::SetTable> sets;
  std::unique_ptr<ipset::RuleTable> rules;
  std::unique_ptr<netlink::ConntrackTable> conntrack;
  // Of the packet filter that is not used; nullptr: nothing can be there.
  std::unique_ptr<ipset::RuleTable> other_rules;
  std::unique_ptr<ipset::SetTable> other_sets;

  // Whether the packet filter works in a family.
  std::function<netlink::Status(netlink::Family)> family_usable;

  sync::Kernel kernel() const;
};

// Modules that every first sync needs, or makes the kernel load: later the privilege is gone.
std::set<std::string> needed_modules(ipset::PacketFilter filter, bool localhost = false);

// Chooses the packet filter, loads the modules that the kernel does not load by itself, and opens
// all tables; logs the choice, failures and later successes. `logger` must outlive the tables.
// nullopt: nf_tables is asked for and cannot be used (packet_filter_choice.h); that is logged.
std::optional<KernelTables> open_kernel_tables(const Options& options, spdlog::logger& logger);

// Loads nothing: a table without its module is nullptr, because it cannot have any entries; one
// that cannot be read, or whose module may be there, answers with the
// error. Has no conntrack table.
KernelTables open_loaded_tables();

// The time-outs of IPVS; nullopt: it is not loaded, or cannot be asked. Loads nothing.
std::optional<netlink::IpvsTimeouts> loaded_ipvs_timeouts();

// The packet filter in which our sets and rules are, to read it. Loads nothing.
struct ProgrammedFilter {
  // nf_tables if our table kube-ipvs is there in a family, whoever made it; else iptables, also if
  // nothing is programmed. Both may have leftovers of ours or of kube-proxy.
  ipset::PacketFilter filter = ipset::PacketFilter::iptables;
  // Every table of nf_tables; nullptr if the kernel does not have it now. Ours of a family is
  // nft_table_of() (ipset/nftables/nft_set_elements.h).
  std::unique_ptr<ipset::FilterTable> nftables;
};

// An error if nf_tables is there and does not answer (`denied` without CAP_NET_ADMIN), and if
// it cannot be told whether it is there.
netlink::Result<ProgrammedFilter> open_programmed_filter();

// For a dry run, which applies nothing: loads nothing; a table without its module is empty. The
// packet filter is the one that a daemon with these options would choose; rules of either report
// changes and commit nothing, and sets must not be changed. Connection tracking is not read. An
// error: nf_tables does not answer, or is asked for and cannot be used.
netlink::Result<KernelTables> open_tables_to_read(const Options& options, spdlog::logger& logger);

// Whether rules of kube-proxy's iptables or nftables mode translate destinations, in the legacy
// tables or in nf_tables. Loads nothing, writes nothing.
netlink::Result<bool> kube_proxy_translates(ipset::FilterTable& nftables, netlink::Family family);

// The settings for this machine; logs what the machine lacks. `tables` must outlive them.
sync::ReconcilerSettings host_reconciler_settings(const Options& options,
                                                  const KernelTables& tables,
                                                  spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
