#include "proxier/check/judge_kernel.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "ipset/rules/packet_filter_choice.h"
#include "proxier/check/needs.h"

namespace ipvsproxier::check {

namespace {

using netlink::Family;

bool is_usable(ModuleState state) {
  return state == ModuleState::loaded || state == ModuleState::built_in ||
         state == ModuleState::loadable;
}

ModuleFact fact_of(const NodeFacts& facts, const ModuleNeed& need) {
  const auto find = [&](const std::string& name) {
    const auto found = facts.modules.find(name);
    return found == facts.modules.end() ? ModuleFact{} : found->second;
  };
  auto own = find(need.module);
  if (is_usable(own.state) || need.other.empty()) return own;
  auto other = find(need.other);
  return is_usable(other.state) ? other : own;
}

// Whether the cluster is known not to have the family.
bool is_unwanted(const Wanted& wanted, Family family) {
  return !wanted.families.empty() && !wanted.families.contains(family);
}

// What the lack of a whole family means: the daemon leaves it out and serves the other one.
Level level_of_family(const Wanted& wanted, Family family) {
  if (is_unwanted(wanted, family)) return Level::note;
  // A cluster has IPv4 unless its configuration says otherwise.
  return family == Family::ipv6 && wanted.families.empty() ? Level::limit : Level::cannot;
}

std::string_view verb_of(ModuleState state) {
  switch (state) {
    case ModuleState::missing:
      return "is missing";
    case ModuleState::refused:
      return "must not be loaded";
    default:
      return "may be missing";
  }
}

Level level_of(const ModuleNeed& need, const ModuleFact& fact, const Wanted& wanted) {
  auto level = need.level;
  if (need.family) level = std::min(level, level_of_family(wanted, *need.family));
  // Only a guess: the first start will show it.
  if (fact.state == ModuleState::unknown) level = std::min(level, Level::limit);
  return level;
}

// Whether something that all Services need is known to be missing. `both`: IPv6 counts as IPv4
// does.
bool lacks_iptables(const NodeFacts& facts, Wanted wanted, bool both) {
  wanted.packet_filter = ipset::PacketFilter::iptables;
  if (both) wanted.families = {Family::ipv4, Family::ipv6};
  return std::ranges::any_of(needs(wanted), [&](const ModuleNeed& need) {
    const auto fact = fact_of(facts, need);
    return !is_usable(fact.state) && level_of(need, fact, wanted) == Level::cannot;
  });
}

// Whether all that Services need is known to be there.
bool has_nftables(const NodeFacts& facts, Wanted wanted) {
  // nf_tables without the families of our tables.
  if (facts.config.known() && facts.config.value("CONFIG_NF_TABLES_IPV4").empty()) return false;
  wanted.packet_filter = ipset::PacketFilter::nftables;
  return std::ranges::all_of(needs(wanted), [&](const ModuleNeed& need) {
    return is_usable(fact_of(facts, need).state) || need.level != Level::cannot ||
           (need.family && level_of_family(wanted, *need.family) != Level::cannot);
  });
}

// What the choice of the packet filter asks, as far as it can be known before a start.
ipset::PacketFilterFacts filter_facts(const NodeFacts& facts, const Wanted& wanted) {
  const bool nftables = facts.packet_filters.has_nft_table || has_nftables(facts, wanted);
  const bool both = nftables && facts.has_ipv6 && !facts.ipv6_disabled;
  auto found = facts.packet_filters;
  found.iptables_works = !lacks_iptables(facts, wanted, both) && facts.xtables_lock_fault.empty();
  found.nftables_works = nftables;
  found.iptables_fault = facts.xtables_lock_fault;
  if (nftables && both && !found.has_nft_table)
    for (const auto& module : nft_modules(Family::ipv6))
      if (!is_usable(fact_of(facts, {.module = module, .loss = {}}).state))
        found.nftables_fault = "for IPv6: module " + module + " is not there";
  return found;
}

Finding note_of(std::string about, std::string message) {
  return {
      .level = Level::note, .about = std::move(about), .message = std::move(message), .remedy = {}};
}

void add_choice(const ipset::PacketFilterChoice& choice, Findings& findings) {
  const bool nftables = choice.filter == ipset::PacketFilter::nftables;
  const auto* const about = nftables ? "nf_tables" : "legacy iptables";
  findings.push_back(note_of(about, "it will hold sets and rules: " + choice.reason));
  for (const auto& note : choice.notes) findings.push_back(note_of(about, note));
}

// As the daemon would choose.
Wanted settled(const NodeFacts& facts, Wanted wanted, Findings& findings) {
  using enum ipset::PacketFilter;
  if (!wanted.packet_filter) {
    const auto choice = ipset::choose_packet_filter(ipset::PacketFilterWish::automatic, false,
                                                    filter_facts(facts, wanted));
    // Without either the daemon tries iptables again and again.
    wanted.packet_filter = choice ? choice->filter : iptables;
    if (choice && (!wanted.as_kube_proxy || choice->filter == nftables))
      add_choice(*choice, findings);
  } else if (wanted.packet_filter == iptables && !wanted.as_kube_proxy) {
    findings.push_back(note_of("legacy iptables", std::string(ipset::kIptablesLacks)));
  }
  const auto& seen = facts.packet_filters;
  if (wanted.packet_filter == nftables && !seen.has_nft_table && !seen.only_iptables_accept.empty())
    findings.push_back(
        {.level = Level::limit,
         .about = "nf_tables",
         .message = "legacy iptables drops what no rule of nf_tables can let through",
         .remedy = seen.only_iptables_accept});
  if (wanted.packet_filter == iptables && !facts.xtables_lock_fault.empty())
    findings.push_back({.level = Level::cannot,
                        .about = "legacy iptables",
                        .message = facts.xtables_lock_fault + ": its tables cannot be written",
                        .remedy = "make the lock a plain file that this process may open; "
                                  "in a pod, mount the file of the host, with the type "
                                  "FileOrCreate"});
  if (seen.has_foreign_nft_table)
    findings.push_back(
        {.level = wanted.packet_filter == nftables ? Level::cannot : Level::note,
         .about = "table kube-ipvs of nf_tables",
         .message = "somebody else made it: it is left alone, and nf_tables cannot hold sets and "
                    "rules of its family",
         .remedy = "find out who made it, and remove it: nft delete table ip kube-ipvs, "
                   "nft delete table ip6 kube-ipvs"});
  return wanted;
}

std::string module_remedy(const std::string& module, const ModuleFact& fact) {
  switch (fact.state) {
    case ModuleState::missing:
      return module.starts_with("ip_tables") || module.starts_with("ip6_tables") ||
                     module.starts_with("iptable_") || module.starts_with("ip6table_")
                 ? "use --packet-filter=nftables, or a kernel with legacy iptables"
                 : "install it: docs/check.md names packages of some distributions";
    case ModuleState::refused:
      return fmt::format(
          "let `ipvs-proxier --init-only` run before with all privileges, or load it at boot: a "
          "line \"{}\" in /etc/modules-load.d/ipvs-proxier.conf",
          module);
    case ModuleState::unknown:
      return "run the check on the node itself, or with the host's /lib/modules mounted";
    default:
      return "";
  }
}

void judge_modules(const NodeFacts& facts, const Wanted& wanted, bool serves_ipv6,
                   Findings& findings) {
  std::set<std::pair<std::string, Level>> told;
  std::size_t fine = 0;
  for (const auto& need : needs(wanted)) {
    if (need.family == Family::ipv6 && !serves_ipv6) continue;
    const auto fact = fact_of(facts, need);
    if (is_usable(fact.state)) {
      ++fine;
      continue;
    }
    const auto level = level_of(need, fact, wanted);
    if (!told.emplace(need.module, level).second) continue;
    findings.push_back(
        {.level = level,
         .about = "module " + need.module,
         .message = fmt::format("{}: {}; without it {}", verb_of(fact.state), fact.why, need.loss),
         .remedy = module_remedy(need.module, fact)});
  }
  findings.push_back(
      {.level = Level::fine,
       .about = "modules",
       .message = fmt::format("{} of the needed ones are there or can be loaded", fine),
       .remedy = {}});
}

// Options inside IPVS that are no modules of their own.
void judge_options(const NodeFacts& facts, const Wanted& wanted, Findings& findings) {
  const auto& config = facts.config;
  const auto lacks = [&](const char* option) {
    return config.known() && config.value(option).empty() && !config.value("CONFIG_IP_VS").empty();
  };
  const auto tell = [&](Level level, const char* option, const char* loss) {
    findings.push_back(
        {.level = level,
         .about = option,
         .message = fmt::format("this kernel was built without it ({}): {}", config.origin, loss),
         .remedy = {}});
  };
  if (lacks("CONFIG_IP_VS_PROTO_TCP"))
    tell(Level::cannot, "CONFIG_IP_VS_PROTO_TCP", "no TCP port of a Service is served");
  if (lacks("CONFIG_IP_VS_PROTO_UDP"))
    tell(Level::cannot, "CONFIG_IP_VS_PROTO_UDP", "no UDP port of a Service is served");
  if (lacks("CONFIG_IP_VS_NFCT"))
    tell(Level::cannot, "CONFIG_IP_VS_NFCT",
         "IPVS does not track connections, so nothing is masqueraded: there is no sysctl "
         "net/ipv4/vs/conntrack");
  if (lacks("CONFIG_IP_VS_IPV6"))
    tell(level_of_family(wanted, Family::ipv6), "CONFIG_IP_VS_IPV6", "no IPv6 Service is served");
  // The kernel takes virtual services of SCTP even then, and lets their packets pass by
  // (net/netfilter/ipvs/ip_vs_core.c, ip_vs_in_hook: no protocol data).
  if (lacks("CONFIG_IP_VS_PROTO_SCTP") || facts.sctp_symbol == false)
    tell(Level::limit, "CONFIG_IP_VS_PROTO_SCTP", "no SCTP port of a Service is served");
  else if (!config.known() && !facts.sctp_symbol)
    findings.push_back({.level = Level::note,
                        .about = "SCTP",
                        .message = "whether this IPVS handles it is not known before it is loaded: "
                                   "no configuration of this kernel can be read",
                        .remedy = {}});
}

// Whether the daemon would serve IPv6; tells why not.
bool judge_ipv6(const NodeFacts& facts, const Wanted& wanted, Findings& findings) {
  if (facts.has_ipv6 && !facts.ipv6_disabled) return true;
  findings.push_back(
      {.level = level_of_family(wanted, Family::ipv6),
       .about = "IPv6",
       .message =
           facts.has_ipv6
               ? "it is disabled on all links (net/ipv6/conf/*/disable_ipv6): no IPv6 Service is "
                 "served"
               : "this kernel has no IPv6, or its module ipv6 is not loaded: no IPv6 Service "
                 "is served",
       .remedy = {}});
  return false;
}

}  // namespace

void judge_kernel(const NodeFacts& facts, const Wanted& wanted, Findings& findings) {
  findings.push_back(
      {.level = Level::fine,
       .about = "kernel",
       .message = fmt::format("Linux {}; {}", facts.release,
                              facts.config.known() ? "configuration: " + facts.config.origin
                                                   : "its configuration cannot be read"),
       .remedy = {}});
  judge_options(facts, wanted, findings);
  const bool serves_ipv6 = judge_ipv6(facts, wanted, findings);
  judge_modules(facts, settled(facts, wanted, findings), serves_ipv6, findings);
}

}  // namespace ipvsproxier::check
