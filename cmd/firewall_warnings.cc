#include "cmd/firewall_warnings.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "cmd/packet_filter_facts.h"
#include "ipset/nft/flow_rules.h"
#include "ipset/nft/program_leftovers.h"
#include "ipset/nftables/flow_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/rules/rule_iptc.h"
#include "netlink/ipvs/ipvs_reader_kernel.h"
#include "netlink/kernel_module.h"

namespace ipvsproxier::cmd {

namespace {

using ipset::FirewallLook;
using ipset::LookBudget;
using netlink::Family;

// Of somebody who asks, and waits for the answer.
constexpr std::chrono::seconds kLongestAnswer{1};

// Tables that are there, without `filter`, which add_legacy() reads.
void add_leftovers(Family family, FirewallLook& look) {
  using enum ipset::Table;
  ipset::IptcRuleTable rules({.dry_run = true});
  for (const auto table : {raw, nat}) {
    const auto whole = rules.read(family, table, LookBudget::kRules);
    if (whole && *whole)
      std::ranges::move(ipset::find_program_leftovers(family, table, **whole),
                        std::back_inserter(look.warnings));
  }
}

void add_legacy(Family family, ipset::PacketFilter filter,
                const std::vector<ipset::FirewallSample>& samples,
                std::chrono::milliseconds longest, FirewallLook& look) {
  const auto whole = ipset::IptcRuleTable({.dry_run = true})
                         .read(family, ipset::Table::filter, LookBudget::kRules);
  if (!whole) look.unjudged[ipset::legacy_table_name(family)] = netlink::to_string(whole.error());
  if (!whole || !*whole) return;
  std::ranges::move(ipset::find_program_leftovers(family, ipset::Table::filter, **whole),
                    std::back_inserter(look.warnings));
  LookBudget budget(LookBudget::kSteps, 0, LookBudget::Clock::now() + longest);
  auto found = ipset::find_legacy_warnings(family, **whole, filter, samples, budget);
  std::ranges::move(found.warnings, std::back_inserter(look.warnings));
  look.unjudged.merge(found.unjudged);
  look.was_late = look.was_late || found.was_late;
}

// With one of its real servers, of as many as are judged.
netlink::Status add_sample(netlink::IpvsReader& reader, const netlink::ServiceReading& one,
                           std::vector<ipset::FirewallSample>& samples) {
  const auto& key = one.service.key;
  if (key.fwmark != 0) return {};
  ipset::FirewallSample sample{.address = key.address,
                               .protocol = key.protocol,
                               .port = key.port,
                               .server = {},
                               .is_node_port = ipset::is_usual_node_port(key.port)};
  if (samples.size() < 2 * ipset::kMostFirewallSamples) {
    auto read = reader.servers(key, [&](const netlink::ServerReading& each) -> netlink::Status {
      sample.server = each.listed.server.key.address;
      sample.server_port = each.listed.server.key.port;
      return {};
    });
    if (!read) return read;
  }
  samples.push_back(sample);
  return {};
}

}  // namespace

netlink::Result<FirewallLook> firewall_warnings(MayLoad may_load, ipset::PacketFilter filter,
                                                const std::vector<ipset::FirewallSample>& samples,
                                                std::chrono::milliseconds longest) {
  FirewallLook look;
  const auto nftables = open_nftables(may_load);
  if (!nftables) return nftables.error();
  if (*nftables) {
    LookBudget budget(LookBudget::kSteps, LookBudget::kRules, LookBudget::Clock::now() + longest);
    auto found = ipset::find_firewall_warnings(**nftables, filter, samples, budget);
    if (!found) return found;
    look = *std::move(found);
  }
  if (uses_legacy_iptables())
    for (const auto family : netlink::kFamilies) {
      add_leftovers(family, look);
      add_legacy(family, filter, samples, longest, look);
    }
  return look;
}

netlink::Result<ipset::UntrackedLook> untracked_ports(MayLoad may_load,
                                                      const std::set<netlink::IpAddress>& addresses,
                                                      std::chrono::milliseconds longest) {
  ipset::UntrackedLook look;
  if (addresses.empty()) return look;
  const auto budget_of = [longest](std::size_t rules) {
    return LookBudget(LookBudget::kSteps, rules, LookBudget::Clock::now() + longest);
  };
  const auto nftables = open_nftables(may_load);
  if (!nftables) return nftables.error();
  if (*nftables) {
    auto budget = budget_of(LookBudget::kRules);
    auto found = ipset::find_untracked_ports(**nftables, addresses, budget);
    if (!found) return found;
    look = *std::move(found);
  }
  for (const auto family : netlink::kFamilies) {
    const auto whole =
        ipset::IptcRuleTable({.dry_run = true}).read(family, ipset::Table::raw, LookBudget::kRules);
    if (!whole) look.unjudged[ipset::legacy_raw_name(family)] = netlink::to_string(whole.error());
    if (!whole || !*whole) continue;
    auto budget = budget_of(0);
    auto found = ipset::find_legacy_untracked_ports(family, **whole, addresses, budget);
    std::ranges::move(found.ports, std::back_inserter(look.ports));
    look.unjudged.merge(found.unjudged);
  }
  std::ranges::sort(look.ports);
  return look;
}

netlink::Result<FirewallLook> loaded_firewall_warnings(const ProgrammedFilter& programmed) {
  std::vector<ipset::FirewallSample> samples;
  const auto has_ipvs = netlink::kernel_has_module("ip_vs");
  if (!has_ipvs) return has_ipvs.error();
  const auto reader = *has_ipvs ? netlink::KernelIpvsReader::open() : netlink::Error{};
  if (reader) {
    const auto read = (*reader)->services(
        [&](const netlink::ServiceReading& one) { return add_sample(**reader, one, samples); });
    if (!read) return read.error();
  }
  return firewall_warnings(MayLoad::no, programmed.filter, samples, kLongestAnswer);
}

netlink::Result<std::vector<FlowRuleFact>> loaded_flow_rules(const ProgrammedFilter& programmed) {
  std::vector<FlowRuleFact> facts;
  if (!programmed.nftables) return facts;
  auto& nftables = *programmed.nftables;
  const auto rules = nftables.list_flow_rules();
  if (!rules) return rules.error();
  for (const auto& rule : *rules) {
    const bool native = programmed.filter == ipset::PacketFilter::nftables;
    bool guarded = true;
    for (const auto family : ipset::families_of_flows({rule})) {
      const auto ours = ipset::nft_table_of(family);
      if (!native)
        guarded = guarded && ipset::has_flow_table(nftables, family).value_or(false);
      else if (guarded && nftables.list_frame(ours).value_or(std::nullopt))
        guarded = nftables.find_expectation(ours, std::string(ipset::kUnaccelerated))
                      .value_or(std::nullopt)
                      .has_value();
    }
    const auto* why = native ? "our rules against it are not there (the daemon's log says why)"
                             : "our table kube-ipvs-flows is not there (a daemon makes it, except "
                               "with --kube-proxy-compat)";
    facts.push_back({ipset::text_of_flow_rule(rule, guarded ? "" : why), guarded});
  }
  return facts;
}

}  // namespace ipvsproxier::cmd
