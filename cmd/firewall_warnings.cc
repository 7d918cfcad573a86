#include "cmd/firewall_warnings.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "cmd/kernel_tables.h"
#include "cmd/packet_filter_facts.h"
#include "ipset/nftables/filter_kernel.h"
#include "ipset/rules/rule_iptc.h"
#include "netlink/ipvs/ipvs_reader_kernel.h"
#include "netlink/kernel_module.h"

namespace ipvsproxier::cmd {

namespace {

using ipset::FirewallWarning;
using netlink::Family;

// Whether a rule of the chain may let something pass, in itself or in a chain that it leads to.
bool may_accept(const ipset::WholeTable& table, std::string_view chain) {
  const auto rules = table.chains.find(std::string(chain));
  if (rules == table.chains.end()) return false;
  return std::ranges::any_of(rules->second, [](const ipset::Rule& rule) {
    const auto* const verdict = std::get_if<ipset::Verdict>(&rule.target);
    const auto* const jump = std::get_if<ipset::JumpTarget>(&rule.target);
    const bool is_foreign = std::holds_alternative<ipset::ForeignTarget>(rule.target);
    return (verdict != nullptr && *verdict == ipset::Verdict::accept) ||
           (jump != nullptr && !jump->chain.starts_with("KUBE-")) || is_foreign;
  });
}

void add_legacy(Family family, ipset::PacketFilter filter, std::vector<FirewallWarning>& warnings) {
  struct Row {
    std::string_view chain;
    std::string_view what;
    std::string_view rule;
  };
  constexpr std::array<Row, 2> kRows = {
      {{"INPUT", "what comes for Services", "-d SERVICE_ADDRESSES -j ACCEPT"},
       {"FORWARD", "what pods answer", "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"}}};
  const auto whole = ipset::IptcRuleTable({.dry_run = true}).read(family, ipset::Table::filter);
  if (!whole || !*whole) return;
  for (const auto& [chain, what, rule] : kRows) {
    if (chain == "FORWARD" && filter == ipset::PacketFilter::iptables) continue;
    const auto policy = (*whole)->policies.find(std::string(chain));
    if (policy == (*whole)->policies.end() || policy->second != ipset::Verdict::drop) continue;
    const bool may = may_accept(**whole, chain);
    warnings.push_back(
        {.drops = !may,
         .chain = fmt::format("legacy {} {}", netlink::to_string(family), chain),
         .text = fmt::format("legacy {} table filter: chain {} {} {} by its policy, and no rule of "
                             "another table can let it through; add: {} -I {} {}",
                             netlink::to_string(family), chain, may ? "may drop" : "drops", what,
                             family == Family::ipv4 ? "iptables-legacy" : "ip6tables-legacy", chain,
                             rule)});
  }
}

// With one of its real servers, of as many as are judged.
netlink::Status add_sample(netlink::IpvsReader& reader, const netlink::ServiceReading& one,
                           std::vector<ipset::FirewallSample>& samples) {
  const auto& key = one.service.key;
  if (key.fwmark != 0) return {};
  ipset::FirewallSample sample{
      .address = key.address, .protocol = key.protocol, .port = key.port, .server = {}};
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

netlink::Result<std::vector<FirewallWarning>> firewall_warnings(
    ipset::PacketFilter filter, const std::vector<ipset::FirewallSample>& samples) {
  std::vector<FirewallWarning> warnings;
  if (netlink::module_present("nf_tables")) {
    const auto nftables = ipset::KernelFilterTable::open();
    if (!nftables) return nftables.error();
    auto found = ipset::find_firewall_warnings(**nftables, samples);
    if (!found) return found;
    warnings = *std::move(found);
  }
  for (const auto family : netlink::kFamilies)
    if (uses_legacy_iptables()) add_legacy(family, filter, warnings);
  return warnings;
}

netlink::Result<std::vector<FirewallWarning>> loaded_firewall_warnings() {
  const auto programmed = open_programmed_filter();
  if (!programmed) return programmed.error();
  std::vector<ipset::FirewallSample> samples;
  const auto reader =
      netlink::module_present("ip_vs") ? netlink::KernelIpvsReader::open() : netlink::Error{};
  if (reader) {
    const auto read = (*reader)->services(
        [&](const netlink::ServiceReading& one) { return add_sample(**reader, one, samples); });
    if (!read) return read.error();
  }
  return firewall_warnings(programmed->filter, samples);
}

}  // namespace ipvsproxier::cmd
