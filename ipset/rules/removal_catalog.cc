#include "ipset/rules/removal_catalog.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "ipset/rules/localhost_rules.h"
#include "ipset/rules/rule_catalog.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;

constexpr std::string_view kServicesChain = "KUBE-SERVICES";
constexpr std::string_view kServicesAside = "KUBE-SERVICES-IPTABLES";
constexpr std::string_view kServicesComment = "kubernetes service portals";
constexpr std::string_view kCanary = "KUBE-PROXY-CANARY";

struct PatternRow {
  std::string_view to;
  std::string_view comment;
};

struct TableRow {
  Table table;
  std::span<const PatternRow> jumps;
  std::span<const std::string_view> chains;
  std::span<const std::string_view> prefixes;
};

constexpr std::array<PatternRow, 4> kFilterPatterns = {{
    {"KUBE-EXTERNAL-SERVICES", "kubernetes externally-visible service portals"},
    {"KUBE-NODEPORTS", "kubernetes health check service ports"},
    {kServicesChain, kServicesComment},
    {"KUBE-PROXY-FIREWALL", "kubernetes load balancer firewall"},
}};
constexpr std::array<PatternRow, 1> kNatPatterns = {{{kServicesAside, kServicesComment}}};

constexpr std::array<std::string_view, 4> kFilterLeft = {kServicesChain, "KUBE-EXTERNAL-SERVICES",
                                                         "KUBE-NODEPORTS", kCanary};
constexpr std::array<std::string_view, 3> kNatLeft = {kServicesAside, "KUBE-NODEPORTS", kCanary};
constexpr std::array<std::string_view, 1> kMangleLeft = {kCanary};

// Chains for each service port, each endpoint and more. Kubernetes 1.23 dropped KUBE-XLB-.
constexpr std::array<std::string_view, 6> kNatPrefixes = {"KUBE-SVC-", "KUBE-SVL-", "KUBE-FW-",
                                                          "KUBE-EXT-", "KUBE-XLB-", "KUBE-SEP-"};

constexpr std::array<TableRow, 3> kTableRows = {{
    {Table::filter, kFilterPatterns, kFilterLeft, {}},
    {Table::nat, kNatPatterns, kNatLeft, kNatPrefixes},
    {Table::mangle, {}, kMangleLeft, {}},
}};

void add_ours(const TableRules& ours, RuleRemoval& removal) {
  for (const auto& chain : ours.chains) removal.chains.push_back(chain.name);
  for (const auto& jump : ours.jumps)
    removal.jumps.push_back(
        {.to = std::get<JumpTarget>(jump.rule.target).chain, .comment = jump.rule.comment});
  if (ours.table == Table::nat) removal.of_earlier_builds = true;
}

}  // namespace

std::vector<RuleRemoval> iptables_mode_removals(Family family) {
  std::vector<RuleRemoval> removals;
  for (const auto& row : kTableRows) {
    RuleRemoval removal{.family = family, .table = row.table};
    for (const auto& jump : row.jumps)
      removal.jumps.push_back({std::string(jump.to), std::string(jump.comment)});
    removal.chains.assign(row.chains.begin(), row.chains.end());
    removal.prefixes.assign(row.prefixes.begin(), row.prefixes.end());
    removals.push_back(std::move(removal));
  }
  return removals;
}

RuleRemoval translation_chains(Family family) {
  return {
      .family = family, .table = Table::nat, .jumps = {}, .chains = {}, .prefixes = {"KUBE-SEP-"}};
}

std::vector<RuleRemoval> all_removals(Family family, bool kube_router) {
  auto removals = iptables_mode_removals(family);
  for (const auto& ours : rules_for(family, {}))
    for (auto& removal : removals)
      if (removal.table == ours.table) add_ours(ours, removal);
  if (!kube_router) return removals;
  for (const auto& routers : kube_router_removals(family))
    for (auto& removal : removals) {
      if (removal.table != routers.table) continue;
      removal.jumps.insert(removal.jumps.end(), routers.jumps.begin(), routers.jumps.end());
      removal.chains.insert(removal.chains.end(), routers.chains.begin(), routers.chains.end());
    }
  return removals;
}

std::vector<RuleRemoval> kube_router_removals(Family family) {
  const auto one = [family](Table table, const std::string& chain) {
    return RuleRemoval{.family = family,
                       .table = table,
                       .jumps = {{.to = chain, .comment = {}}},
                       .chains = {chain},
                       .prefixes = {}};
  };
  return {one(Table::filter, std::string(kRouterServices)), one(Table::nat, "KUBE-ROUTER-HAIRPIN")};
}

std::vector<std::string> kube_router_sets(Family family) {
  std::vector<std::string> names;
  for (const auto* name : {"kube-router-svip-prt", "kube-router-svip", "kube-router-local-ips",
                           "kube-router-ipvs-services", "kube-router-service-ips"})
    names.push_back(std::string(family == Family::ipv4 ? "" : "inet6:") + name);
  return names;
}

std::vector<std::string> sets_of_earlier_builds(Family family) {
  std::vector<std::string> names;
  for (const auto* name : {"IN-CLUSTER", "IN-CLUSTER-ONLY", "LOCALHOST"})
    names.push_back(std::string(family == Family::ipv4 ? "KUBE-" : "KUBE-6-") + name);
  return names;
}

bool is_of_earlier_build(const Rule& rule, Family family) {
  const auto& loop = localhost_loop(family).all;
  if (rule.destination && loop.contains(rule.destination->address)) return true;
  if (const auto* jump = std::get_if<JumpTarget>(&rule.target);
      jump != nullptr && is_of_earlier_build(jump->chain))
    return true;
  const auto sets = sets_of_earlier_builds(family);
  return std::ranges::any_of(looked_up_by(rule), [&](const std::string& set) {
    return std::ranges::find(sets, set) != sets.end();
  });
}

ChainMove services_move() {
  return {.jump = {std::string(kServicesChain), std::string(kServicesComment)},
          .aside = std::string(kServicesAside)};
}

}  // namespace ipvsproxier::ipset
