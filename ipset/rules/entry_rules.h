#pragma once

// Rules that depend on the parameters, for rule_catalog.cc and nft_catalog.cc, and the rules of the
// chain KUBE-IPVS-OUT-FILTER of legacy iptables, which drop packets of this node to load balancers
// whose source ranges exclude it. Pure; any thread.

#include <optional>
#include <vector>

#include "ipset/rules/rule_catalog.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

bool has_detector(netlink::Family family, const LocalDetector& detector);
// Adds that the packet is of a pod that the detector recognizes, or `negated`. A detector of the
// other family adds nothing.
void match_pods(Rule& rule, netlink::Family family, const LocalDetector& detector, bool negated);
// The rules that drop invalid packets of pods and of other endpoints, whose set this is.
std::vector<Rule> invalid_rules(netlink::Family family, const RuleParameters& parameters,
                                SetId other_endpoints);
// The rule that leaves the port of our health server open at the addresses of this set; nullopt:
// there are none.
std::optional<Rule> healthz_rule(netlink::Family family, const RuleParameters& parameters,
                                 SetId healthz);

// Whether the detector takes pods of other nodes for pods of this one, as one by source does.
bool has_far_pods(netlink::Family family, const RuleParameters& parameters);
// That the packet is not of a pod of this node; nullopt: they are not known, and no pod is one.
std::optional<SourceMatch> other_than_own_pods(const RuleParameters& parameters);

std::vector<Rule> out_filter_rules(netlink::Family family, const RuleParameters& parameters);

}  // namespace ipvsproxier::ipset
