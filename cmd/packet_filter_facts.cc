#include "cmd/packet_filter_facts.h"

#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_table_claim.h"
#include "ipset/rules/rule_catalog.h"
#include "ipset/rules/rule_codec.h"
#include "ipset/rules/rule_iptc.h"
#include "ipset/rules/xtables_lock.h"
#include "ipset/sets/set_libipset.h"
#include "netlink/kernel_module.h"
#include "netlink/sysctl.h"
#include "proxier/check/kernel_modules.h"

namespace ipvsproxier::cmd {

namespace {

using ipset::Table;
using netlink::Family;

// Chains of kube-proxy, of kubelet (KUBE-KUBELET-CANARY, KUBE-FIREWALL) and ours.
constexpr std::string_view kKubernetes = "KUBE-";

std::vector<Table> tables_in_namespace(Family family) {
  std::ifstream names(family == Family::ipv4 ? "/proc/thread-self/net/ip_tables_names"
                                             : "/proc/thread-self/net/ip6_tables_names");
  std::vector<Table> tables;
  for (std::string name; names >> name;)
    for (const auto table : {Table::filter, Table::nat, Table::mangle, Table::raw})
      if (name == to_string(table)) tables.push_back(table);
  return tables;
}

std::vector<std::string> chains_in(Family family, Table table) {
  std::vector<std::string> chains;
  const auto whole = ipset::IptcRuleTable().read(family, table);
  if (whole && *whole)
    for (const auto& [name, rules] : (*whole)->chains) chains.push_back(name);
  return chains;
}

// What rules every cluster needs in legacy iptables.
std::vector<ipset::TableRules> least_rules(Family family) {
  return ipset::rules_for(family, ipset::least_parameters());
}

netlink::Status legacy_works(Family family) {
  ipset::IptcSettings settings;
  settings.load_module = [](const std::string& module) {
    static_cast<void>(netlink::load_module(module));
  };
  if (auto lock = ipset::XtablesLock::can_open(settings.lock_path); !lock) return lock;
  if (auto sets = ipset::LibipsetTable::open(); !sets) return sets.error();
  ipset::IptcRuleTable table(std::move(settings));
  for (const auto& rules : least_rules(family)) {
    if (const auto listed = table.list(rules); !listed) return listed.error();
    if (const auto lacking = ipset::missing_extensions(rules); !lacking.empty())
      return netlink::Error{
          netlink::ErrorKind::unsupported, 0,
          fmt::format("{} table {}{}", to_string(family), to_string(rules.table), lacking)};
  }
  return {};
}

bool has_ipv6() {
  std::error_code ignored;
  return std::filesystem::exists("/proc/net/if_inet6", ignored) && !netlink::ipv6_is_disabled();
}

void ask_iptables(const PacketFilterQuestions& questions, ipset::PacketFilterFacts& facts) {
  auto status = questions.iptables_works(Family::ipv4);
  // That a module is missing is what the choice says itself.
  if (!status && status.error().kind != netlink::ErrorKind::missing)
    facts.iptables_fault = to_string(status.error());
  // IPv4 alone is better than nothing, but not than both families in nf_tables.
  if (status && facts.nftables_works && questions.has_ipv6()) {
    status = questions.iptables_works(Family::ipv6);
    if (!status) facts.iptables_fault = "for IPv6: " + to_string(status.error());
  }
  facts.iptables_works = status.has_value();
}

// Whether all of these modules are there or could be loaded. Where no modules are seen, as in a
// container, the kernel's own are believed to be there.
bool can_have(const std::set<std::string>& modules) {
  utsname system{};
  if (::uname(&system) != 0) return true;
  const auto index = check::read_module_index({}, system.release);
  return std::ranges::all_of(modules, [&](const std::string& module) {
    return !index.visible || index.loaded.contains(module) || index.built_in.contains(module) ||
           index.files.contains(module);
  });
}

netlink::Status legacy_would_work(Family family) {
  std::set<std::string> modules{"ip_set", ipset::module_of(family)};
  for (const auto& rules : least_rules(family)) modules.merge(ipset::modules_of(rules));
  if (!can_have(modules))
    return netlink::Error{
        netlink::ErrorKind::missing, 0,
        fmt::format("the modules {} are not all there", fmt::join(modules, ", "))};
  return ipset::XtablesLock::can_open(ipset::IptcSettings().lock_path);
}

netlink::Result<bool> has_table_that_is(ipset::TableClaim wanted, ipset::FilterTable& nftables) {
  for (const auto family : netlink::kFamilies) {
    const auto frame = nftables.list_frame(ipset::nft_table_of(family));
    if (!frame) return frame.error();
    if (ipset::claim_of(*frame, family) == wanted) return true;
  }
  return false;
}

}  // namespace

bool uses_legacy_iptables() {
  return std::ranges::any_of(netlink::kFamilies,
                             [](auto family) { return !tables_in_namespace(family).empty(); });
}

netlink::Result<bool> has_our_nft_table(ipset::FilterTable& nftables) {
  return has_table_that_is(ipset::TableClaim::ours, nftables);
}

netlink::Result<bool> has_foreign_nft_table(ipset::FilterTable& nftables) {
  return has_table_that_is(ipset::TableClaim::foreign, nftables);
}

ipset::PacketFilterFacts packet_filter_facts(ipset::PacketFilterWish wish, bool compat,
                                             const PacketFilterQuestions& questions) {
  ipset::PacketFilterFacts facts;
  if (compat || wish == ipset::PacketFilterWish::iptables) {
    ask_iptables(questions, facts);
    return facts;
  }
  // A table that cannot be listed may be there.
  if (questions.nftables != nullptr) {
    facts.has_nft_table = has_our_nft_table(*questions.nftables).value_or(true);
    facts.has_foreign_nft_table = has_foreign_nft_table(*questions.nftables).value_or(false);
  }
  facts.nftables_works = questions.nftables_works();
  if (wish == ipset::PacketFilterWish::nftables) return facts;
  for (const auto family : netlink::kFamilies)
    for (const auto table : questions.iptables_tables(family)) {
      facts.has_iptables_tables = true;
      // Tables may be large: none is read in vain.
      facts.has_kubernetes_chains =
          facts.has_kubernetes_chains ||
          std::ranges::any_of(questions.iptables_chains(family, table),
                              [](const auto& chain) { return chain.starts_with(kKubernetes); });
    }
  // Asking makes tables, which would tell the next start that somebody uses them.
  const bool settled =
      facts.nftables_works &&
      (facts.has_nft_table || (!facts.has_foreign_nft_table && !facts.has_iptables_tables));
  if (!settled) ask_iptables(questions, facts);
  return facts;
}

PacketFilterQuestions kernel_packet_filters(ipset::FilterTable* nftables) {
  return {.iptables_tables = tables_in_namespace,
          .iptables_chains = chains_in,
          .iptables_works = legacy_works,
          .has_ipv6 = has_ipv6,
          .nftables_works =
              [nftables] {
                return nftables != nullptr &&
                       ipset::NftRuleTable(*nftables).family_usable(Family::ipv4).has_value();
              },
          .nftables = nftables};
}

PacketFilterQuestions loaded_packet_filters(ipset::FilterTable* nftables) {
  return {.iptables_tables = tables_in_namespace,
          .iptables_chains = chains_in,
          .iptables_works = legacy_would_work,
          .has_ipv6 = has_ipv6,
          .nftables_works = [] { return can_have({"nf_tables"}); },
          .nftables = nftables};
}

netlink::Result<ipset::PacketFilterChoice> settle_packet_filter(
    ipset::PacketFilterWish wish, bool compat, const PacketFilterQuestions& questions,
    spdlog::logger& logger) {
  const auto facts = packet_filter_facts(wish, compat, questions);
  auto choice = ipset::choose_packet_filter(wish, compat, facts);
  if (choice) {
    logger.info("packet filter: {} ({})", to_string(choice->filter), choice->reason);
    if (choice->filter == ipset::PacketFilter::iptables && !compat)
      logger.info("{}", ipset::kIptablesLacks);
    return choice;
  }
  const auto why = netlink::to_string(choice.error());
  logger.error("{}", why);
  if (wish == ipset::PacketFilterWish::nftables) return choice;
  return ipset::PacketFilterChoice{ipset::PacketFilter::iptables, why};
}

}  // namespace ipvsproxier::cmd
