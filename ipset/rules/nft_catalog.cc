#include "ipset/rules/nft_catalog.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

#include "ipset/rules/entry_rules.h"
#include "ipset/rules/localhost_rules.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::IpPrefix;
using netlink::Protocol;

constexpr std::string_view kKeep = "svc_keep";
constexpr std::string_view kMark = "svc_mark";
constexpr std::string_view kCluster = "svc_cluster";
constexpr std::string_view kLocal = "svc_local";
constexpr std::string_view kAbsent = "svc_absent";
constexpr std::string_view kFromPods = "from_pods";
constexpr std::string_view kInRanges = "in_ranges";
constexpr std::string_view kClassify = "classify";
constexpr std::string_view kToVip = "to_vip";

struct HookRow {
  std::string_view chain;
  ChainHook hook;
};

using Type = ChainHook::Type;
using Hook = ChainHook::Hook;

constexpr std::array<HookRow, 5> kHooks = {{
    {"input", {Type::filter, Hook::input, -5}},
    {"forward", {Type::filter, Hook::forward, -5}},
    {"prerouting", {Type::nat, Hook::prerouting, -105}},
    {"output", {Type::nat, Hook::output, -105}},
    {"postrouting", {Type::nat, Hook::postrouting, 95}},
}};

class Catalog {
 public:
  Catalog(Family family, const RuleParameters& parameters)
      : family_(family), parameters_(parameters) {}

  TableRules run() const {
    auto table = fixed();
    if (auto rules = forward(); !rules.empty())
      table.chains.push_back(chain("forward", std::move(rules)));
    return table;
  }

 private:
  TableRules fixed() const {
    return {.family = family_,
            .table = Table::kube_ipvs,
            .chains = {chain(kKeep, guarded({})), chain(kMark, guarded({mark()})),
                       chain(kCluster, guarded({cluster()})), chain(kLocal, guarded(local())),
                       chain(kAbsent, absent()),
                       chain(kClassify, {{.target = map(SetId::nft_services)}}),
                       chain(kInRanges, in_ranges()), chain(kFromPods, from_pods()),
                       chain(kToVip, to_vip()), chain("input", input()),
                       chain("prerouting", prerouting()), chain("output", output()),
                       chain("postrouting", postrouting())},
            .jumps = {}};
  }

  static Chain chain(std::string_view name, std::vector<Rule> rules) {
    return {.name = std::string(name), .rules = std::move(rules)};
  }
  // A flowtable forwards a connection of IPVS untranslated, as nothing tells conntrack that IPVS
  // translates it. A connection whose destination a rule has changed may be offloaded.
  std::vector<Rule> guarded(std::vector<Rule> rules) const {
    if (!parameters_.unaccelerated) return rules;
    rules.insert(rules.begin(),
                 {.matches = {UntranslatedMatch{}}, .target = UnacceleratedTarget{}});
    return rules;
  }
  static Target jump(std::string_view to) { return JumpTarget{.chain = std::string(to)}; }
  Target map(SetId id) const { return VerdictMapTarget{.map = set_name(id, family_)}; }
  Match in_set(SetId id, std::vector<Direction> directions) const {
    return SetMatch{.set = set_name(id, family_), .directions = std::move(directions)};
  }

  SourceMatch not_loopback() const {
    const auto loopback = *IpPrefix::parse(family_ == Family::ipv4 ? "127.0.0.0/8" : "::1/128");
    return {.prefix = loopback, .negated = true};
  }

  Rule mark() const {
    const auto bit = parameters_.masquerade_mark;
    // Of a later packet nothing would clear the mark: its address translation is settled.
    return {.source = not_loopback(),
            .matches = {ConfirmedMatch{.negated = true}},
            .target = MarkTarget{.value = bit, .mask = bit}};
  }

  Rule cluster() const {
    Rule rule{.target = jump(kMark)};
    if (!parameters_.masquerade_all && !add_detector(rule, true)) rule.matches = {from_this_node()};
    return rule;
  }

  std::vector<Rule> local() const {
    return {{.matches = {LocalAddressMatch{.direction = Direction::src}}, .target = jump(kMark)}};
  }
  std::vector<Rule> absent() const {
    return {{.matches = {LocalAddressMatch{.direction = Direction::src, .negated = true}},
             .target = Verdict::drop},
            {.target = jump(kMark)}};
  }

  // Whether clients within the cluster are sent to other virtual services.
  bool sends_on() const {
    return parameters_.keep_destinations && parameters_.non_empty.contains(SetId::nft_in_cluster);
  }
  Rule send_on() const {
    return {.target = DestinationMapTarget{.map = set_name(SetId::nft_in_cluster, family_)}};
  }

  bool sends_pods_on() const {
    Rule told;
    return sends_on() && add_detector(told, false);
  }

  // Of what is sent on nothing asks for the ranges later. The map leads to chains that come back to
  // who jumped here.
  std::vector<Rule> in_ranges() const {
    if (!sends_pods_on() || !parameters_.non_empty.contains(SetId::nft_source_ranges)) return {};
    return {{.target = map(SetId::nft_source_ranges)}};
  }

  std::vector<Rule> from_pods() const {
    if (!sends_pods_on()) return {};
    std::vector<Rule> rules;
    if (has_far_pods(family_, parameters_))
      rules.push_back({.source = other_than_own_pods(parameters_),
                       .matches = {not_to_vip()},
                       .target = Verdict::return_});
    if (parameters_.non_empty.contains(SetId::nft_source_ranges))
      rules.push_back({.target = jump(kInRanges)});
    rules.push_back(send_on());
    return rules;
  }

  // To an address of this node, at which there are node ports.
  Match not_to_vip() const {
    return SetMatch{
        .set = set_name(SetId::nft_vips, family_), .directions = {Direction::dst}, .negated = true};
  }

  // Not what has another address of this node as its source because its sender chose it.
  Match from_this_node() const {
    if (parameters_.vips_are_sources) return in_set(SetId::nft_vips, {Direction::src});
    return LocalAddressMatch{.direction = Direction::src};
  }

  // Pods, or `others`. False: there is no detector in this family.
  bool add_detector(Rule& rule, bool others) const {
    match_pods(rule, family_, parameters_.detector, others);
    return has_detector(family_, parameters_.detector);
  }

  std::vector<Rule> to_vip() const {
    std::vector<Rule> rules;
    if (parameters_.vip_ping)
      rules.push_back({.matches = {EchoRequestMatch{}}, .target = Verdict::return_});
    rules.push_back({.protocol = Protocol::tcp,
                     .matches = {in_set(SetId::nft_health_ports, {Direction::dst})},
                     .target = Verdict::return_});
    if (auto healthz = healthz_rule(family_, parameters_, SetId::nft_healthz))
      rules.push_back(*std::move(healthz));
    rules.push_back({.matches = {ConntrackStateMatch{.is_new = true}}, .target = RejectTarget{}});
    return rules;
  }

  // On an address that another link has only ports of Services are ours: the map leads each to
  // itself.
  void settle_destination(std::vector<Rule>& rules) const {
    if (!parameters_.keep_destinations) return;
    rules.push_back({.matches = {in_set(SetId::nft_vips, {Direction::dst})},
                     .target = KeepDestinationTarget{}});
    if (parameters_.non_empty.contains(SetId::nft_on_links))
      rules.push_back(
          {.target = DestinationMapTarget{.map = set_name(SetId::nft_on_links, family_)}});
  }

  const LocalhostLoop& loop() const { return localhost_loop(family_); }
  IpPrefix host(const netlink::IpAddress& address) const {
    return IpPrefix::of(address, netlink::address_bits(family_));
  }

  std::vector<Rule> forward() const {
    std::vector<Rule> rules;
    // No packet that is on its way has such a destination here: nobody translated it, or the
    // address is not there.
    if (parameters_.localhost)
      rules = {
          {.destination = host(loop().near), .target = Verdict::drop},
          {.destination = host(loop().server), .target = Verdict::drop},
          {.destination = host(loop().far),
           .in_interface = InInterfaceMatch{.name = std::string(kLoopLinks), .is_prefix = true},
           .target = Verdict::drop}};
    add_invalid(rules);
    return rules;
  }

  void add_invalid(std::vector<Rule>& rules) const {
    auto invalid = invalid_rules(family_, parameters_, SetId::nft_other_endpoints);
    std::ranges::move(invalid, std::back_inserter(rules));
  }

  std::vector<Rule> prerouting() const {
    std::vector<Rule> rules;
    if (parameters_.localhost)
      rules.push_back({.destination = host(loop().near),
                       .target = DestinationTarget{.address = loop().server}});
    if (Rule rule{.target = jump(kFromPods)}; sends_on() && add_detector(rule, false))
      rules.push_back(std::move(rule));
    settle_destination(rules);
    return rules;
  }

  void add_guard_of_loop(std::vector<Rule>& rules) const {
    rules.push_back({.destination = host(loop().server),
                     .in_interface = InInterfaceMatch{.name = std::string(kSecondLoopLink),
                                                      .is_prefix = false,
                                                      .negated = true},
                     .target = Verdict::drop});
    rules.push_back({.source = SourceMatch{.prefix = host(loop().far), .negated = true},
                     .destination = host(loop().server),
                     .target = Verdict::drop});
  }

  std::vector<Rule> input() const {
    std::vector<Rule> rules;
    if (parameters_.localhost) add_guard_of_loop(rules);
    const ConntrackStateMatch known{.related = true, .established = true};
    // A range that goes cuts connections.
    if (parameters_.non_empty.contains(SetId::nft_source_ranges))
      rules.push_back({.matches = {known}, .target = map(SetId::nft_source_ranges)});
    rules.push_back({.matches = {known}, .target = Verdict::accept});
    add_invalid(rules);
    // Packets to a virtual service do not come back from here.
    rules.push_back({.target = map(SetId::nft_services)});
    rules.push_back(
        {.matches = {in_set(SetId::nft_vips, {Direction::dst})}, .target = jump(kToVip)});
    return rules;
  }

  std::vector<Rule> output() const {
    std::vector<Rule> rules{{.target = jump(kClassify)}};
    if (sends_on()) {
      rules.push_back(send_on());
      rules.back().source = not_loopback();
    }
    settle_destination(rules);
    if (parameters_.keep_destinations && parameters_.localhost &&
        parameters_.non_empty.contains(SetId::nft_localhost))
      rules.push_back(
          {.source = SourceMatch{.prefix = loop().sources},
           .destination = host(loop().localhost),
           .target = DestinationMapTarget{.map = set_name(SetId::nft_localhost, family_)}});
    return rules;
  }

  std::vector<Rule> postrouting() const {
    const auto bit = parameters_.masquerade_mark;
    std::vector<Rule> rules;
    if (parameters_.localhost)
      rules.push_back({.source = SourceMatch{.prefix = loop().sources},
                       .destination = host(loop().near),
                       .target = SourceTarget{.address = loop().far}});
    rules.push_back({.matches = {MarkMatch{.value = bit, .mask = bit}},
                     .target = MasqueradeTarget{.random_fully = true, .clears = bit}});
    rules.push_back({.matches = {in_set(SetId::nft_hairpins, {Direction::src, Direction::dst})},
                     .target = MasqueradeTarget{}});
    return rules;
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
    case ServiceVerdict::local:
      return kLocal;
    case ServiceVerdict::absent:
      return kAbsent;
  }
  return kMark;
}

std::string_view name_in_table(std::string_view set) {
  return set.substr(set.rfind(' ') + 1);
}

bool asks_for_port(const Rule& rule, const SetMatch& match) {
  const bool names_port = std::ranges::any_of(rule.matches, [](const Match& one) {
    return std::holds_alternative<DestinationPortMatch>(one);
  });
  return rule.protocol && match.directions == std::vector{Direction::dst} && !names_port;
}

namespace {

template <typename Wanted>
bool has_target(const TableRules& rules) {
  return std::ranges::any_of(rules.chains, [](const Chain& chain) {
    return std::ranges::any_of(
        chain.rules, [](const Rule& rule) { return std::holds_alternative<Wanted>(rule.target); });
  });
}

}  // namespace

bool keeps_destinations(const TableRules& rules) {
  return has_target<KeepDestinationTarget>(rules);
}

bool keeps_unaccelerated(const TableRules& rules) {
  return has_target<UnacceleratedTarget>(rules);
}

TableRules nft_rules(Family family, const RuleParameters& parameters) {
  return Catalog(family, parameters).run();
}

}  // namespace ipvsproxier::ipset
