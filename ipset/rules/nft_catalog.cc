#include "ipset/rules/nft_catalog.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace ipvsproxier::ipset {

namespace {

using netlink::IpPrefix;
using netlink::Protocol;

constexpr std::string_view kKeep = "svc_keep";
constexpr std::string_view kMark = "svc_mark";
constexpr std::string_view kCluster = "svc_cluster";
constexpr std::string_view kMarkRestricted = "svc_mark_ranges";
constexpr std::string_view kClusterRestricted = "svc_cluster_ranges";
constexpr std::string_view kClassify = "classify";
constexpr std::string_view kToVip = "to_vip";

struct HookRow {
  std::string_view chain;
  ChainHook hook;
};

using Type = ChainHook::Type;
using Hook = ChainHook::Hook;

constexpr std::array<HookRow, 4> kHooks = {{
    {"input", {Type::filter, Hook::input, -5}},
    {"prerouting", {Type::nat, Hook::prerouting, -105}},
    {"output", {Type::nat, Hook::output, -105}},
    {"postrouting", {Type::nat, Hook::postrouting, 95}},
}};

class Catalog {
 public:
  Catalog(Family family, const RuleParameters& parameters)
      : family_(family), parameters_(parameters) {}

  TableRules run() const {
    return {.family = family_,
            .table = Table::kube_ipvs,
            .chains = {chain(kKeep, {}), chain(kMark, {mark()}), chain(kCluster, {cluster()}),
                       chain(kMarkRestricted, restricted(kMark)),
                       chain(kClusterRestricted, restricted(kCluster)),
                       chain(kClassify, {{.target = map(SetId::nft_services)}}),
                       chain(kToVip, to_vip()), chain("input", input()),
                       chain("prerouting", prerouting()), chain("output", output()),
                       chain("postrouting", postrouting())},
            .jumps = {}};
  }

 private:
  static Chain chain(std::string_view name, std::vector<Rule> rules) {
    return {.name = std::string(name), .rules = std::move(rules)};
  }
  static Target jump(std::string_view to) { return JumpTarget{.chain = std::string(to)}; }
  Target map(SetId id) const { return VerdictMapTarget{.map = set_name(id, family_)}; }
  Match in_set(SetId id, std::vector<Direction> directions) const {
    return SetMatch{.set = set_name(id, family_), .directions = std::move(directions)};
  }

  Rule mark() const {
    const auto bit = parameters_.masquerade_mark;
    const auto loopback = *IpPrefix::parse(family_ == Family::ipv4 ? "127.0.0.0/8" : "::1/128");
    // Of a later packet nothing would clear the mark: its address translation is settled.
    return {.source = SourceMatch{.prefix = loopback, .negated = true},
            .matches = {ConfirmedMatch{.negated = true}},
            .target = MarkTarget{.value = bit, .mask = bit}};
  }

  Rule cluster() const {
    Rule rule{.target = jump(kMark)};
    if (!parameters_.masquerade_all && !add_detector(rule)) rule.matches = {from_this_node()};
    return rule;
  }

  std::vector<Rule> restricted(std::string_view chain) const {
    return {{.target = jump(chain)}, {.target = map(SetId::nft_source_ranges)}};
  }

  // Not what has another address of this node as its source because its sender chose it.
  Match from_this_node() const {
    if (parameters_.vips_are_sources) return in_set(SetId::nft_vips, {Direction::src});
    return LocalAddressMatch{.direction = Direction::src};
  }

  // False: there is no detector in this family.
  bool add_detector(Rule& rule) const {
    const auto& detector = parameters_.detector;
    const auto* prefix = std::get_if<IpPrefix>(&detector);
    if (prefix != nullptr && prefix->family() == family_)
      rule.source = SourceMatch{.prefix = *prefix, .negated = true};
    else if (const auto* bridge = std::get_if<BridgeInterface>(&detector))
      rule.in_interface = not_through(bridge->name, false);
    else if (const auto* interface = std::get_if<InterfacePrefix>(&detector))
      rule.in_interface = not_through(interface->prefix, true);
    else
      return false;
    return true;
  }

  std::vector<Rule> to_vip() const {
    std::vector<Rule> rules;
    if (parameters_.vip_ping)
      rules.push_back({.matches = {EchoRequestMatch{}}, .target = Verdict::return_});
    rules.push_back({.protocol = Protocol::tcp,
                     .matches = {in_set(SetId::nft_health_ports, {Direction::dst})},
                     .target = Verdict::return_});
    rules.push_back({.matches = {ConntrackStateMatch{.is_new = true}}, .target = RejectTarget{}});
    return rules;
  }

  void settle_destination(std::vector<Rule>& rules) const {
    if (parameters_.keep_destinations)
      rules.push_back({.matches = {in_set(SetId::nft_vips, {Direction::dst})},
                       .target = KeepDestinationTarget{}});
  }

  std::vector<Rule> prerouting() const {
    std::vector<Rule> rules;
    settle_destination(rules);
    return rules;
  }

  std::vector<Rule> input() const {
    std::vector<Rule> rules;
    const ConntrackStateMatch known{.related = true, .established = true};
    // A range that goes cuts connections.
    if (parameters_.non_empty.contains(SetId::nft_source_ranges))
      rules.push_back({.matches = {known}, .target = map(SetId::nft_source_ranges)});
    rules.push_back({.matches = {known}, .target = Verdict::accept});
    // Packets to a virtual service do not come back from here.
    rules.push_back({.target = map(SetId::nft_services)});
    rules.push_back(
        {.matches = {in_set(SetId::nft_vips, {Direction::dst})}, .target = jump(kToVip)});
    return rules;
  }

  std::vector<Rule> output() const {
    std::vector<Rule> rules{{.target = jump(kClassify)}};
    settle_destination(rules);
    return rules;
  }

  std::vector<Rule> postrouting() const {
    const auto bit = parameters_.masquerade_mark;
    return {{.matches = {MarkMatch{.value = bit, .mask = bit}},
             .target = MasqueradeTarget{.random_fully = true, .clears = bit}},
            {.matches = {in_set(SetId::nft_hairpins, {Direction::src, Direction::dst})},
             .target = MasqueradeTarget{}}};
  }

  Family family_;
  const RuleParameters& parameters_;
};

}  // namespace

std::optional<ChainHook> hook_of(std::string_view chain) {
  for (const auto& row : kHooks)
    if (row.chain == chain) return row.hook;
  return std::nullopt;
}

std::string_view chain_of(ServiceVerdict verdict) {
  switch (verdict) {
    case ServiceVerdict::keep:
      return kKeep;
    case ServiceVerdict::mark:
    case ServiceVerdict::foreign:
      return kMark;
    case ServiceVerdict::cluster:
      return kCluster;
  }
  return kMark;
}

std::string_view restricted_chain_of(ServiceVerdict verdict) {
  return verdict == ServiceVerdict::cluster ? kClusterRestricted : kMarkRestricted;
}

std::string_view name_in_table(std::string_view set) {
  return set.substr(set.rfind(' ') + 1);
}

bool keeps_destinations(const TableRules& rules) {
  return std::ranges::any_of(rules.chains, [](const Chain& chain) {
    return std::ranges::any_of(chain.rules, [](const Rule& rule) {
      return std::holds_alternative<KeepDestinationTarget>(rule.target);
    });
  });
}

TableRules nft_rules(Family family, const RuleParameters& parameters) {
  return Catalog(family, parameters).run();
}

}  // namespace ipvsproxier::ipset
