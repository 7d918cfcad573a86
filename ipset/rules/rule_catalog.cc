#include "ipset/rules/rule_catalog.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "ipset/rules/entry_rules.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;
using netlink::IpPrefix;
using netlink::Protocol;

// Which addresses and ports of a packet are looked up in the set.
enum class Lookup : std::uint8_t { dst, dst_dst, dst_dst_src, src_dst };

enum class RowAction : std::uint8_t {
  accept,
  drop,
  return_,
  reject,
  jump,
  masquerade,
  masquerade_random,
  set_mark,
  clear_mark,
};

enum class Comment : std::uint8_t { none, of_set, text };

// A further condition of a row besides its set; see `refine`.
enum class Extra : std::uint8_t {
  none,
  from_loopback,
  from_this_node,
  not_from_pod,
  not_forwarded_by_bridge,  // neither through a bridge port nor from this node
  to_this_node,
  marked,
  not_marked,
  known_connection,
  new_connection,
  echo_request,
};

// The condition under which a row becomes a rule.
enum class When : std::uint8_t {
  always,
  set_non_empty,
  masquerade_all,  // this and the next three: the ways to masquerade traffic to cluster IPs
  detector,
  no_detector,
  no_detector_nor_source,  // no detector, and virtual addresses are not used as sources
  vip_ping,
  known_leave,
};

struct Row {
  std::string_view chain;
  When when = When::always;
  std::optional<Protocol> protocol = std::nullopt;
  std::optional<SetId> set = std::nullopt;
  Lookup lookup = Lookup::dst_dst;
  Comment comment = Comment::none;
  std::string_view text = "";
  Extra extra = Extra::none;
  RowAction action = RowAction::return_;
  std::string_view to = "";  // chain of a jump
};

constexpr std::string_view kServices = "KUBE-SERVICES";
constexpr std::string_view kPostrouting = "KUBE-POSTROUTING";
constexpr std::string_view kNodePort = "KUBE-NODE-PORT";
constexpr std::string_view kLoadBalancer = "KUBE-LOAD-BALANCER";
constexpr std::string_view kMarkMasq = kMarkChain;
constexpr std::string_view kForward = "KUBE-FORWARD";
constexpr std::string_view kProxyFirewall = "KUBE-PROXY-FIREWALL";
constexpr std::string_view kSourceRanges = "KUBE-SOURCE-RANGES-FIREWALL";
constexpr std::string_view kIpvsFilter = "KUBE-IPVS-FILTER";
constexpr std::string_view kOutFilter = kUnorderedChain;

constexpr std::array kNatChains = {kServices, kPostrouting, kNodePort, kLoadBalancer, kMarkMasq};
constexpr std::array kFilterChains = {kForward,      kNodePort,   kProxyFirewall,
                                      kSourceRanges, kIpvsFilter, kOutFilter};

struct JumpRow {
  std::string_view from;
  std::string_view to;
  std::string_view comment;
};

constexpr std::array<JumpRow, 3> kNatJumps = {{
    {"OUTPUT", kServices, "kubernetes service portals"},
    {"PREROUTING", kServices, "kubernetes service portals"},
    {"POSTROUTING", kPostrouting, "kubernetes postrouting rules"},
}};
constexpr std::array<JumpRow, 6> kFilterJumps = {{
    {"FORWARD", kForward, "kubernetes forwarding rules"},
    {"INPUT", kNodePort, "kubernetes health check rules"},
    {"INPUT", kProxyFirewall, "kube-proxy firewall rules"},
    {"FORWARD", kProxyFirewall, "kube-proxy firewall rules"},
    {"INPUT", kIpvsFilter, "kubernetes ipvs access filter"},
    {"OUTPUT", kOutFilter, "kubernetes ipvs access filter"},
}};

// A rule that exists while its set has elements, with the set's comment.
constexpr Row with_set(std::string_view chain, SetId set, RowAction action,
                       std::string_view to = "") {
  return {.chain = chain,
          .when = When::set_non_empty,
          .set = set,
          .comment = Comment::of_set,
          .action = action,
          .to = to};
}

constexpr Row with_extra(Row row, Extra extra) {
  row.extra = extra;
  return row;
}

constexpr Row with_lookup(Row row, Lookup lookup) {
  row.lookup = lookup;
  return row;
}

constexpr Row for_protocol(Row row, Protocol protocol) {
  row.protocol = protocol;
  if (protocol != Protocol::sctp) row.lookup = Lookup::dst;  // a bitmap:port has no address
  return row;
}

constexpr Row cluster_ip_masquerade(When when, Extra extra, Lookup lookup) {
  auto row = with_set(kServices, SetId::cluster_ip, RowAction::jump, kMarkMasq);
  row.when = when;
  row.extra = extra;
  row.lookup = lookup;
  return row;
}

// New connections that a set of nat lists need no further lookup.
constexpr Row accepted(SetId set) {
  return {.chain = kServices, .when = When::set_non_empty, .set = set, .action = RowAction::accept};
}

constexpr std::array<Row, 27> kNatRows = {{
    {.chain = kServices, .extra = Extra::from_loopback, .action = RowAction::return_},
    with_set(kServices, SetId::load_balancer, RowAction::jump, kLoadBalancer),
    cluster_ip_masquerade(When::masquerade_all, Extra::none, Lookup::dst_dst),
    cluster_ip_masquerade(When::detector, Extra::not_from_pod, Lookup::dst_dst),
    // Without a detector, only traffic of this node from a cluster IP is masqueraded.
    cluster_ip_masquerade(When::no_detector, Extra::none, Lookup::src_dst),
    cluster_ip_masquerade(When::no_detector_nor_source, Extra::from_this_node, Lookup::dst_dst),
    with_set(kServices, SetId::external_ip, RowAction::jump, kMarkMasq),
    with_extra(with_set(kServices, SetId::external_ip, RowAction::accept),
               Extra::not_forwarded_by_bridge),
    with_extra(with_set(kServices, SetId::external_ip, RowAction::accept), Extra::to_this_node),
    with_extra(with_set(kServices, SetId::external_ip_local, RowAction::accept),
               Extra::not_forwarded_by_bridge),
    with_extra(with_set(kServices, SetId::external_ip_local, RowAction::accept),
               Extra::to_this_node),
    {.chain = kServices, .extra = Extra::to_this_node, .action = RowAction::jump, .to = kNodePort},
    accepted(SetId::cluster_ip),
    accepted(SetId::load_balancer),

    with_lookup(with_set(kPostrouting, SetId::loop_back, RowAction::masquerade),
                Lookup::dst_dst_src),
    {.chain = kPostrouting, .extra = Extra::not_marked, .action = RowAction::return_},
    {.chain = kPostrouting, .action = RowAction::clear_mark},
    {.chain = kPostrouting,
     .comment = Comment::text,
     .text = "kubernetes service traffic requiring SNAT",
     .action = RowAction::masquerade_random},

    // For each protocol the exemption of local endpoints comes before the mark.
    for_protocol(with_set(kNodePort, SetId::node_port_local_tcp, RowAction::return_),
                 Protocol::tcp),
    for_protocol(with_set(kNodePort, SetId::node_port_tcp, RowAction::jump, kMarkMasq),
                 Protocol::tcp),
    for_protocol(with_set(kNodePort, SetId::node_port_local_udp, RowAction::return_),
                 Protocol::udp),
    for_protocol(with_set(kNodePort, SetId::node_port_udp, RowAction::jump, kMarkMasq),
                 Protocol::udp),
    for_protocol(with_set(kNodePort, SetId::node_port_local_sctp_hash, RowAction::return_),
                 Protocol::sctp),
    for_protocol(with_set(kNodePort, SetId::node_port_sctp_hash, RowAction::jump, kMarkMasq),
                 Protocol::sctp),

    with_set(kLoadBalancer, SetId::load_balancer_local, RowAction::return_),
    {.chain = kLoadBalancer, .action = RowAction::jump, .to = kMarkMasq},

    {.chain = kMarkMasq, .action = RowAction::set_mark},
}};

// Returns packets that are meant for a virtual service, before the rule that rejects the rest.
constexpr Row served(SetId set, Lookup lookup) {
  return {.chain = kIpvsFilter, .set = set, .lookup = lookup, .action = RowAction::return_};
}

constexpr std::array<Row, 15> kFilterRows = {{
    {.chain = kForward,
     .comment = Comment::text,
     .text = "kubernetes forwarding rules",
     .extra = Extra::marked,
     .action = RowAction::accept},
    {.chain = kForward,
     .comment = Comment::text,
     .text = "kubernetes forwarding conntrack rule",
     .extra = Extra::known_connection,
     .action = RowAction::accept},

    {.chain = kNodePort,
     .set = SetId::health_check_node_port,
     .lookup = Lookup::dst,
     .comment = Comment::of_set,
     .action = RowAction::accept},

    with_set(kProxyFirewall, SetId::load_balancer_fw, RowAction::jump, kSourceRanges),

    with_lookup(with_set(kSourceRanges, SetId::load_balancer_source_cidr, RowAction::return_),
                Lookup::dst_dst_src),
    with_lookup(with_set(kSourceRanges, SetId::load_balancer_source_ip, RowAction::return_),
                Lookup::dst_dst_src),
    {.chain = kSourceRanges, .action = RowAction::drop},

    // Source ranges, which cut known connections, are in a chain of their own before this one.
    {.chain = kIpvsFilter,
     .when = When::known_leave,
     .extra = Extra::known_connection,
     .action = RowAction::return_},
    served(SetId::load_balancer, Lookup::dst_dst),
    served(SetId::cluster_ip, Lookup::dst_dst),
    served(SetId::external_ip, Lookup::dst_dst),
    served(SetId::external_ip_local, Lookup::dst_dst),
    served(SetId::health_check_node_port, Lookup::dst),
    {.chain = kIpvsFilter,
     .when = When::vip_ping,
     .extra = Extra::echo_request,
     .action = RowAction::return_},
    // Without this rule, any program on the node that listens on all addresses could be reached at
    // our addresses.
    {.chain = kIpvsFilter,
     .set = SetId::ipvs_ips,
     .lookup = Lookup::dst,
     .extra = Extra::new_connection,
     .action = RowAction::reject},
}};

bool is_wanted(const Row& row, Family family, const RuleParameters& parameters) {
  const auto non_empty = [&] { return parameters.non_empty.count(*row.set) != 0; };
  const bool detector = has_detector(family, parameters.detector);
  switch (row.when) {
    case When::always:
      return true;
    case When::set_non_empty:
      return non_empty();
    case When::masquerade_all:
      return non_empty() && parameters.masquerade_all;
    case When::detector:
      return non_empty() && !parameters.masquerade_all && detector;
    case When::no_detector:
      return non_empty() && !parameters.masquerade_all && !detector && parameters.vips_are_sources;
    case When::no_detector_nor_source:
      return non_empty() && !parameters.masquerade_all && !detector && !parameters.vips_are_sources;
    case When::vip_ping:
      return parameters.vip_ping;
    case When::known_leave:
      return parameters.short_paths;
  }
  return false;
}

std::vector<Direction> directions(Lookup lookup) {
  using enum Direction;
  switch (lookup) {
    case Lookup::dst:
      return {dst};
    case Lookup::dst_dst:
      return {dst, dst};
    case Lookup::dst_dst_src:
      return {dst, dst, src};
    case Lookup::src_dst:
      return {src, dst};
  }
  return {};
}

void refine(Rule& rule, Extra extra, Family family, const RuleParameters& parameters) {
  const auto mark = parameters.masquerade_mark;
  auto& matches = rule.matches;
  switch (extra) {
    case Extra::none:
    case Extra::new_connection:  // added before the set, by the caller
      break;
    case Extra::from_loopback:
      rule.source = SourceMatch{
          .prefix = *IpPrefix::parse(family == Family::ipv4 ? "127.0.0.0/8" : "::1/128")};
      break;
    case Extra::from_this_node:
      matches.emplace_back(LocalAddressMatch{.direction = Direction::src});
      break;
    case Extra::not_from_pod:
      match_pods(rule, family, parameters.detector, true);
      break;
    case Extra::not_forwarded_by_bridge:
      matches.emplace_back(BridgePortInMatch{.negated = true});
      matches.emplace_back(LocalAddressMatch{.direction = Direction::src, .negated = true});
      break;
    case Extra::to_this_node:
      matches.emplace_back(LocalAddressMatch{.direction = Direction::dst});
      break;
    case Extra::marked:
      matches.emplace_back(MarkMatch{.value = mark, .mask = mark});
      break;
    case Extra::not_marked:
      matches.emplace_back(MarkMatch{.value = mark, .mask = mark, .negated = true});
      break;
    case Extra::known_connection:
      matches.emplace_back(ConntrackStateMatch{.related = true, .established = true});
      break;
    case Extra::echo_request:
      matches.emplace_back(EchoRequestMatch{});
      break;
  }
}

Target target_of(const Row& row, const RuleParameters& parameters) {
  const auto mark = parameters.masquerade_mark;
  switch (row.action) {
    case RowAction::accept:
      return Verdict::accept;
    case RowAction::drop:
      return Verdict::drop;
    case RowAction::return_:
      return Verdict::return_;
    case RowAction::reject:
      return RejectTarget{};
    case RowAction::jump:
      return JumpTarget{.chain = std::string(row.to)};
    case RowAction::masquerade:
      return MasqueradeTarget{};
    case RowAction::masquerade_random:
      return MasqueradeTarget{.random_fully = true};
    case RowAction::set_mark:
      return MarkTarget{.value = mark, .mask = mark};
    case RowAction::clear_mark:  // the bit is known to be set here: XOR clears it
      return MarkTarget{.value = mark, .mask = 0};
  }
  return Verdict::return_;
}

Rule rule_of(const Row& row, Family family, const RuleParameters& parameters) {
  Rule rule{.protocol = row.protocol, .target = target_of(row, parameters)};
  if (row.comment == Comment::of_set) rule.comment = set_comment(*row.set);
  if (row.comment == Comment::text) rule.comment = row.text;
  // kube-proxy's order: the set comes first, except after the connection state.
  if (row.extra == Extra::new_connection)
    rule.matches.emplace_back(ConntrackStateMatch{.is_new = true});
  if (row.set)
    rule.matches.emplace_back(
        SetMatch{.set = set_name(*row.set, family), .directions = directions(row.lookup)});
  refine(rule, row.extra, family, parameters);
  return rule;
}

TableRules table_rules(Family family, Table table, std::span<const std::string_view> chains,
                       std::span<const Row> rows, std::span<const JumpRow> jumps,
                       const RuleParameters& parameters) {
  TableRules result{.family = family, .table = table};
  for (const auto name : chains) {
    Chain chain{.name = std::string(name)};
    for (const auto& row : rows)
      if (row.chain == name && is_wanted(row, family, parameters))
        chain.rules.push_back(rule_of(row, family, parameters));
    if (name == kOutFilter) chain.rules = out_filter_rules(family, parameters);
    if (name == kForward || name == kIpvsFilter) {
      // After the rule for known connections, if there is one.
      auto invalid = invalid_rules(family, parameters, SetId::other_endpoints);
      const auto known = name == kForward ? chain.rules.size() : parameters.short_paths ? 1 : 0;
      chain.rules.insert(chain.rules.begin() + static_cast<std::ptrdiff_t>(known),
                         std::make_move_iterator(invalid.begin()),
                         std::make_move_iterator(invalid.end()));
    }
    if (name == kIpvsFilter)  // before the last rule, which rejects
      if (auto healthz = healthz_rule(family, parameters, SetId::healthz))
        chain.rules.insert(std::prev(chain.rules.end()), *std::move(healthz));
    result.chains.push_back(std::move(chain));
  }
  for (const auto& jump : jumps)
    result.jumps.push_back(
        BaseJump{.from = std::string(jump.from),
                 .rule = Rule{.comment = std::string(jump.comment),
                              .target = JumpTarget{.chain = std::string(jump.to)}}});
  return result;
}

}  // namespace

RuleParameters least_parameters() {
  RuleParameters parameters;
  parameters.non_empty = {SetId::loop_back, SetId::cluster_ip, SetId::ipvs_ips};
  return parameters;
}

std::vector<TableRules> rules_for(Family family, const RuleParameters& parameters) {
  return {
      table_rules(family, Table::filter, kFilterChains, kFilterRows, kFilterJumps, parameters),
      table_rules(family, Table::nat, kNatChains, kNatRows, kNatJumps, parameters),
  };
}

bool has_short_paths(const WholeTable& filter) {
  const Rule first{.matches = {ConntrackStateMatch{.related = true, .established = true}},
                   .target = Verdict::return_};
  const auto found = filter.chains.find(std::string(kIpvsFilter));
  return found != filter.chains.end() && !found->second.empty() && found->second.front() == first;
}

}  // namespace ipvsproxier::ipset
