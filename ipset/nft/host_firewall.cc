#include "ipset/nft/host_firewall.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "ipset/nft/firewall_advice.h"
#include "ipset/nft/program_leftovers.h"
#include "ipset/nft/read_table.h"
#include "ipset/nft/sample_walk.h"
#include "ipset/nftables/flow_table.h"
#include "ipset/nftables/foreign_steps.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_table_claim.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/sets/printable_name.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;
using netlink::NftFamily;
using netlink::NftHook;

constexpr std::int32_t kIpvsTakes = 98;  // NF_IP_PRI_NAT_SRC - 2, in the hook input
// In the hook forward IPVS gives answers the address of the virtual service (NF_IP_PRI_NAT_SRC -
// 1).
constexpr std::int32_t kIpvsAnswers = 99;
// Of a client: one of those that systems choose by themselves (net/ipv4/ip_local_port_range).
constexpr std::uint16_t kClientPort = 40000;
constexpr const char* kTooLong = "it takes too long to judge";

using What = Passing::What;
constexpr Passing kPodAnswers{NftHook::forward, What::answers, "FORWARD"};
constexpr Passing kHealthChecks{NftHook::input, What::checks_health, "INPUT"};
constexpr std::array<Passing, 5> kPassings = {{
    {NftHook::prerouting, What::comes, ""},
    {NftHook::input, What::comes, "INPUT"},
    kPodAnswers,
    {NftHook::output, What::is_sent, "OUTPUT"},
    {NftHook::postrouting, What::is_sent, ""},
}};

const Passing* passing_of(const netlink::NftBase& base) {
  const auto* const found = std::ranges::find(kPassings, base.hook, &Passing::hook);
  const bool is_late = base.hook == NftHook::input && base.priority > kIpvsTakes;
  return found == kPassings.end() || is_late ? nullptr : found;
}

// A packet at that place of which only the family is known.
SamplePacket any_packet(Family family, const netlink::NftBase& base) {
  SamplePacket sample;
  auto& packet = sample.packet;
  packet.source = packet.destination = netlink::IpAddress::any(family);
  packet.mark_known = packet.connection_mark_known = 0;
  const bool is_first = base.hook == NftHook::prerouting || base.hook == NftHook::input;
  if (base.hook == NftHook::prerouting && base.priority < kTrackingPriority)
    packet.tracking = Tracking::not_yet;
  packet.established = packet.is_answer = base.hook == NftHook::forward;
  packet.status_known = is_first;
  // In the hook output there is no link that a packet came by.
  packet.in_link_is = base.hook == NftHook::output        ? LinkFact::named
                      : base.hook == NftHook::postrouting ? LinkFact::unknown
                                                          : LinkFact::not_loopback;
  packet.out_link_is = is_first ? LinkFact::named : LinkFact::not_loopback;
  sample.to_here = is_first;
  return sample;
}

SamplePacket packet_of(const FirewallSample& sample, const netlink::NftBase& base) {
  auto result = any_packet(sample.address.family(), base);
  auto& packet = result.packet;
  packet.protocol = sample.protocol;
  if (base.hook == NftHook::forward) {
    packet.destination_port = kClientPort;
    if (base.priority < kIpvsAnswers && sample.server) {
      packet.source = *sample.server;
      packet.source_port = sample.server_port;
    } else if (base.priority > kIpvsAnswers) {
      packet.source = sample.address;
      packet.source_port = sample.port;
    }
    return result;
  }
  packet.source_port = kClientPort;
  if (result.to_here) {
    packet.destination = sample.address;
    packet.destination_port = sample.port;
    return result;
  }
  if (sample.server) {
    packet.destination = *sample.server;
    packet.destination_port = sample.server_port;
  }
  packet.first = {
      .source = packet.source, .destination = sample.address, .destination_port = sample.port};
  packet.connection = {.address = sample.address, .protocol = sample.protocol, .port = sample.port};
  return result;
}

std::vector<FirewallSample> some_of(const std::vector<FirewallSample>& samples, Family family) {
  std::vector<FirewallSample> all;
  for (const auto& sample : samples)
    if (sample.address.family() == family) all.push_back(sample);
  if (all.size() <= kMostFirewallSamples) return all;
  std::vector<FirewallSample> some;
  for (std::size_t i = 0; i < kMostFirewallSamples; ++i)
    some.push_back(all[i * all.size() / kMostFirewallSamples]);
  return some;
}

// `accepts`: what the policy does.
using Judge = std::function<FirewallFate(const SamplePacket&, bool accepts)>;

Judged judge_chain(const std::vector<Family>& families, const netlink::NftBase& base,
                   const std::vector<FirewallSample>& samples, LookBudget& budget,
                   const Judge& judge) {
  Judged judged;
  const bool comes = base.hook == NftHook::prerouting || base.hook == NftHook::input;
  const bool some_serve = std::ranges::any_of(
      samples, [](const FirewallSample& sample) { return sample.server.has_value(); });
  // Whether it passes; no word of one that the budget did not reach.
  const auto passes = [&](const SamplePacket& packet) {
    const auto fate = judge(packet, base.accepts);
    if (budget.is_spent() || fate == FirewallFate::passes) return true;
    judged.drops = judged.drops || fate == FirewallFate::drops;
    if (judged.empty())
      judged.by_policy = !base.accepts && judge(packet, true) == FirewallFate::passes;
    return false;
  };
  for (const auto family : families) {
    const auto some = some_of(samples, family);
    if (some.empty() && samples.empty() && !passes(any_packet(family, base)))
      judged.families.insert(family);
    for (const auto& sample : some) {
      if (!comes && !sample.server && some_serve) continue;  // IPVS sends nothing on
      if (budget.is_spent()) break;
      if (!passes(packet_of(sample, base))) judged.dropped.push_back(sample);
    }
  }
  judged.whole = !budget.is_spent();
  return judged;
}

std::vector<Family> families_of(NftFamily table) {
  std::vector<Family> families;
  for (const auto family : netlink::kFamilies)
    if (has_family(table, family)) families.push_back(family);
  return families;
}

// Whether the chain is asked for destinations before one of ours has settled them.
bool may_take(const netlink::NftBase& base, PacketFilter filter) {
  const bool translates =
      base.type == "nat" && (base.hook == NftHook::prerouting || base.hook == NftHook::output);
  if (filter == PacketFilter::iptables) return translates;
  return translates && base.priority <= hook_of("prerouting")->priority;
}

// Of each protocol and port one: host ports are those of all addresses.
std::vector<FirewallSample> one_of_each_port(const std::vector<FirewallSample>& samples,
                                             NftFamily table) {
  std::map<Family, std::set<std::pair<netlink::Protocol, std::uint16_t>>> seen;
  std::vector<FirewallSample> some;
  for (const auto& sample : samples) {
    const auto family = sample.address.family();
    auto& ports = seen[family];
    if (has_family(table, family) && !sample.is_node_port && ports.size() < kMostFirewallPorts &&
        ports.emplace(sample.protocol, sample.port).second)
      some.push_back(sample);
  }
  return some;
}

// Packets of clients, or of this node, to virtual services.
Judged judge_destinations(ReadTable& table, NftFamily family, const std::string& name,
                          const netlink::NftBase& base, const std::vector<FirewallSample>& samples,
                          LookBudget& budget) {
  Judged judged;
  for (const auto& sample : one_of_each_port(samples, family)) {
    auto one = packet_of(sample, {.type = "nat", .hook = NftHook::prerouting, .priority = 0});
    const bool comes = base.hook == NftHook::prerouting;
    one.packet.status_known = comes;
    if (!comes) {
      one.packet.in_link_is = LinkFact::named;
      one.packet.out_link = "lo";  // what this node sends to an address of its own
    }
    const auto view = table.view(sample.address.family());
    const auto judge = [&] { return translation_of(walk_sample(view, name, true, one, budget)); };
    auto translation = judge();
    // Rules of docker except its own link: of others it takes packets for certain.
    if (comes && translation == FirewallTranslation::possible) {
      one.packet.in_link_is = LinkFact::unnamed;
      translation = std::max(translation, judge());
    }
    if (budget.is_spent()) break;
    if (translation == FirewallTranslation::none) continue;
    judged.drops = judged.drops || translation == FirewallTranslation::certain;
    judged.dropped.push_back(sample);
  }
  judged.whole = !budget.is_spent();
  return judged;
}

// A table of its mode nftables, which goes once ours is in place.
bool is_kube_proxys(const netlink::NftTableKey& key) {
  return key.name == "kube-proxy" && (key.family == NftFamily::ip || key.family == NftFamily::ip6);
}

bool is_ours(const netlink::NftTableKey& key, const FilterContents& contents) {
  return std::ranges::any_of(netlink::kFamilies, [&](const Family family) {
    if (key == flow_table_of(family)) return is_flow_table(contents, family);
    return key == nft_table_of(family) && claim_of(contents, family) != TableClaim::foreign;
  });
}

// A base chain to judge.
struct Task {
  ReadTable* table = nullptr;
  std::string chain;
  netlink::NftBase base;
  bool destinations = false;  // else whether it drops
};

bool has_our_name(const netlink::NftTableKey& key) {
  return std::ranges::any_of(netlink::kFamilies,
                             [&](const Family family) { return key == nft_table_of(family); });
}

// What cannot be read is told in the look; of a foreign table of our name that is told elsewhere.
std::vector<ReadTable> read_tables(FilterTable& nftables, PacketFilter filter,
                                   const std::vector<netlink::NftTableKey>& keys,
                                   LookBudget& budget, FirewallLook& look) {
  std::vector<ReadTable> tables;
  for (const auto& key : keys) {
    const bool is_named_as_ours = has_our_name(key);
    if (families_of(key.family).empty() || is_kube_proxys(key) ||
        (is_named_as_ours && filter == PacketFilter::nftables))
      continue;
    auto& unjudged = look.unjudged;
    const auto name = nft_table_name(printable_name(netlink::to_string(key)));
    if (budget.is_late()) {
      unjudged[name] = kTooLong;
      continue;
    }
    auto frame = nftables.list_small_frame(key, budget.rules_left());
    if (!frame && !is_named_as_ours)
      unjudged[name] = frame.error().sys_errno == E2BIG ? "it has too many rules"
                                                        : netlink::to_string(frame.error());
    if (!frame || !*frame || (*frame)->flags.dormant || is_ours(key, **frame)) continue;
    for (const auto& [chain, listed] : (*frame)->chains) budget.spend_rules(listed.rules.size());
    tables.emplace_back(nftables, key, **std::move(frame));
  }
  return tables;
}

std::vector<Task> tasks_of(std::vector<ReadTable>& tables, PacketFilter filter) {
  std::vector<Task> tasks;
  for (auto& table : tables)
    for (const auto& [name, chain] : table.contents().chains) {
      if (!chain.base) continue;
      if (passing_of(*chain.base) != nullptr) tasks.push_back({&table, name, *chain.base});
      if (may_take(*chain.base, filter)) tasks.push_back({&table, name, *chain.base, true});
    }
  return tasks;
}

void judge_legacy_chain(Family family, const WholeTable& table, const Passing& passing,
                        const std::vector<FirewallSample>& samples, LookBudget& budget,
                        FirewallLook& look) {
  const std::string chain(passing.legacy_chain);
  const auto policy = table.policies.find(chain);
  const auto rules = table.chains.find(chain);
  if (policy == table.policies.end() || rules == table.chains.end()) return;
  const netlink::NftBase base{.type = "filter",
                              .hook = passing.hook,
                              .priority = 0,
                              .accepts = policy->second != Verdict::drop};
  const auto judged =
      judge_chain({family}, base, samples, budget, [&](const SamplePacket& packet, bool accepts) {
        return fate_of(walk_sample(table, chain, accepts, packet, budget));
      });
  if (!judged.whole) look.unjudged[legacy_table_name(family)] = kTooLong;
  const bool accepts = base.accepts && (rules->second.empty() || !drops_all(rules->second.back()));
  if (!judged.empty() && (judged.drops || !accepts))
    look.warnings.push_back(legacy_drop_warning(family, passing, rules->second, judged));
}

}  // namespace

std::string text_of_unjudged(const std::string& table, const std::string& why) {
  return fmt::format("whether {} drops packets of Services is not known: {}", table, why);
}

std::string legacy_table_name(Family family) {
  return fmt::format("legacy {} table filter", netlink::to_string(family));
}

std::string nft_table_name(const std::string& table) {
  return "nf_tables table " + table;
}

netlink::Result<FirewallLook> find_firewall_warnings(FilterTable& nftables, PacketFilter filter,
                                                     const std::vector<FirewallSample>& samples,
                                                     LookBudget& budget) {
  const auto keys = nftables.list_tables();
  if (!keys) return keys.error();
  FirewallLook look;
  auto tables = read_tables(nftables, filter, *keys, budget, look);
  for (auto& table : tables)
    std::ranges::move(find_program_leftovers(table), std::back_inserter(look.warnings));
  const auto tasks = tasks_of(tables, filter);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto& [table, chain, base, destinations] = tasks[i];
    const ChainName name{.table = printable_name(netlink::to_string(table->key())),
                         .chain = printable_name(chain)};
    budget.begin_share(tasks.size() - i);
    Judged judged;
    if (destinations) {
      judged = judge_destinations(*table, table->key().family, chain, base, samples, budget);
      if (!judged.empty()) look.warnings.push_back(take_warning(name, judged, filter));
    } else {
      judged = judge_chain(families_of(table->key().family), base, samples, budget,
                           [&, of = table, in = chain](const auto& packet, bool accepts) {
                             const auto view = of->view(packet.packet.family());
                             return fate_of(walk_sample(view, in, accepts, packet, budget));
                           });
      if (!judged.empty())
        look.warnings.push_back(nft_drop_warning(name, *passing_of(base), judged));
    }
    if (!judged.whole) look.unjudged[nft_table_name(name.table)] = kTooLong;
  }
  look.was_late = budget.is_late();
  std::ranges::sort(look.warnings);
  return look;
}

bool drops_all(const Rule& rule) {
  if (rule.source || rule.destination || rule.in_interface || rule.protocol ||
      !rule.matches.empty())
    return false;
  const auto drops = [](const auto& target) {
    const auto* verdict = std::get_if<Verdict>(&target);
    return verdict != nullptr ? *verdict == Verdict::drop
                              : std::holds_alternative<RejectTarget>(target);
  };
  const auto* foreign = std::get_if<ForeignTarget>(&rule.target);
  if (foreign == nullptr) return drops(rule.target);
  return foreign->conditions.empty() &&
         (drops(foreign->action) || std::holds_alternative<RejectAction>(foreign->action));
}

FirewallLook find_legacy_warnings(Family family, const WholeTable& table, PacketFilter filter,
                                  const std::vector<FirewallSample>& samples, LookBudget& budget) {
  FirewallLook look;
  std::size_t left = kPassings.size();
  for (const auto& passing : kPassings) {
    budget.begin_share(left--);
    // Ours will stand there and accept what pods answer.
    if (passing.hook == NftHook::forward && filter == PacketFilter::iptables &&
        !table.chains.contains(std::string(kForwardChain)))
      continue;
    judge_legacy_chain(family, table, passing, samples, budget, look);
  }
  look.was_late = budget.is_late();
  return look;
}

FirewallLook find_needed_accepts(Family family, WholeTable table, LookBudget& budget) {
  const auto accepting = table.chains.find(std::string(kForwardChain));
  if (accepting != table.chains.end()) accepting->second.clear();
  std::vector<FirewallSample> health_ports;
  for (const auto port : {kFirstNodePort, kLastNodePort})
    health_ports.push_back({.address = netlink::IpAddress::any(family),
                            .port = port,
                            .server = {},
                            .is_node_port = true});
  FirewallLook look;
  budget.begin_share(2);
  judge_legacy_chain(family, table, kPodAnswers, {}, budget, look);
  budget.begin_share(1);
  judge_legacy_chain(family, table, kHealthChecks, health_ports, budget, look);
  look.was_late = budget.is_late();
  return look;
}

}  // namespace ipvsproxier::ipset
