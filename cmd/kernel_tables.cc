#include "cmd/kernel_tables.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cmd/settings.h"
#include "ipset/nft_tables.h"
#include "ipset/set_libipset.h"
#include "netlink/conntrack_kernel.h"
#include "netlink/ipvs_kernel.h"
#include "netlink/kernel_module.h"
#include "netlink/link_kernel.h"
#include "netlink/sysctl.h"
#include "proxier/sync/absent_tables.h"

namespace ipvsproxier::cmd {

using netlink::ErrorKind;
using netlink::Family;

namespace {

template <typename Interface, typename Absent, typename Opened>
std::unique_ptr<Interface> or_absent(Opened opened) {
  if (opened) return std::move(*opened);
  return std::make_unique<Absent>(std::move(opened.error()));
}

template <typename Table>
netlink::Result<std::unique_ptr<Table>> open_with_module(std::string_view module) {
  const auto loaded = netlink::load_module(module);
  auto table = Table::open();
  // What modprobe says explains what is missing best.
  if (!table && !loaded && table.error().kind == ErrorKind::missing) return loaded.error();
  return table;
}

}  // namespace

KernelTables open_kernel_tables() {
  ipset::IptcSettings settings;
  settings.load_module = [](const std::string& module) {
    // Its failure shows in what is tried next.
    static_cast<void>(netlink::load_module(module));
  };
  return {
      .ipvs = or_absent<netlink::IpvsTable, sync::AbsentIpvsTable>(
          open_with_module<netlink::KernelIpvsTable>("ip_vs")),
      .links =
          or_absent<netlink::LinkTable, sync::AbsentLinkTable>(netlink::KernelLinkTable::open()),
      .sets = or_absent<ipset::SetTable, sync::AbsentSetTable>(ipset::LibipsetTable::open()),
      .rules = std::make_unique<ipset::IptcRuleTable>(std::move(settings)),
      .conntrack = or_absent<netlink::ConntrackTable, sync::AbsentConntrackTable>(
          open_with_module<netlink::KernelConntrackTable>("nf_conntrack_netlink")),
  };
}

KernelTables open_loaded_tables() {
  KernelTables tables;
  if (netlink::module_present("ip_vs"))
    tables.ipvs =
        or_absent<netlink::IpvsTable, sync::AbsentIpvsTable>(netlink::KernelIpvsTable::open());
  tables.links =
      or_absent<netlink::LinkTable, sync::AbsentLinkTable>(netlink::KernelLinkTable::open());
  if (netlink::module_present("ip_set"))
    tables.sets = or_absent<ipset::SetTable, sync::AbsentSetTable>(ipset::LibipsetTable::open());
  // It looks only at tables that are there.
  tables.rules = std::make_unique<ipset::IptcRuleTable>();
  return tables;
}

std::vector<Family> supported_families(ipset::IptcRuleTable& rules, std::string& why_not_ipv6) {
  // Asked in any case, as it loads modules: later there may be no privilege to do so.
  const bool ipv4_usable = rules.family_usable(Family::ipv4).has_value();
  std::error_code ignored;
  if (!std::filesystem::exists("/proc/net/if_inet6", ignored)) {
    why_not_ipv6 = "this kernel has no IPv6";
    return {Family::ipv4};
  }
  const auto disabled = netlink::Sysctl().read("net/ipv6/conf/all/disable_ipv6");
  if (disabled && *disabled == "1") {
    why_not_ipv6 = "it is disabled (net/ipv6/conf/all/disable_ipv6)";
    return {Family::ipv4};
  }
  const auto usable = rules.family_usable(Family::ipv6);
  const bool cannot = !usable && (usable.error().kind == ErrorKind::missing ||
                                  usable.error().kind == ErrorKind::unsupported);
  if (cannot && ipv4_usable) {
    why_not_ipv6 = netlink::to_string(usable.error());
    return {Family::ipv4};
  }
  return {Family::ipv4, Family::ipv6};
}

sync::ReconcilerSettings host_reconciler_settings(const Options& options,
                                                  const KernelTables& tables,
                                                  spdlog::logger& logger) {
  std::string why_not_ipv6;
  const auto families = supported_families(*tables.rules, why_not_ipv6);
  if (!why_not_ipv6.empty()) logger.info("IPv6 is left out: {}", why_not_ipv6);
  const auto cpus = static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  auto settings = reconciler_settings(options, families, cpus);
  settings.remove_nft_leftovers = ipset::remove_nft_leftovers;
  return settings;
}

}  // namespace ipvsproxier::cmd
