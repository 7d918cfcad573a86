#include "cmd/ipvsctl/commands.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "cmd/ipvsctl/control_client.h"
#include "cmd/ipvsctl/diff/plan_input.h"
#include "cmd/ipvsctl/explain/consulted_sets.h"
#include "cmd/ipvsctl/explain/node_reading.h"
#include "cmd/kernel_tables.h"
#include "cmd/settings.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_table_claim.h"
#include "ipset/rules/rule_iptc.h"
#include "ipset/sets/set_catalog.h"
#include "proxier/plan/node_info.h"
#include "proxier/plan/planner.h"

namespace ipvsproxier::ctl {

namespace {

using netlink::Result;
using netlink::Status;

// The names of our sets and of the sets that the rules use.
std::set<std::string> set_names_in(const RuleReading& reading) {
  auto names = consulted_sets(reading.tables);
  for (const auto family : netlink::kFamilies)
    for (const auto id : ipset::kIpSetIds) names.insert(ipset::set_name(id, family));
  return names;
}

Status count_elements(ipset::SetTable& table, RuleReading& reading) {
  for (const auto& name : set_names_in(reading)) {
    const auto set = table.list(name);
    // A kind of set that only other programs have.
    if (!set && set.error().kind == netlink::ErrorKind::unsupported) continue;
    if (!set) return set.error();
    if (*set) reading.sets.emplace(name, (*set)->elements.size());
  }
  return {};
}

// Of both families, as one of them tells that our rules are in nf_tables.
Status read_nft(ipset::FilterTable& nftables, RuleReading& reading) {
  for (const auto family : netlink::kFamilies) {
    auto contents = nftables.list(ipset::nft_table_of(family));
    if (!contents) return contents.error();
    const auto claim = ipset::claim_of(*contents, family);
    if (claim != ipset::TableClaim::absent && claim != ipset::TableClaim::foreign)
      take_nft_table(reading, family, **std::move(contents));
  }
  return {};
}

Result<RuleReading> read_rules(const RuleChoice& choice) {
  const auto programmed = cmd::open_programmed_filter();
  if (!programmed) return programmed.error();
  const auto tables = cmd::open_loaded_tables();
  ipset::IptcRuleTable iptables;
  RuleReading reading;
  if (programmed->filter == ipset::PacketFilter::nftables)
    if (auto status = read_nft(*programmed->nftables, reading); !status) return status.error();
  for (const auto family : netlink::kFamilies) {
    if (choice.family.value_or(family) != family) continue;
    if (auto status = read_rule_tables(iptables, family, reading.tables); !status)
      return status.error();
  }
  if (tables.sets)
    if (auto status = count_elements(*tables.sets, reading); !status) return status.error();
  return reading;
}

// What the rules are compared with, except what the sets decide.
Result<std::map<netlink::Family, ipset::RuleParameters>> settings_of_daemon(
    const std::string& socket, ipset::PacketFilter filter) {
  ControlClient daemon(socket);
  const auto options = options_of_daemon(daemon);
  if (!options) return options.error();
  const auto node = node_of_daemon(daemon);
  if (!node) return node.error();
  auto planned =
      cmd::planner_options(*options, {netlink::kFamilies.begin(), netlink::kFamilies.end()});
  planned.packet_filter = filter;
  const auto info = plan::node_info(options->node_name, *node, plan::NodeIps(), {});
  return plan::plan({}, info, planned).state.rules;
}

// What of a table of nf_tables can be restored is printed by nft.
Status can_be_saved(const RuleReading& reading, const RuleChoice& choice) {
  if (reading.nft.empty() ||
      choice.table.value_or(ipset::Table::kube_ipvs) != ipset::Table::kube_ipvs)
    return {};
  return netlink::Error{netlink::ErrorKind::unsupported, 0,
                        "-o save prints rules of iptables, and ours are in nf_tables: use nft list "
                        "table " +
                            netlink::to_string(ipset::nft_table_of(*choice.family))};
}

}  // namespace

Status run_rules(const RuleStyle& style, const TextSink& sink) {
  auto reading = read_rules(style.choice);
  if (!reading) return reading.error();
  const auto& choice = style.choice;
  const bool is_save = style.form == RuleForm::save;
  if (is_save)
    if (auto status = can_be_saved(*reading, choice); !status) return status;
  const bool has_chains = !review_rules(*reading, choice).empty();
  if (!choice.chain.empty() && !has_chains)
    return netlink::Error{netlink::ErrorKind::missing, 0,
                          "there is no chain of the name " + choice.chain};
  if (has_chains && !is_save) {
    const auto filter =
        reading->nft.empty() ? ipset::PacketFilter::iptables : ipset::PacketFilter::nftables;
    auto settings = settings_of_daemon(style.socket, filter);
    if (settings)
      reading->settings = *std::move(settings);
    else
      complain("rules of others are not marked: " + to_string(settings.error()));
  }
  return sink(rules_text(*reading, style));
}

}  // namespace ipvsproxier::ctl
