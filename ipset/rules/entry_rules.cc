#include "ipset/rules/entry_rules.h"

#include <iterator>
#include <string>
#include <utility>

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;
using netlink::IpPrefix;

SetMatch in_set(SetId id, Family family, Direction direction) {
  return {.set = set_name(id, family), .directions = {direction}};
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
    rules.back().matches.emplace_back(in_set(other_endpoints, family, Direction::src));
  }
  return rules;
}

std::optional<Rule> healthz_rule(Family family, const RuleParameters& parameters, SetId healthz) {
  using netlink::Protocol;
  if (!parameters.non_empty.contains(healthz)) return std::nullopt;
  const auto port = parameters.healthz_port;
  return Rule{.protocol = Protocol::tcp,
              .matches = {DestinationPortMatch{Protocol::tcp, port, port},
                          in_set(healthz, family, Direction::dst)},
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

InInterfaceMatch not_through(std::string name, bool is_prefix) {
  if (!is_prefix && name.ends_with('+')) {
    name.pop_back();
    is_prefix = true;
  }
  return {.name = std::move(name), .is_prefix = is_prefix, .negated = true};
}

}  // namespace ipvsproxier::ipset
