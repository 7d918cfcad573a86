#include "cmd/ipvsctl/rules/catalogue.h"

#include <vector>

#include "ipset/nftables/nft_set_elements.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ctl {

using ipset::PacketFilter;
using ipset::RuleParameters;
using ipset::SetId;
using ipset::Table;
using netlink::Family;

namespace {

// Rules of all kinds, for the names of the chains.
RuleParameters all_kinds() {
  RuleParameters parameters{.drop_invalid = true, .localhost = true, .non_empty = {}};
  for (const auto filter : {PacketFilter::iptables, PacketFilter::nftables})
    for (const auto id : ipset::sets_of(filter)) parameters.non_empty.insert(id);
  return parameters;
}

// The rules do not tell which virtual services exclude this node: those with such rules are taken
// to.
void take_addresses(const ipset::WholeTable& table, RuleParameters& parameters) {
  for (const auto& [name, rules] : table.chains) {
    if (name != ipset::kUnorderedChain) continue;
    for (const auto& rule : rules)
      for (const auto& match : rule.matches)
        if (const auto* service = std::get_if<ipset::IpvsMatch>(&match);
            service != nullptr && !std::holds_alternative<ipset::ForeignTarget>(rule.target))
          parameters.out_filter.insert({service->address, service->protocol, service->port});
  }
}

void add_rules(const std::vector<ipset::TableRules>& tables, Table wanted, Catalogue& catalogue) {
  for (const auto& table : tables) {
    if (table.table != wanted) continue;
    for (const auto& chain : table.chains)
      catalogue.chains[chain.name].insert(chain.rules.begin(), chain.rules.end());
    for (const auto& jump : table.jumps) catalogue.jumps[jump.from].insert(jump.rule);
  }
}

// The chains of virtual services with source ranges, as far as they are there. The ranges are
// the elements of the set of the chain's name.
void add_restricted_chains(const ipset::FilterContents& contents, Family family,
                           Catalogue& catalogue) {
  const auto insert = [&](const std::string& name, const std::vector<ipset::Rule>& rules) {
    catalogue.chains[name].insert(rules.begin(), rules.end());
  };
  for (const auto& [name, _] : contents.chains) {
    if (const auto service = ipset::restricted_of(name);
        service && service->address.family() == family) {
      const auto set = contents.sets.find(ipset::ranges_name(*service));
      const auto prefixes = set == contents.sets.end()
                                ? std::nullopt
                                : ipset::prefixes_of(set->second.elements, family);
      insert(name,
             ipset::rules_of_ranges(*service, prefixes.value_or(std::vector<netlink::IpPrefix>{})));
    }
    if (const auto chain = ipset::restricted_chain_of(name);
        chain && chain->service.address.family() == family)
      insert(name, ipset::rules_of(*chain));
  }
}

}  // namespace

Catalogue catalogue_of(const RuleReading& reading, plan::TableKey key) {
  const auto filter =
      key.table == Table::kube_ipvs ? PacketFilter::nftables : PacketFilter::iptables;
  const auto& table = reading.tables.at(key);
  Catalogue catalogue;
  add_rules(ipset::rules_for(filter, key.family, all_kinds()), key.table, catalogue);
  for (auto& [name, rules] : catalogue.chains) rules.clear();
  catalogue.jumps.clear();
  for (const auto& [name, rules] : table.chains)
    if (key.table == Table::nat && ipset::is_of_earlier_build(name)) catalogue.chains[name];
  if (filter == PacketFilter::nftables)
    add_restricted_chains(reading.nft.at(key.family), key.family, catalogue);
  const auto settings = reading.settings.find(key.family);
  const bool in_use = (filter == PacketFilter::nftables) != reading.nft.empty();
  if (settings == reading.settings.end() || !in_use) return catalogue;
  auto parameters = settings->second;
  for (const auto id : ipset::sets_of(filter)) {
    const auto found = reading.sets.find(ipset::set_name(id, key.family));
    if (found != reading.sets.end() && found->second != 0) parameters.non_empty.insert(id);
  }
  take_addresses(table, parameters);
  parameters.unaccelerated = true;
  // While kube-proxy's rules translate destinations ours do not settle them.
  for (const bool keep : {false, true}) {
    parameters.keep_destinations = keep;
    add_rules(ipset::rules_for(filter, key.family, parameters), key.table, catalogue);
  }
  return catalogue;
}

}  // namespace ipvsproxier::ctl
