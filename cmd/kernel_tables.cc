#include "cmd/kernel_tables.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/firewall_warnings.h"
#include "cmd/host_families.h"
#include "cmd/packet_filter_facts.h"
#include "cmd/settings.h"
#include "ipset/nft/nft_leftovers.h"
#include "ipset/nftables/filter_kernel.h"
#include "ipset/nftables/flow_table.h"
#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_table.h"
#include "ipset/rules/removal_catalog.h"
#include "ipset/rules/rule_catalog.h"
#include "ipset/rules/rule_codec.h"
#include "ipset/rules/rule_iptc.h"
#include "ipset/sets/set_catalog.h"
#include "ipset/sets/set_libipset.h"
#include "netlink/conntrack/conntrack_kernel.h"
#include "netlink/ipvs/ipvs_kernel.h"
#include "netlink/kernel_module.h"
#include "netlink/links/link_kernel.h"

namespace ipvsproxier::cmd {

using ipset::PacketFilter;
using netlink::ErrorKind;

namespace {

// The answer of a table that is never opened, to everything.
netlink::NlOpening never(const netlink::Error& error) {
  return {.before = [error] { return netlink::Status(error); }};
}

// nullptr if the kernel does not have the module now, which opening would load.
template <typename Table>
std::unique_ptr<Table> open_if_there(std::string_view module) {
  const auto there = netlink::kernel_has_module(module);
  if (!there) return std::make_unique<Table>(never(there.error()));
  return *there ? std::make_unique<Table>(netlink::NlOpening{}) : nullptr;
}

// Logs failure and later success. By then the privilege to load modules is dropped, but the kernel
// still loads some modules on request. `loaded`: what came of loading the table's module.
template <typename Table, typename... Options>
std::unique_ptr<Table> open_late(const char* name, const netlink::Status& loaded,
                                 spdlog::logger& logger, const Options&... options) {
  netlink::NlOpening opening;
  opening.opened_late = [name, &logger] { logger.info("{} is there now", name); };
  auto table = std::make_unique<Table>(opening, options...);
  const auto open = table->ready();
  if (open) return table;
  // modprobe's message explains a missing module best.
  const bool lacks_module = !loaded && open.error().kind == ErrorKind::missing;
  logger.warn("{}; {} is tried again until it can be opened",
              netlink::to_string(lacks_module ? loaded.error() : open.error()), name);
  return table;
}

void use_nftables(KernelTables& tables) {
  tables.sets = std::make_unique<ipset::NftSetTable>(*tables.nftables);
  auto rules = std::make_unique<ipset::NftRuleTable>(*tables.nftables);
  tables.family_usable = [table = rules.get()](netlink::Family family) {
    return table->family_usable(family);
  };
  tables.rules = std::move(rules);
}

// The tables of modules that are not loaded: they have no entries.
class EmptyIpvsTable final : public netlink::KernelIpvsTable {
 public:
  EmptyIpvsTable()
      : KernelIpvsTable(never({ErrorKind::missing, 0, "module ip_vs is not loaded"})) {}

  netlink::Result<std::vector<netlink::VirtualService>> list_services() override {
    return std::vector<netlink::VirtualService>{};
  }
  netlink::Result<ServicesPart> begin_services() override { return ServicesPart{.last = true}; }
  netlink::Result<netlink::IpvsTimeouts> timeouts() override { return netlink::IpvsTimeouts{}; }
};

class EmptySetTable final : public ipset::LibipsetTable {
 public:
  EmptySetTable() : LibipsetTable(never({ErrorKind::missing, 0, "module ip_set is not loaded"})) {}

  netlink::Result<std::optional<ipset::ListedSet>> list(const std::string& /*name*/) override {
    return std::optional<ipset::ListedSet>{};
  }
  netlink::Result<std::optional<SetPart>> begin_list(const std::string& /*name*/) override {
    return std::optional<SetPart>{};
  }
};

// Reads through `inner`; nullptr: there is nothing to read. Says that it writes, and writes
// nothing.
class DryFilterTable final : public ipset::FilterTable {
 public:
  explicit DryFilterTable(std::unique_ptr<ipset::FilterTable> inner) : inner_(std::move(inner)) {}

  std::vector<netlink::Status> apply(std::span<const netlink::NftUnit> units) override {
    return std::vector<netlink::Status>(units.size());
  }
  netlink::Result<std::vector<netlink::NftTableKey>> list_tables() override {
    if (inner_) return inner_->list_tables();
    return std::vector<netlink::NftTableKey>{};
  }
  netlink::Result<std::optional<ipset::FilterContents>> list_frame(
      const netlink::NftTableKey& table) override {
    if (inner_) return inner_->list_frame(table);
    return std::optional<ipset::FilterContents>{};
  }
  netlink::Result<std::optional<netlink::NftSetSpec>> find_set(const netlink::NftTableKey& table,
                                                               const std::string& set) override {
    if (inner_) return inner_->find_set(table, set);
    return std::optional<netlink::NftSetSpec>{};
  }
  netlink::Result<std::optional<netlink::NftExpectation>> find_expectation(
      const netlink::NftTableKey& table, const std::string& name) override {
    if (inner_) return inner_->find_expectation(table, name);
    return std::optional<netlink::NftExpectation>{};
  }
  netlink::Result<std::vector<netlink::NftFlowRule>> list_flow_rules() override {
    if (inner_) return inner_->list_flow_rules();
    return std::vector<netlink::NftFlowRule>{};
  }
  netlink::Result<std::optional<ElementsPart>> begin_elements(const netlink::NftTableKey& table,
                                                              const std::string& set) override {
    if (inner_) return inner_->begin_elements(table, set);
    return std::optional<ElementsPart>{};
  }
  netlink::Result<ElementsPart> next_elements() override {
    return inner_ ? inner_->next_elements() : no_filter_listing();
  }
  netlink::Result<std::optional<ipset::FilterContents>> list_chains(
      const netlink::NftTableKey& table, const KeepRule& keep) override {
    if (inner_) return inner_->list_chains(table, keep);
    return std::optional<ipset::FilterContents>{};
  }
  std::uint32_t port() const override { return inner_ ? inner_->port() : 0; }

 private:
  std::unique_ptr<ipset::FilterTable> inner_;
};

std::unique_ptr<ipset::SetTable> open_ip_sets(spdlog::logger& logger) {
  return open_late<ipset::LibipsetTable>("the table of IP sets", {}, logger);
}

// What an earlier process may have left in the packet filter that is not `filter`. Loads nothing.
// Sets that cannot be read are an error of each reading, and so told.
void open_other_filter(PacketFilter filter, ipset::IptcSettings settings, KernelTables& tables,
                       spdlog::logger& logger) {
  if (filter == PacketFilter::nftables) {
    if (settings.dry_run)
      tables.other_sets = open_if_there<ipset::LibipsetTable>("ip_set");
    else if (netlink::kernel_has_module("ip_set").value_or(true))
      tables.other_sets = open_ip_sets(logger);
    tables.other_rules = std::make_unique<ipset::IptcRuleTable>(std::move(settings));
  } else if (tables.nftables && has_our_nft_table(*tables.nftables).value_or(true)) {
    tables.other_rules = std::make_unique<ipset::NftRuleTable>(*tables.nftables);
    tables.other_sets = std::make_unique<ipset::NftSetTable>(*tables.nftables);
  }
}

void open_iptables(KernelTables& tables, spdlog::logger& logger) {
  ipset::IptcSettings settings;
  settings.load_module = [](const std::string& module) {
    // A failure shows in the next operation.
    static_cast<void>(netlink::load_module(module));
  };
  tables.sets = open_ip_sets(logger);
  auto rules = std::make_unique<ipset::IptcRuleTable>(std::move(settings));
  tables.family_usable = [table = rules.get()](netlink::Family family) {
    return table->family_usable(family);
  };
  tables.rules = std::move(rules);
}

}  // namespace

std::set<std::string> needed_modules(PacketFilter filter, bool localhost) {
  std::set<std::string> modules{"ip_vs", "nf_conntrack_netlink", "dummy"};
  // The kernel loads what nf_tables needs.
  if (filter == PacketFilter::nftables) {
    if (localhost) modules.emplace("veth");
    return modules;
  }
  for (const auto id : ipset::kSetIds)
    modules.emplace(ipset::module_of(ipset::set_spec(id, netlink::Family::ipv4).kind));
  ipset::RuleParameters parameters;
  parameters.non_empty.insert(ipset::kIpSetIds.begin(), ipset::kIpSetIds.end());
  for (const auto family : netlink::kFamilies)
    for (const auto& rules : ipset::rules_for(family, parameters))
      modules.merge(ipset::modules_of(rules));
  return modules;
}

sync::Kernel KernelTables::kernel() const {
  sync::Kernel kernel{*ipvs, *links, *sets, *rules, *conntrack, std::nullopt};
  if (other_rules)
    kernel.other = sync::OtherFilter{
        chosen.filter == PacketFilter::nftables ? PacketFilter::iptables : PacketFilter::nftables,
        other_rules.get(), other_sets.get()};
  return kernel;
}

std::optional<KernelTables> open_kernel_tables(const Options& options, spdlog::logger& logger) {
  KernelTables tables;
  if (auto opened = ipset::KernelFilterTable::open())
    tables.nftables = *std::move(opened);
  else
    logger.info("{}", netlink::to_string(opened.error()));
  const auto choice = settle_packet_filter(options.packet_filter, options.compat,
                                           kernel_packet_filters(tables.nftables.get()), logger);
  if (!choice) return std::nullopt;
  tables.chosen = *choice;
  const auto filter = choice->filter;
  const auto planned = planner_options(options, {});
  const auto modules = needed_modules(filter, planned.node_port_localhost);
  netlink::load_modules(std::vector<std::string_view>(modules.begin(), modules.end()));
  open_other_filter(filter, {}, tables, logger);
  if (filter == PacketFilter::nftables)
    use_nftables(tables);
  else
    open_iptables(tables, logger);
  tables.ipvs = open_late<netlink::KernelIpvsTable>("IPVS", netlink::load_module("ip_vs"), logger);
  netlink::KernelLinkTable::Ipv6Enabled ipv6_enabled;
  if (!options.compat)
    ipv6_enabled = [&logger](const std::string& what) { logger.info("set {}", what); };
  tables.links = open_late<netlink::KernelLinkTable>("rtnetlink", {}, logger, netlink::NlOptions{},
                                                     ipv6_enabled);
  tables.conntrack = open_late<netlink::KernelConntrackTable>(
      "connection tracking", netlink::load_module("nf_conntrack_netlink"), logger);
  return tables;
}

KernelTables open_loaded_tables() {
  KernelTables tables;
  tables.ipvs = open_if_there<netlink::KernelIpvsTable>("ip_vs");
  tables.links = std::make_unique<netlink::KernelLinkTable>(netlink::NlOpening{});
  tables.sets = open_if_there<ipset::LibipsetTable>("ip_set");
  // Uses only existing tables.
  auto rules = std::make_unique<ipset::IptcRuleTable>();
  tables.family_usable = [table = rules.get()](netlink::Family family) {
    return table->family_usable(family);
  };
  tables.rules = std::move(rules);
  return tables;
}

std::optional<netlink::IpvsTimeouts> loaded_ipvs_timeouts() {
  if (!netlink::kernel_has_module("ip_vs").value_or(false)) return std::nullopt;
  const auto table = netlink::KernelIpvsTable::open();
  const auto timeouts = table ? (*table)->timeouts() : table.error();
  return timeouts ? std::optional(*timeouts) : std::nullopt;
}

netlink::Result<std::unique_ptr<ipset::FilterTable>> open_nftables(MayLoad may_load) {
  using Opened = netlink::Result<std::unique_ptr<ipset::FilterTable>>;
  const auto there = netlink::kernel_has_module("nf_tables");
  if (!there && may_load == MayLoad::no) return there.error();
  if (there && !*there) return Opened(nullptr);
  auto opened = ipset::KernelFilterTable::open();
  if (opened) return Opened(*std::move(opened));
  const bool is_absent = !there && opened.error().kind == ErrorKind::unsupported;
  return is_absent ? Opened(nullptr) : Opened(opened.error());
}

netlink::Result<ipset::FilterTable*> LateNftables::table() {
  if (!table_) {
    auto opened = open_nftables(MayLoad::yes);
    if (!opened) return opened.error();
    table_ = *std::move(opened);
  }
  return table_.get();
}

netlink::Result<ProgrammedFilter> open_programmed_filter() {
  ProgrammedFilter programmed;
  auto opened = open_nftables(MayLoad::no);
  if (!opened) return std::move(opened.error());
  if (!*opened) return programmed;
  const auto ours = has_our_nft_table(**opened);
  if (!ours) return ours.error();
  if (*ours) programmed.filter = PacketFilter::nftables;
  programmed.nftables = *std::move(opened);
  return programmed;
}

netlink::Result<KernelTables> open_tables_to_read(const Options& options, spdlog::logger& logger) {
  auto tables = open_loaded_tables();
  auto programmed = open_programmed_filter();
  if (!programmed) return programmed.error();
  tables.nftables = std::make_unique<DryFilterTable>(std::move(programmed->nftables));
  const auto choice = settle_packet_filter(options.packet_filter, options.compat,
                                           loaded_packet_filters(tables.nftables.get()), logger);
  if (!choice) return choice.error();
  tables.chosen = *choice;
  if (!tables.ipvs) tables.ipvs = std::make_unique<EmptyIpvsTable>();
  // Its flows belong to real servers that are removed, and none is removed.
  tables.conntrack = std::make_unique<netlink::KernelConntrackTable>(
      never({ErrorKind::unsupported, 0, "connection tracking is not read"}));
  open_other_filter(choice->filter, {.dry_run = true}, tables, logger);
  if (choice->filter == PacketFilter::nftables) {
    use_nftables(tables);
    // Trying it would load modules.
    tables.family_usable = [](netlink::Family) { return netlink::Status{}; };
    return tables;
  }
  if (!tables.sets) tables.sets = std::make_unique<EmptySetTable>();
  auto rules = std::make_unique<ipset::IptcRuleTable>(ipset::IptcSettings{.dry_run = true});
  tables.family_usable = [table = rules.get()](netlink::Family family) {
    return table->family_usable(family);
  };
  tables.rules = std::move(rules);
  return tables;
}

netlink::Result<bool> kube_proxy_translates(ipset::FilterTable& nftables, netlink::Family family) {
  ipset::IptcRuleTable iptables(ipset::IptcSettings{.dry_run = true});
  const auto chains = iptables.remove(ipset::translation_chains(family));
  if (!chains) return chains.error();
  if (chains->chains > 0 || !chains->in_use.empty()) return true;
  return ipset::nft_translates(nftables, family);
}

namespace {

// What `ask` answers of nf_tables; `none` as long as the kernel does not have it.
template <typename Answer, typename Ask>
Answer ask_nftables(const KernelTables& tables, Answer none, const Ask& ask) {
  if (tables.nftables) return ask(*tables.nftables);
  const auto late = tables.late_nftables->table();
  if (!late) return late.error();
  return *late == nullptr ? none : ask(**late);
}

void use_nftables_once_there(const Options& options, const KernelTables& tables,
                             sync::ReconcilerSettings& settings) {
  using netlink::Family;
  using netlink::Result;
  using FlowRules = std::vector<netlink::NftFlowRule>;
  const bool kube_router = settings.options.differences.take_over_kube_router;
  settings.remove_nft_leftovers = [&tables, kube_router](Family family) {
    return ask_nftables(tables, Result<ipset::RemovedNft>(ipset::RemovedNft{}), [&](auto& table) {
      return ipset::take_over_nft_leftovers(table, family, kube_router);
    });
  };
  settings.find_flow_rules = [&tables] {
    return ask_nftables(tables, Result<FlowRules>(FlowRules{}),
                        [](auto& table) { return table.list_flow_rules(); });
  };
  settings.flow_table.remove = [&tables](Family family) {
    return ask_nftables(tables, Result<bool>(false),
                        [&](auto& table) { return ipset::remove_flow_table(table, family); });
  };
  if (tables.chosen.filter == PacketFilter::iptables && !options.compat)
    settings.flow_table.make = [&tables](Family family) {
      const netlink::Error none{ErrorKind::unsupported, 0, "this kernel has no nf_tables now"};
      return ask_nftables(tables, netlink::Status(none),
                          [&](auto& table) { return ipset::make_flow_table(table, family); });
    };
}

}  // namespace

sync::ReconcilerSettings host_reconciler_settings(const Options& options,
                                                  const KernelTables& tables,
                                                  spdlog::logger& logger) {
  const auto supported = supported_families(
      [&](netlink::Family family) { return tables.family_usable(family); }, "/proc");
  if (!supported.left_out.empty()) logger.info("{}", supported.left_out);
  const auto cpus = static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  auto settings = reconciler_settings(options, supported.families, cpus);
  settings.options.packet_filter = tables.chosen.filter;
  settings.find_untracked_ports = [](const auto& addresses, auto longest) {
    return untracked_ports(MayLoad::yes, addresses, longest);
  };
  if (tables.chosen.filter == PacketFilter::nftables)
    settings.find_translation = [nftables = tables.nftables.get()](netlink::Family family) {
      return kube_proxy_translates(*nftables, family);
    };
  use_nftables_once_there(options, tables, settings);
  settings.find_firewall_warnings = [filter = tables.chosen.filter](const auto& samples,
                                                                    auto longest) {
    return firewall_warnings(MayLoad::yes, filter, samples, longest);
  };
  return settings;
}

}  // namespace ipvsproxier::cmd
