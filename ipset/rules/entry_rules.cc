#include "ipset/rules/entry_rules.h"

#include <iterator>
#include <string>
#include <utility>

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;
using netlink::IpPrefix;

SetMatch in_set(SetId id, Family family, std::vector<Direction> directions, bool negated = false) {
  return {.set = set_name(id, family), .directions = std::move(directions), .negated = negated};
}

Match from_node(bool negated) {
  return LocalAddressMatch{.direction = Direction::src, .negated = negated};
}

// What is left for the rules of the Service's own address: clients outside the cluster, pods of
// other nodes at node ports, and clients outside the source ranges, whom the filter table drops.
// The second lookup of the address and port as a source tells whether the ranges hold this node.
void return_others(Family family, const RuleParameters& parameters, std::vector<Rule>& rules) {
  using enum Direction;
  const bool detects = has_detector(family, parameters.detector);
  Rule outside{.matches = {from_node(true)}, .target = Verdict::return_};
  match_pods(outside, family, parameters.detector, true);
  rules.push_back(std::move(outside));
  if (has_far_pods(family, parameters))
    rules.push_back(
        {.source = other_than_own_pods(parameters),
         .matches = {from_node(true), in_set(SetId::ipvs_ips, family, {Direction::dst}, true)},
         .target = Verdict::return_});
  if (!parameters.non_empty.contains(SetId::load_balancer_fw)) return;
  const auto restricted = in_set(SetId::load_balancer_fw, family, {dst, dst});
  rules.push_back(
      {.matches = {restricted, from_node(false),
                   in_set(SetId::load_balancer_source_ip, family, {dst, dst, dst}, true)},
       .target = Verdict::return_});
  if (!detects) return;
  rules.push_back(
      {.matches = {restricted, from_node(true),
                   in_set(SetId::load_balancer_source_cidr, family, {dst, dst, src}, true)},
       .target = Verdict::return_});
}

// All except pods: the answers must come back through this node.
void mark_others(Family family, const RuleParameters& parameters, std::vector<Rule>& rules) {
  const JumpTarget mark{.chain = std::string(kMarkChain)};
  if (parameters.masquerade_all || !has_detector(family, parameters.detector)) {
    rules.push_back({.target = mark});
    return;
  }
  rules.push_back({.matches = {from_node(false)}, .target = mark});
}

}  // namespace

bool has_detector(Family family, const LocalDetector& detector) {
  if (const auto* prefix = std::get_if<IpPrefix>(&detector)) return prefix->family() == family;
  return !std::holds_alternative<std::monostate>(detector);
}

void match_pods(Rule& rule, Family family, const LocalDetector& detector, bool negated) {
  const auto* prefix = std::get_if<IpPrefix>(&detector);
  if (prefix != nullptr && prefix->family() == family)
    rule.source = SourceMatch{.prefix = *prefix, .negated = negated};
  if (const auto* bridge = std::get_if<BridgeInterface>(&detector))
    rule.in_interface = not_through(bridge->name, false);
  if (const auto* interface = std::get_if<InterfacePrefix>(&detector))
    rule.in_interface = not_through(interface->prefix, true);
  if (rule.in_interface) rule.in_interface->negated = negated;
}

std::vector<Rule> invalid_rules(Family family, const RuleParameters& parameters,
                                SetId other_endpoints) {
  std::vector<Rule> rules;
  if (!parameters.drop_invalid) return rules;
  const Rule invalid{.protocol = netlink::Protocol::tcp,
                     .matches = {ConntrackStateMatch{.invalid = true}},
                     .target = Verdict::drop};
  if (has_detector(family, parameters.detector)) {
    rules.push_back(invalid);
    match_pods(rules.back(), family, parameters.detector, false);
  }
  if (parameters.non_empty.contains(other_endpoints)) {
    rules.push_back(invalid);
    rules.back().matches.emplace_back(in_set(other_endpoints, family, {Direction::src}));
  }
  return rules;
}

std::optional<Rule> healthz_rule(Family family, const RuleParameters& parameters, SetId healthz) {
  using netlink::Protocol;
  if (!parameters.non_empty.contains(healthz)) return std::nullopt;
  const auto port = parameters.healthz_port;
  return Rule{.protocol = Protocol::tcp,
              .matches = {DestinationPortMatch{Protocol::tcp, port, port},
                          in_set(healthz, family, {Direction::dst})},
              .target = Verdict::return_};
}

bool has_far_pods(Family family, const RuleParameters& parameters) {
  const auto* prefix = std::get_if<IpPrefix>(&parameters.detector);
  return prefix != nullptr && prefix->family() == family && parameters.own_pods != *prefix;
}

std::optional<SourceMatch> other_than_own_pods(const RuleParameters& parameters) {
  if (!parameters.own_pods) return std::nullopt;
  return SourceMatch{.prefix = *parameters.own_pods, .negated = true};
}

std::vector<Rule> out_filter_rules(Family family, const RuleParameters& parameters) {
  std::vector<Rule> rules;
  for (const auto& entry : parameters.out_filter) {
    if (entry.address.family() != family) continue;
    const IpvsMatch match{.protocol = entry.protocol, .address = entry.address, .port = entry.port};
    Rule rule{.matches = {match}, .target = Verdict::drop};
    if (parameters.vips_are_sources)
      rule.source =
          SourceMatch{.prefix = IpPrefix::of(entry.address, netlink::address_bits(family))};
    else
      rule.matches.emplace_back(LocalAddressMatch{.direction = Direction::src});
    rules.push_back(std::move(rule));
  }
  // Most packets here are those that IPVS sends on. All the rules are about this node's own.
  if (parameters.short_paths && rules.size() > 1) {
    const LocalAddressMatch others{.direction = Direction::src, .negated = true};
    rules.insert(rules.begin(), Rule{.matches = {others}, .target = Verdict::return_});
  }
  return rules;
}

std::vector<Chain> in_cluster_chains(Family family, const RuleParameters& parameters) {
  if (!parameters.non_empty.contains(SetId::in_cluster)) return {};
  auto chains = search_chains(kInClusterChain, family, parameters.in_cluster);
  std::vector<Rule> rules;
  return_others(family, parameters, rules);
  mark_others(family, parameters, rules);
  auto& first = chains.front().rules;
  std::move(first.begin(), first.end(), std::back_inserter(rules));
  first = std::move(rules);
  return chains;
}

InInterfaceMatch not_through(std::string name, bool is_prefix) {
  if (!is_prefix && name.ends_with('+')) {
    name.pop_back();
    is_prefix = true;
  }
  return {.name = std::move(name), .is_prefix = is_prefix, .negated = true};
}

}  // namespace ipvsproxier::ipset
