#pragma once

// What kube-proxy left in the rules for the configurations in test/reference/shop, and the
// parameters that its configurations and objects mean for our catalogue.

#include <map>
#include <string>
#include <vector>

#include "ipset/rules/rule_catalog.h"

namespace ipvsproxier::test {

struct ReferenceConfiguration {
  std::string name;  // folder below test/reference/shop
  netlink::Family family = netlink::Family::ipv4;
  ipset::RuleParameters parameters;
};

// Three configurations of two families, without ping to virtual services (kube-proxy's way).
std::vector<ReferenceConfiguration> reference_configurations();

// Lines "-A CHAIN ..." by table ("filter") and chain, in order.
using SavedRules = std::map<std::string, std::map<std::string, std::vector<std::string>>>;

// Reads what iptables-save printed; lines that are neither a table nor a rule are skipped.
SavedRules parse_saved_rules(const std::string& text);

// The text of iptables.txt or ip6tables.txt.
std::string reference_rules_text(const ReferenceConfiguration& configuration);

// What iptables-save prints of these tables if they are put into empty ones.
SavedRules printed_rules(const std::vector<ipset::TableRules>& tables);

}  // namespace ipvsproxier::test
