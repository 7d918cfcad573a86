#include "cmd/ipvs_proxier/cleanup.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ipset/nft/nft_leftovers.h"
#include "ipset/nftables/flow_table.h"
#include "ipset/rules/removal_catalog.h"
#include "ipset/sets/set_catalog.h"
#include "proxier/plan/bindings.h"
#include "proxier/plan/guarded.h"
#include "proxier/plan/localhost.h"
#include "proxier/plan/other_programs.h"
#include "proxier/plan/ownership.h"
#include "proxier/sync/read_back.h"

namespace ipvsproxier::cmd {

namespace {

constexpr std::size_t kMostNamed = 20;

// A set of a kernel without this kind of set is empty; one that cannot be read is absent.
void read_set(ipset::SetTable* table, const plan::SetKey& key, plan::ActualState& traces) {
  std::optional<ipset::ListedSet> set;
  if (table != nullptr) {
    auto listed = table->list(set_name(key.id, key.family));
    if (!listed && listed.error().kind != netlink::ErrorKind::unsupported) return;
    if (listed) set = *std::move(listed);
  }
  auto& elements = traces.sets[key];
  if (set) elements.emplace(set->elements.begin(), set->elements.end());
}

// What tells which virtual services are ours. What cannot be read is absent, and so decides
// nothing; its removal reports the same error.
// `inherited`: addresses of kube-router's link.
plan::ActualState read_traces(const CleanupTables& tables, std::set<netlink::IpAddress>& inherited,
                              CleanupReport& report) {
  plan::ActualState traces;
  if (tables.links != nullptr) {
    sync::BoundAddresses bound;
    if (auto routes = tables.links->list_local_routes()) bound.local_routes = *std::move(routes);
    if (auto addresses = tables.links->list_addresses())
      bound.addresses = *std::move(addresses);
    else
      report.failures.push_back({"list addresses", std::move(addresses.error())});
    sync::take_bindings(bound, {}, traces);
    for (const auto& one : bound.addresses)
      if (one.link == plan::kKubeRouterLink) inherited.insert(one.address);
  }
  for (const auto family : netlink::kFamilies) {
    for (const auto id : ipset::kIpSetIds) read_set(tables.sets, {family, id}, traces);
    for (const auto id : ipset::kNftSetIds) read_set(tables.nft_sets, {family, id}, traces);
  }
  return traces;
}

// Removed first: without the bindings, virtual services are unreachable.
void remove_local_routes(netlink::LinkTable& links, CleanupReport& report) {
  const auto routes = links.list_local_routes();
  if (!routes) {
    report.failures.push_back({"list local routes", routes.error()});
    return;
  }
  std::vector<netlink::AddressOp> ops;
  for (const auto& address : *routes) ops.push_back({.add = false, .address = address});
  const auto statuses = links.apply_local_routes(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (statuses[i])
      ++report.local_routes;
    else
      report.failures.push_back({netlink::local_route_text(ops[i]), statuses[i].error()});
  }
}

void remove_links(netlink::LinkTable& links, bool kube_router, CleanupReport& report) {
  const auto names = links.list_links();
  if (!names) {
    report.failures.push_back({"list links", names.error()});
    return;
  }
  for (const auto& name : *names) {
    const bool is_routers = kube_router && name == plan::kKubeRouterLink;
    if (!plan::dummy_number(name) && !is_routers) continue;
    report.of_kube_router = report.of_kube_router || is_routers;
    auto gone = links.remove_dummy(name);
    if (!gone)
      report.failures.push_back({"remove link " + name, std::move(gone.error())});
    else if (*gone)
      ++report.links;
  }
}

void remove_loop(netlink::LinkTable& links, CleanupReport& report) {
  auto gone =
      links.remove_loop(plan::localhost_links({netlink::Family::ipv4, netlink::Family::ipv6}));
  // Links of these names that are others' are no concern of ours.
  if (!gone && gone.error().kind == netlink::ErrorKind::already) return;
  if (!gone)
    report.failures.push_back({"remove links of node ports on localhost", std::move(gone.error())});
  else if (*gone)
    report.links += 2;
}

// `marking` gets the sets by whose elements another run knows what could not be removed.
void remove_services(netlink::IpvsTable& ipvs, const std::vector<netlink::IpPrefix>& excluded,
                     const std::optional<plan::ActualState>& traces,
                     std::set<netlink::IpAddress> inherited, std::set<std::string>& marking,
                     CleanupReport& report) {
  const auto services = ipvs.list_services();
  if (!services) {
    report.failures.push_back({"list virtual services", services.error()});
    return;
  }
  plan::DesiredState nothing;
  nothing.inherited = std::move(inherited);
  for (const auto family : netlink::kFamilies) nothing.rules[family];
  std::vector<netlink::IpvsOp> ops;
  for (const auto& service : *services) {
    const auto holds = [&](const auto& prefix) { return prefix.contains(service.key.address); };
    if (service.key.fwmark != 0 || std::any_of(excluded.begin(), excluded.end(), holds)) continue;
    if (!traces || owner_of(service.key, nothing, *traces) == plan::Ownership::ours)
      ops.emplace_back(netlink::DeleteService{service.key});
    else
      report.foreign.push_back(service.key);
  }
  const auto statuses = ipvs.apply(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (statuses[i]) {
      ++report.services;
      continue;
    }
    report.failures.push_back({netlink::to_string(ops[i]), statuses[i].error()});
    const auto& key = netlink::service_of(ops[i]);
    for (const auto& [set, element] : plan::elements_of(key))
      if (traces && plan::has_element(*traces, {key.address.family(), set}, element))
        marking.insert(set_name(set, key.address.family()));
  }
}

void remove_rules(ipset::RuleTable& rules, bool kube_router, CleanupReport& report) {
  for (const auto family : netlink::kFamilies)
    for (const auto& removal : ipset::all_removals(family, kube_router)) {
      const auto table = fmt::format("{} table {}", to_string(family), to_string(removal.table));
      auto removed = rules.remove(removal);
      if (!removed) {
        report.failures.push_back({"remove rules of " + table, std::move(removed.error())});
        continue;
      }
      report.jumps += removed->jumps;
      report.chains += removed->chains;
      for (const auto& chain : removed->in_use)
        report.failures.push_back(
            {"remove chain " + chain,
             {.kind = netlink::ErrorKind::busy,
              .where = fmt::format("{}: it {}", table, ipset::in_use_text(chain))}});
    }
}

void remove_nft(ipset::FilterTable& nftables, bool kube_router, CleanupReport& report) {
  for (const auto family : netlink::kFamilies) {
    const auto gone = ipset::remove_nft_leftovers(nftables, family, kube_router);
    if (!gone) {
      report.failures.push_back({"remove what kube-proxy left in nf_tables", gone.error()});
      continue;
    }
    for (const auto& chain : gone->in_use)
      report.failures.push_back({fmt::format("remove chain {} of nf_tables", chain),
                                 {.kind = netlink::ErrorKind::busy,
                                  .where = fmt::format("it {}", ipset::in_use_text(chain))}});
    report.nft_tables += gone->table ? 1 : 0;
    report.jumps += gone->jumps;
    report.chains += gone->chains;
  }
}

void remove_our_nft_table(ipset::RuleTable& rules, CleanupReport& report) {
  for (const auto family : netlink::kFamilies) {
    auto removed = rules.remove({.family = family,
                                 .table = ipset::Table::kube_ipvs,
                                 .jumps = {},
                                 .chains = {},
                                 .prefixes = {}});
    if (!removed) {
      report.failures.push_back(
          {fmt::format("remove {} table kube-ipvs of nf_tables", to_string(family)),
           std::move(removed.error())});
      continue;
    }
    report.nft_tables += removed->chains > 0 ? 1 : 0;
    report.chains += removed->chains;
  }
}

void remove_flow_tables(ipset::FilterTable& nftables, CleanupReport& report) {
  for (const auto family : netlink::kFamilies) {
    const auto removed = ipset::remove_flow_table(nftables, family);
    if (!removed)
      report.failures.push_back(
          {fmt::format("remove {} table {} of nf_tables", to_string(family), ipset::kFlowTable),
           removed.error()});
    report.nft_tables += removed.value_or(false) ? 1 : 0;
  }
}

void remove_set(ipset::SetTable& sets, const std::string& name, CleanupReport& report) {
  // A set of another kind under our name is removed as well.
  auto listed = sets.list(name);
  if (listed && !*listed) return;
  const bool there = listed || listed.error().kind == netlink::ErrorKind::unsupported;
  auto gone = there ? sets.destroy(name) : netlink::Status(std::move(listed.error()));
  if (gone)
    ++report.sets;
  else
    report.failures.push_back({"remove set " + name, std::move(gone.error())});
}

void remove_sets(ipset::SetTable& sets, const std::set<std::string>& marking,
                 CleanupReport& report) {
  for (const auto family : netlink::kFamilies)
    for (const auto id : ipset::kIpSetIds)
      if (const auto name = set_name(id, family); marking.contains(name))
        report.failures.push_back(
            {"remove set " + name,
             {.kind = netlink::ErrorKind::busy,
              .where = "another run knows by it what virtual services are ours"}});
      else
        remove_set(sets, name, report);
  for (const auto family : netlink::kFamilies)
    for (const auto& name : ipset::sets_of_earlier_builds(family)) remove_set(sets, name, report);
  remove_set(sets, ipset::kCopyName, report);
}

void remove_kube_router_sets(ipset::SetTable& sets, CleanupReport& report) {
  const auto before = report.sets;
  for (const auto family : netlink::kFamilies)
    for (const auto& name : ipset::kube_router_sets(family)) remove_set(sets, name, report);
  report.of_kube_router = report.of_kube_router || report.sets > before;
}

}  // namespace

std::string to_string(const CleanupReport& report) {
  auto text = fmt::format(
      "{} links, {} local routes, {} virtual services, {} jumps, {} chains, {} sets, {} nftables "
      "tables",
      report.links, report.local_routes, report.services, report.jumps, report.chains, report.sets,
      report.nft_tables);
  if (const auto count = report.foreign.size(); count > 0) {
    text += fmt::format("; {} virtual services of other programs stay", count);
    for (std::size_t i = 0; i < std::min(count, kMostNamed); ++i)
      text += (i == 0 ? ": " : ", ") + netlink::to_string(report.foreign[i]);
    if (count > kMostNamed) text += ", ...";
  }
  if (report.of_kube_router)
    text +=
        "; of kube-router stay its routes, its network policies, virtual services by firewall mark "
        "and its rules in POSTROUTING of the table nat: kube-router --cleanup-config removes them";
  return text;
}

CleanupReport clean_up(const CleanupTables& tables, const CleanupScope& scope) {
  CleanupReport report;
  std::optional<plan::ActualState> traces;
  std::set<netlink::IpAddress> inherited;
  std::set<std::string> marking;
  if (tables.ipvs != nullptr && !scope.all_services)
    traces = read_traces(tables, inherited, report);
  if (!scope.kube_router) inherited.clear();
  if (tables.links != nullptr) {
    remove_links(*tables.links, scope.kube_router, report);
    remove_local_routes(*tables.links, report);
  }
  if (tables.ipvs != nullptr)
    remove_services(*tables.ipvs, scope.excluded, traces, std::move(inherited), marking, report);
  if (tables.rules != nullptr) remove_rules(*tables.rules, scope.kube_router, report);
  if (tables.nft_rules != nullptr) remove_our_nft_table(*tables.nft_rules, report);
  if (tables.nftables != nullptr) remove_flow_tables(*tables.nftables, report);
  if (tables.nftables != nullptr) remove_nft(*tables.nftables, scope.kube_router, report);
  // After the rules: those would let packets to localhost out by other links.
  if (tables.links != nullptr) remove_loop(*tables.links, report);
  // After the rules: a set that a rule uses cannot be destroyed.
  if (tables.sets != nullptr) remove_sets(*tables.sets, marking, report);
  if (tables.sets != nullptr && scope.kube_router) remove_kube_router_sets(*tables.sets, report);
  return report;
}

}  // namespace ipvsproxier::cmd
