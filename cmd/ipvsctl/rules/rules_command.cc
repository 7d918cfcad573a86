#include "cmd/ipvsctl/commands.h"

#include <set>
#include <string>

#include "cmd/ipvsctl/explain/consulted_sets.h"
#include "cmd/ipvsctl/explain/node_reading.h"
#include "cmd/kernel_tables.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_table_claim.h"
#include "ipset/rules/rule_iptc.h"
#include "ipset/sets/set_catalog.h"

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
    const auto translates = cmd::kube_proxy_translates(family);
    if (!translates) return translates.error();
    if (*translates) reading.translated.insert(family);
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
  // All tables of a family: the expected rules of one depend on the others.
  for (const auto family : netlink::kFamilies) {
    if (choice.family.value_or(family) != family) continue;
    if (auto status = read_rule_tables(iptables, family, reading.tables); !status)
      return status.error();
  }
  if (tables.sets)
    if (auto status = count_elements(*tables.sets, reading); !status) return status.error();
  return reading;
}

bool has_chain(const RuleReading& reading, const RuleChoice& choice) {
  return !review_rules(reading, choice).empty();
}

}  // namespace

Status run_rules(const RuleStyle& style, const TextSink& sink) {
  const auto reading = read_rules(style.choice);
  if (!reading) return reading.error();
  const auto& choice = style.choice;
  if (!choice.chain.empty() && !has_chain(*reading, choice))
    return netlink::Error{netlink::ErrorKind::missing, 0,
                          "there is no chain of the name " + choice.chain};
  return sink(rules_text(*reading, style));
}

}  // namespace ipvsproxier::ctl
