#include "cmd/ipvsctl/rules/wanted_rules.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "ipset/rules/address_search.h"
#include "ipset/rules/localhost_rules.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ctl {

using ipset::JumpTarget;
using ipset::PacketFilter;
using ipset::Rule;
using ipset::RuleParameters;
using ipset::Table;
using ipset::TableRules;
using ipset::WholeTable;
using netlink::Family;

const WholeTable* table_of(const RuleReading& reading, plan::TableKey key) {
  const auto found = reading.tables.find(key);
  return found == reading.tables.end() ? nullptr : &found->second;
}

const std::vector<Rule>& rules_of(const RulesByChain& chains, const std::string& name) {
  static const std::vector<Rule> none;
  const auto found = chains.find(name);
  return found == chains.end() ? none : found->second;
}

std::string target_chain(const Rule& rule) {
  const auto* jump = std::get_if<JumpTarget>(&rule.target);
  return jump == nullptr ? "" : jump->chain;
}

namespace {

// Parameter values found in existing rules, at whatever position these stand.
struct Traces {
  std::set<std::uint32_t> marks;
  std::set<ipset::LocalDetector> detectors;
  std::set<netlink::IpPrefix> excepted;  // sources that rules leave out
};

bool is_foreign(const Rule& rule) {
  return std::holds_alternative<ipset::ForeignTarget>(rule.target);
}

// Somebody may have put any number of rules into our chains, and each guess costs time.
constexpr std::size_t kMostGuesses = 32;

template <typename Values>
void keep_few(Values& values) {
  while (values.size() > kMostGuesses) values.erase(std::prev(values.end()));
}

void trace_rule(const Rule& rule, Traces& traces) {
  if (is_foreign(rule)) return;
  if (const auto* mark = std::get_if<ipset::MarkTarget>(&rule.target))
    traces.marks.insert(mark->value);
  for (const auto& match : rule.matches)
    if (const auto* mark = std::get_if<ipset::MarkMatch>(&match)) traces.marks.insert(mark->value);
  // The mark is not for loopback addresses, whatever the detector.
  if (const auto& source = rule.source; source && !source->prefix.address.is_loopback()) {
    traces.detectors.insert(source->prefix);
    if (source->negated) traces.excepted.insert(source->prefix);
  }
  if (const auto& link = rule.in_interface; link && !rule.destination) {
    if (link->is_prefix)
      traces.detectors.insert(ipset::InterfacePrefix{link->name});
    else
      traces.detectors.insert(ipset::BridgeInterface{link->name});
  }
}

// The packet filter does not tell which virtual services exclude this node: those with such a rule
// are taken to.
void take_out_filter(const WholeTable& filter, RuleParameters& parameters) {
  for (const auto& rule : rules_of(filter.chains, std::string(ipset::kUnorderedChain))) {
    if (is_foreign(rule)) continue;
    for (const auto& match : rule.matches)
      if (const auto* service = std::get_if<ipset::IpvsMatch>(&match))
        parameters.out_filter.insert({service->address, service->protocol, service->port});
  }
}

// Nor does it tell which addresses in-cluster clients reach elsewhere.
void take_in_cluster(const WholeTable& nat, RuleParameters& parameters) {
  std::vector<ipset::Chain> chains;
  for (const auto& [name, rules] : nat.chains)
    if (ipset::is_made_for_addresses(name)) chains.push_back({name, rules});
  for (const auto& entry : ipset::entries_in(chains)) parameters.in_cluster.insert(entry);
}

// Whether a rule of our table of nf_tables has such a target.
template <typename Wanted>
bool has_target(const RuleReading& reading, Family family) {
  const auto* table = table_of(reading, {family, Table::kube_ipvs});
  if (table == nullptr) return false;
  return std::ranges::any_of(table->chains, [](const auto& chain) {
    return std::ranges::any_of(
        chain.second, [](const Rule& rule) { return std::holds_alternative<Wanted>(rule.target); });
  });
}

// Whether a rule leads packets to localhost on, or back.
bool is_on_localhost(const RuleReading& reading, PacketFilter filter, Family family) {
  const auto table = filter == PacketFilter::nftables ? Table::kube_ipvs : Table::nat;
  const auto* nat = table_of(reading, {family, table});
  if (nat == nullptr) return false;
  const auto& loop = ipset::localhost_loop(family);
  return std::ranges::any_of(nat->chains, [&](const auto& chain) {
    return std::ranges::any_of(chain.second, [&](const Rule& rule) {
      return rule.target == ipset::Target(ipset::DestinationTarget{.address = loop.server}) ||
             rule.target == ipset::Target(ipset::SourceTarget{.address = loop.far});
    });
  });
}

// Whether one of our chains drops what conntrack finds invalid.
bool drops_invalid(const RuleReading& reading, PacketFilter filter, Family family) {
  const bool native = filter == PacketFilter::nftables;
  const auto* table = table_of(reading, {family, native ? Table::kube_ipvs : Table::filter});
  if (table == nullptr) return false;
  const auto& rules = rules_of(table->chains, native ? "input" : "KUBE-IPVS-FILTER");
  return std::ranges::any_of(rules, [](const Rule& rule) {
    return std::ranges::any_of(rule.matches, [](const ipset::Match& match) {
      const auto* state = std::get_if<ipset::ConntrackStateMatch>(&match);
      return state != nullptr && state->invalid;
    });
  });
}

// The port that is open at the addresses of the set healthz.
std::uint16_t healthz_port(const RuleReading& reading, PacketFilter filter, Family family) {
  const bool native = filter == PacketFilter::nftables;
  const auto* table = table_of(reading, {family, native ? Table::kube_ipvs : Table::filter});
  if (table == nullptr) return 0;
  const auto set =
      ipset::set_name(native ? ipset::SetId::nft_healthz : ipset::SetId::healthz, family);
  for (const auto& [name, rules] : table->chains)
    for (const auto& rule : rules) {
      if (rule.matches.empty()) continue;
      const auto* port = std::get_if<ipset::DestinationPortMatch>(&rule.matches.front());
      const auto* asked = std::get_if<ipset::SetMatch>(&rule.matches.back());
      if (port != nullptr && asked != nullptr && asked->set == set) return port->first;
    }
  return 0;
}

RuleParameters known_parameters(const RuleReading& reading, PacketFilter filter, Family family) {
  RuleParameters parameters;
  for (const auto id : ipset::sets_of(filter)) {
    const auto found = reading.sets.find(ipset::set_name(id, family));
    if (found != reading.sets.end() && found->second != 0) parameters.non_empty.insert(id);
  }
  if (const auto* table = table_of(reading, {family, Table::filter}))
    take_out_filter(*table, parameters);
  if (const auto* table = table_of(reading, {family, Table::nat}))
    take_in_cluster(*table, parameters);
  parameters.localhost = is_on_localhost(reading, filter, family);
  parameters.drop_invalid = drops_invalid(reading, filter, family);
  parameters.healthz_port = healthz_port(reading, filter, family);
  parameters.keep_destinations = !reading.translated.contains(family) ||
                                 has_target<ipset::KeepDestinationTarget>(reading, family);
  parameters.unaccelerated = has_target<ipset::UnacceleratedTarget>(reading, family);
  return parameters;
}

std::vector<RuleParameters> possible_parameters(const RuleReading& reading, PacketFilter filter,
                                                Family family, const RuleParameters& known) {
  Traces traces;
  for (const auto& ours : ipset::rules_for(filter, family, known))
    if (const auto* table = table_of(reading, {family, ours.table}))
      for (const auto& chain : ours.chains)
        for (const auto& rule : rules_of(table->chains, chain.name)) trace_rule(rule, traces);
  std::erase_if(traces.marks, [](auto mark) { return !std::has_single_bit(mark); });
  if (traces.marks.empty()) traces.marks.insert(known.masquerade_mark);
  keep_few(traces.marks);
  keep_few(traces.detectors);
  traces.detectors.insert(std::monostate());
  std::vector<std::optional<netlink::IpPrefix>> own_pods{std::nullopt};
  if (known.non_empty.contains(ipset::SetId::nft_in_cluster) ||
      known.non_empty.contains(ipset::SetId::in_cluster))
    own_pods.insert(own_pods.end(), traces.excepted.begin(), traces.excepted.end());
  own_pods.resize(std::min<std::size_t>(own_pods.size(), 3));

  std::vector<RuleParameters> result;
  for (const auto mark : traces.marks)
    for (const auto& detector : traces.detectors)
      for (const auto& own : own_pods)
        for (const bool all : {false, true})
          for (const bool ping : {true, false})
            for (const bool sources : {true, false})
              for (const bool shorter : {true, false}) {
                result.push_back(known);
                result.back().masquerade_mark = mark;
                result.back().detector = detector;
                result.back().own_pods = own;
                result.back().masquerade_all = all;
                result.back().vip_ping = ping;
                result.back().vips_are_sources = sources;
                result.back().short_paths = shorter;
              }
  return result;
}

// The number of rules that only one of the lists has, in any order.
std::size_t distance(std::vector<Rule> left, std::vector<Rule> right) {
  std::sort(left.begin(), left.end());
  std::sort(right.begin(), right.end());
  std::vector<Rule> different;
  std::set_symmetric_difference(left.begin(), left.end(), right.begin(), right.end(),
                                std::back_inserter(different));
  return different.size();
}

std::size_t distance(const RuleReading& reading, const std::vector<TableRules>& expected) {
  std::size_t sum = 0;
  for (const auto& ours : expected)
    if (const auto* table = table_of(reading, {ours.family, ours.table}))
      for (const auto& chain : ours.chains)
        sum += distance(rules_of(table->chains, chain.name), chain.rules);
  return sum;
}

}  // namespace

std::vector<std::vector<TableRules>> nearest_rules(const RuleReading& reading, PacketFilter filter,
                                                   Family family) {
  std::vector<std::vector<TableRules>> nearest;
  auto least = std::numeric_limits<std::size_t>::max();
  auto known = known_parameters(reading, filter, family);
  // The addresses make no difference between guesses, and there may be thousands.
  const auto in_cluster = std::exchange(known.in_cluster, {});
  std::vector<RuleParameters> best;
  for (const auto& parameters : possible_parameters(reading, filter, family, known)) {
    auto rules = ipset::rules_for(filter, family, parameters);
    const auto found = distance(reading, rules);
    if (found > least) continue;
    if (found < least) {
      nearest.clear();
      best.clear();
    }
    least = found;
    if (std::find(nearest.begin(), nearest.end(), rules) != nearest.end()) continue;
    nearest.push_back(std::move(rules));
    best.push_back(parameters);
  }
  if (in_cluster.empty()) return nearest;
  nearest.clear();
  for (auto& parameters : best) {
    parameters.in_cluster = in_cluster;
    nearest.push_back(ipset::rules_for(filter, family, parameters));
  }
  return nearest;
}

WantedRules wanted_in(const std::vector<std::vector<TableRules>>& nearest, Table table) {
  WantedRules expected;
  for (const auto& ours : nearest.front()) {
    if (ours.table != table) continue;
    for (const auto& chain : ours.chains) {
      expected.chains[chain.name] = chain.rules;
      expected.sure[chain.name].insert(chain.rules.begin(), chain.rules.end());
    }
    for (const auto& jump : ours.jumps) {
      auto& jumps = expected.jumps[jump.from];
      jumps.insert(jumps.begin(), jump.rule);  // each is inserted at position 1
    }
  }
  for (const auto& other : nearest)
    for (const auto& ours : other)
      if (ours.table == table)
        for (const auto& chain : ours.chains) {
          const std::set<Rule> rules(chain.rules.begin(), chain.rules.end());
          std::erase_if(expected.sure[chain.name],
                        [&](const Rule& rule) { return !rules.contains(rule); });
        }
  return expected;
}

}  // namespace ipvsproxier::ctl
