#include "cmd/packet_filter_facts.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ipset/judge/look_budget.h"
#include "ipset/nft/host_firewall.h"
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
#include "proxier/check/needs.h"

namespace ipvsproxier::cmd {

namespace {

using ipset::LookBudget;
using ipset::Table;
using netlink::Family;

netlink::Result<std::optional<ipset::WholeTable>> legacy_table(Family family, Table table) {
  return ipset::IptcRuleTable({.dry_run = true}).read(family, table, LookBudget::kRules);
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

netlink::Status nftables_would_work(Family family) {
  std::set<std::string> modules;
  for (const auto& of : {std::optional<Family>(), std::optional(family)})
    for (auto& module : check::nft_modules(of)) modules.insert(std::move(module));
  if (can_have(modules)) return {};
  return netlink::Error{netlink::ErrorKind::unsupported, 0,
                        fmt::format("the modules {} are not all there", fmt::join(modules, ", "))};
}

netlink::Result<bool> has_table_that_is(ipset::TableClaim wanted, ipset::FilterTable& nftables) {
  for (const auto family : netlink::kFamilies) {
    const auto frame = nftables.list_frame(ipset::nft_table_of(family));
    if (!frame) return frame.error();
    if (ipset::claim_of(*frame, family) == wanted) return true;
  }
  return false;
}

// An earlier build wrote these rules, with some for clients within the cluster, whom nf_tables
// serves today.
bool is_of_earlier_build(Family family, const PacketFilterQuestions& questions) {
  const auto nat = questions.iptables_table(family, Table::nat);
  return nat && *nat && std::ranges::any_of((*nat)->chains, [](const auto& chain) {
           return ipset::is_of_earlier_build(chain.first);
         });
}

// What a look at the legacy table filter found.
struct LegacyLook {
  bool has_ours = false;
  bool has_earlier = false;
  std::vector<std::string> needed;
  std::vector<std::string> unjudged;
};

void look_at(Family family, const PacketFilterQuestions& questions, LegacyLook& look) {
  constexpr std::chrono::seconds kLongest{1};
  const auto name = ipset::legacy_table_name(family);
  auto filter = questions.iptables_table(family, Table::filter);
  if (!filter)
    look.unjudged.push_back(ipset::text_of_unjudged(
        name, filter.error().sys_errno == E2BIG ? "it has too many rules"
                                                : netlink::to_string(filter.error())));
  if (!filter || !*filter) return;
  if (ipset::has_short_paths(**filter)) {
    look.has_ours = true;
    look.has_earlier = look.has_earlier || is_of_earlier_build(family, questions);
  }
  LookBudget budget(LookBudget::kSteps, 0, LookBudget::Clock::now() + kLongest);
  const auto found = ipset::find_needed_accepts(family, **std::move(filter), budget);
  for (const auto& warning : found.warnings) look.needed.push_back(warning.text);
  for (const auto& [table, why] : found.unjudged)
    look.unjudged.push_back(ipset::text_of_unjudged(table, why));
}

void try_nftables(const PacketFilterQuestions& questions, ipset::PacketFilterFacts& facts) {
  const auto works = questions.nftables_works(Family::ipv4);
  facts.nftables_works = works.has_value();
  if (!works) {
    // That the module is missing is what the choice says itself.
    if (works.error().kind != netlink::ErrorKind::missing)
      facts.nftables_fault = netlink::to_string(works.error());
  } else if (questions.has_ipv6()) {
    if (const auto ipv6 = questions.nftables_works(Family::ipv6); !ipv6)
      facts.nftables_fault = "for IPv6: " + netlink::to_string(ipv6.error());
  }
}

}  // namespace

bool uses_legacy_iptables() {
  for (const auto* list :
       {"/proc/thread-self/net/ip_tables_names", "/proc/thread-self/net/ip6_tables_names"}) {
    std::ifstream names(list);
    if (std::string name; names >> name) return true;
  }
  return false;
}

netlink::Result<bool> has_our_nft_table(ipset::FilterTable& nftables) {
  return has_table_that_is(ipset::TableClaim::ours, nftables);
}

ipset::PacketFilterFacts seen_packet_filters(const PacketFilterQuestions& questions) {
  ipset::PacketFilterFacts facts;
  // A table that cannot be listed may be there.
  if (questions.nftables != nullptr) {
    facts.has_nft_table = has_our_nft_table(*questions.nftables).value_or(true);
    facts.has_foreign_nft_table =
        has_table_that_is(ipset::TableClaim::foreign, *questions.nftables).value_or(false);
  }
  LegacyLook look;
  for (const auto family : netlink::kFamilies) look_at(family, questions, look);
  facts.has_our_iptables = look.has_ours && !look.has_earlier;
  facts.only_iptables_accept = fmt::format("{}", fmt::join(look.needed, "; "));
  facts.unjudged = fmt::format("{}", fmt::join(look.unjudged, "; "));
  return facts;
}

ipset::PacketFilterFacts packet_filter_facts(ipset::PacketFilterWish wish, bool compat,
                                             const PacketFilterQuestions& questions) {
  using enum ipset::PacketFilterWish;
  ipset::PacketFilterFacts facts;
  if (!compat) facts = seen_packet_filters(questions);
  if (!compat && wish != iptables) try_nftables(questions, facts);
  if (wish == nftables && !compat) return facts;
  // Asking loads modules and makes tables: never in vain.
  const bool needs_iptables = facts.has_foreign_nft_table || facts.has_our_iptables ||
                              !facts.only_iptables_accept.empty() || !facts.unjudged.empty() ||
                              !facts.nftables_fault.empty();
  if (!facts.nftables_works || (!facts.has_nft_table && needs_iptables))
    ask_iptables(questions, facts);
  return facts;
}

PacketFilterQuestions kernel_packet_filters(ipset::FilterTable* nftables) {
  return {.iptables_table = legacy_table,
          .iptables_works = legacy_works,
          .has_ipv6 = has_ipv6,
          .nftables_works = [nftables](Family family) -> netlink::Status {
            if (nftables == nullptr) return netlink::Error{netlink::ErrorKind::missing, 0, ""};
            return ipset::NftRuleTable(*nftables).family_usable(family);
          },
          .nftables = nftables};
}

PacketFilterQuestions loaded_packet_filters(ipset::FilterTable* nftables) {
  return {.iptables_table = legacy_table,
          .iptables_works = legacy_would_work,
          .has_ipv6 = has_ipv6,
          .nftables_works = nftables_would_work,
          .nftables = nftables};
}

netlink::Result<ipset::PacketFilterChoice> settle_packet_filter(
    ipset::PacketFilterWish wish, bool compat, const PacketFilterQuestions& questions,
    spdlog::logger& logger) {
  const auto facts = packet_filter_facts(wish, compat, questions);
  auto choice = ipset::choose_packet_filter(wish, compat, facts);
  if (choice) {
    logger.info("packet filter: {} ({})", to_string(choice->filter), choice->reason);
    if (choice->filter == ipset::PacketFilter::iptables)
      for (const auto& note : choice->notes) logger.info("{}", note);
    return choice;
  }
  const auto why = netlink::to_string(choice.error());
  logger.error("{}", why);
  if (wish == ipset::PacketFilterWish::nftables) return choice;
  return ipset::PacketFilterChoice{ipset::PacketFilter::iptables, why, {}};
}

}  // namespace ipvsproxier::cmd
