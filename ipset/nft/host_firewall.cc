#include "ipset/nft/host_firewall.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ipset/nft/firewall_judge.h"
#include "ipset/nft/legacy_judge.h"
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
constexpr std::size_t kNamedAddresses = 8;
constexpr std::size_t kMostFirewallPorts = 512;  // judged for each chain that translates
// Of a set of others that is judged: a larger one counts as unknown, for it is looked at for every
// packet.
constexpr std::size_t kMostElements = 20'000;
// --service-node-port-range of the API server, by default.
constexpr std::uint16_t kFirstNodePort = 30000;
constexpr std::uint16_t kLastNodePort = 32767;

// What of Services passes a hook.
struct Passing {
  NftHook hook;
  std::string_view what;
  std::string_view states;        // of packets that a rule lets pass; "": by addresses
  std::string_view legacy_chain;  // of the table filter
};
constexpr std::array<Passing, 5> kPassings = {{
    {NftHook::prerouting, "what comes for Services", "", ""},
    {NftHook::input, "what comes for Services", "", "INPUT"},
    {NftHook::forward, "what pods answer", "established,related", "FORWARD"},
    {NftHook::output, "what IPVS sends to pods", "new,established,related", "OUTPUT"},
    {NftHook::postrouting, "what IPVS sends to pods", "new,established,related", ""},
}};

const Passing* passing_of(const netlink::NftBase& base) {
  const auto* const found = std::ranges::find(kPassings, base.hook, &Passing::hook);
  const bool is_late = base.hook == NftHook::input && base.priority > kIpvsTakes;
  return found == kPassings.end() || is_late ? nullptr : found;
}

bool has_family(NftFamily table, Family family) {
  return table == NftFamily::inet ||
         table == (family == Family::ipv4 ? NftFamily::ip : NftFamily::ip6);
}

FirewallPacket packet_of(const FirewallSample& sample, const netlink::NftBase& base) {
  FirewallPacket packet{.family = sample.address.family(),
                        .source = {},
                        .destination = {},
                        .protocol = sample.protocol,
                        .source_port = {},
                        .destination_port = {}};
  const bool comes = base.hook == NftHook::prerouting || base.hook == NftHook::input;
  if (comes) {
    packet.source_port = kClientPort;
    packet.destination = sample.address;
    packet.destination_port = sample.port;
    packet.to_here = true;
  } else if (base.hook == NftHook::forward) {
    packet.is_new = false;
    packet.destination_port = kClientPort;
    if (base.priority < kIpvsAnswers && sample.server) {
      packet.source = sample.server;
      packet.source_port = sample.server_port;
    } else if (base.priority > kIpvsAnswers) {
      packet.source = sample.address;
      packet.source_port = sample.port;
    }
  } else {
    packet.from_elsewhere = false;
    packet.source_port = kClientPort;
    packet.destination = sample.server;
    if (sample.server) packet.destination_port = sample.server_port;
  }
  return packet;
}

// Of a family of which nothing is known.
FirewallPacket any_packet(Family family, const netlink::NftBase& base) {
  return {.family = family,
          .source = {},
          .destination = {},
          .source_port = {},
          .destination_port = {},
          .is_new = base.hook != NftHook::forward,
          .from_elsewhere = base.hook != NftHook::output && base.hook != NftHook::postrouting,
          .to_here = base.hook == NftHook::prerouting || base.hook == NftHook::input};
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

// A table with those of its sets that rules asked for.
class ReadTable {
 public:
  ReadTable(FilterTable& nftables, netlink::NftTableKey key, FilterContents contents)
      : nftables_(nftables), key_(std::move(key)), contents_(std::move(contents)) {}

  const FilterContents& contents() const { return contents_; }
  FirewallTable view() {
    return {.rules =
                [this](const std::string& chain) {
                  const auto found = contents_.chains.find(chain);
                  return found == contents_.chains.end() ? nullptr : &found->second.rules;
                },
            .set = [this](const std::string& name) { return set(name); }};
  }

 private:
  const FilterSet* set(const std::string& name) {
    const auto found = contents_.sets.find(name);
    if (found == contents_.sets.end() || unread_.contains(name)) return nullptr;
    if (!read_.insert(name).second) return &found->second;
    auto elements = nftables_.list_elements(key_, name);
    if (elements && *elements && (*elements)->size() <= kMostElements) {
      found->second.elements = **std::move(elements);
      return &found->second;
    }
    unread_.insert(name);
    return nullptr;
  }

  FilterTable& nftables_;
  netlink::NftTableKey key_;
  FilterContents contents_;
  std::set<std::string> read_;
  std::set<std::string> unread_;
};

// What a chain does to the samples.
struct Judged {
  bool drops = false;
  std::vector<FirewallSample> dropped;  // or perhaps
  std::set<Family> families;            // of which any packet is
};

void note_fate(FirewallFate fate, Judged& judged) {
  judged.drops = judged.drops || fate == FirewallFate::drops;
}

using Judge = std::function<FirewallFate(const FirewallPacket&)>;

Judged judge_chain(const std::vector<Family>& families, const netlink::NftBase& base,
                   const std::vector<FirewallSample>& samples, const Judge& judge) {
  Judged judged;
  const bool comes = base.hook == NftHook::prerouting || base.hook == NftHook::input;
  const bool some_serve = std::ranges::any_of(
      samples, [](const FirewallSample& sample) { return sample.server.has_value(); });
  for (const auto family : families) {
    const auto some = some_of(samples, family);
    if (some.empty() && samples.empty()) {
      const auto fate = judge(any_packet(family, base));
      note_fate(fate, judged);
      if (fate != FirewallFate::passes) judged.families.insert(family);
    }
    for (const auto& sample : some) {
      if (!comes && !sample.server && some_serve) continue;  // IPVS sends nothing on
      const auto fate = judge(packet_of(sample, base));
      note_fate(fate, judged);
      if (fate != FirewallFate::passes) judged.dropped.push_back(sample);
    }
  }
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
  std::set<std::tuple<Family, netlink::Protocol, std::uint16_t>> seen;
  std::vector<FirewallSample> some;
  for (const auto& sample : samples) {
    const auto family = sample.address.family();
    if (has_family(table, family) && !is_node_port(sample) &&
        seen.emplace(family, sample.protocol, sample.port).second)
      some.push_back(sample);
    if (some.size() == kMostFirewallPorts) break;
  }
  return some;
}

// Packets of clients, or of this node, to virtual services.
Judged judge_destinations(ReadTable& table, NftFamily family, const std::string& name,
                          const netlink::NftBase& base,
                          const std::vector<FirewallSample>& samples) {
  Judged judged;
  const auto view = table.view();
  for (const auto& sample : one_of_each_port(samples, family)) {
    auto packet = packet_of(sample, {.type = "nat", .hook = NftHook::prerouting, .priority = 0});
    packet.from_elsewhere = base.hook == NftHook::prerouting;
    const auto translation = translation_in(view, name, packet);
    if (translation == FirewallTranslation::none) continue;
    judged.drops = judged.drops || translation == FirewallTranslation::certain;
    judged.dropped.push_back(sample);
  }
  return judged;
}

std::string_view word_of(Family family) {
  return family == Family::ipv4 ? "ip" : "ip6";
}

// What of the samples a chain has to let pass.
struct Needed {
  std::map<Family, std::vector<std::string>> addresses;
  std::set<netlink::Protocol> node_ports;  // of them
};

Needed needed_by(const Judged& judged) {
  std::map<Family, std::set<netlink::IpAddress>> addresses;
  Needed needed;
  for (const auto& sample : judged.dropped) {
    auto& of_family = addresses[sample.address.family()];
    if (is_node_port(sample))
      needed.node_ports.insert(sample.protocol);
    else if (of_family.size() < kNamedAddresses)
      of_family.insert(sample.address);
  }
  for (const auto family : judged.families) needed.addresses[family] = {"SERVICE ADDRESSES"};
  for (const auto& [family, some] : addresses)
    for (const auto& address : some) needed.addresses[family].push_back(address.to_string());
  return needed;
}

// "nft insert rule inet host c ip daddr { 10.96.0.1, 10.96.0.10 } accept", for each family and for
// node ports.
std::vector<std::string> nft_rules_for(const std::string& place, const Passing& passing,
                                       const Judged& judged) {
  const auto insert = "nft insert rule " + place;
  if (!passing.states.empty())
    return {fmt::format("{} ct state {} accept", insert, passing.states)};
  const auto needed = needed_by(judged);
  std::vector<std::string> rules;
  for (const auto& [family, addresses] : needed.addresses)
    rules.push_back(fmt::format("{} {} daddr {{ {} }} accept", insert, word_of(family),
                                fmt::join(addresses, ", ")));
  if (!needed.node_ports.empty())
    rules.push_back(fmt::format("{} meta l4proto {{ tcp, udp, sctp }} th dport {}-{} accept",
                                insert, kFirstNodePort, kLastNodePort));
  return rules;
}

bool leads_to_ours(const Rule& rule) {
  const auto* jump = std::get_if<JumpTarget>(&rule.target);
  const auto* foreign = std::get_if<ForeignTarget>(&rule.target);
  if (foreign != nullptr) jump = std::get_if<JumpTarget>(&foreign->action);
  return jump != nullptr && jump->chain.starts_with("KUBE-");
}

// "iptables-legacy -I INPUT 4 -d 10.96.0.1,10.96.0.10 -j ACCEPT": behind all rules that lead to
// ours, which hold source ranges.
std::vector<std::string> legacy_rules_for(Family family, const Passing& passing,
                                          const std::vector<Rule>& chain, const Judged& judged) {
  const auto last = std::find_if(chain.rbegin(), chain.rend(), leads_to_ours);
  const auto first = chain.rend() - last + 1;
  const auto insert =
      fmt::format("{} -I {}{}", family == Family::ipv4 ? "iptables-legacy" : "ip6tables-legacy",
                  passing.legacy_chain, first == 1 ? "" : fmt::format(" {}", first));
  if (!passing.states.empty()) {
    std::string states(passing.states);
    std::ranges::transform(states, states.begin(), [](char letter) {
      return static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    });
    return {fmt::format("{} -m conntrack --ctstate {} -j ACCEPT", insert, states)};
  }
  const auto needed = needed_by(judged);
  std::vector<std::string> rules;
  for (const auto& [_, addresses] : needed.addresses)
    rules.push_back(fmt::format("{} -d {} -j ACCEPT", insert, fmt::join(addresses, ",")));
  for (const auto protocol : needed.node_ports)
    rules.push_back(fmt::format("{} -p {} --dport {}:{} -j ACCEPT", insert,
                                netlink::to_lower_string(protocol), kFirstNodePort, kLastNodePort));
  return rules;
}

std::string example_of(const Judged& judged) {
  if (judged.dropped.empty()) return "";
  const auto& one = judged.dropped.front();
  return fmt::format(" (of {})", netlink::to_string(one.address, one.port));
}

// `title`: of the chain, with its kind.
FirewallWarning drop_warning(std::string chain, const std::string& title, bool by_policy,
                             const Passing& passing, const Judged& judged,
                             const std::vector<std::string>& rules) {
  return {.drops = judged.drops,
          .chain = std::move(chain),
          .text = fmt::format(
              "{} {} {}{}{}, and no rule of another table can let it through; add: {}{}", title,
              judged.drops ? "drops" : "may drop", passing.what, example_of(judged),
              by_policy ? " by its policy" : "", fmt::join(rules, "; "),
              passing.states.empty() ? "; with all addresses of Services" : "")};
}

FirewallWarning take_warning(const std::string& place, const Judged& judged, PacketFilter filter) {
  const auto* const remedy =
      filter == PacketFilter::iptables
          ? "no rule of iptables can keep it: give the host port another number, or run the daemon "
            "with --packet-filter=nftables"
          : "the chain comes before ours: give it a priority above that of ours";
  return {
      .drops = judged.drops,
      .chain = place + " (destinations)",
      .text = fmt::format("nf_tables chain {} {} what comes for Services{} to another "
                          "destination, and {}",
                          place, judged.drops ? "takes" : "may take", example_of(judged), remedy)};
}

bool is_ours(const netlink::NftTableKey& key, const FilterContents& contents) {
  return std::ranges::any_of(netlink::kFamilies, [&](const Family family) {
    return key == nft_table_of(family) && claim_of(contents, family) != TableClaim::foreign;
  });
}

}  // namespace

bool is_node_port(const FirewallSample& sample) {
  return sample.port >= kFirstNodePort && sample.port <= kLastNodePort;
}

netlink::Result<std::vector<FirewallWarning>> find_firewall_warnings(
    FilterTable& nftables, PacketFilter filter, const std::vector<FirewallSample>& samples) {
  const auto tables = nftables.list_tables();
  if (!tables) return tables.error();
  std::vector<FirewallWarning> warnings;
  for (const auto& key : *tables) {
    const auto families = families_of(key.family);
    if (families.empty()) continue;
    auto frame = nftables.list_frame(key);
    if (!frame || !*frame || (*frame)->flags.dormant || is_ours(key, **frame)) continue;
    ReadTable table(nftables, key, **std::move(frame));
    for (const auto& [name, chain] : table.contents().chains) {
      const auto* const passing = chain.base ? passing_of(*chain.base) : nullptr;
      if (passing == nullptr) continue;
      const auto place = printable_name(netlink::to_string(key) + " " + name);
      const auto& base = *chain.base;
      const auto judge = [&, name = name](const FirewallPacket& packet) {
        return fate_in(table.view(), name, base.accepts, packet);
      };
      if (const auto judged = judge_chain(families, base, samples, judge);
          !judged.dropped.empty() || !judged.families.empty())
        warnings.push_back(drop_warning(place, "nf_tables chain " + place, !base.accepts, *passing,
                                        judged, nft_rules_for(place, *passing, judged)));
      if (!may_take(base, filter)) continue;
      if (const auto judged = judge_destinations(table, key.family, name, base, samples);
          !judged.dropped.empty())
        warnings.push_back(take_warning(place, judged, filter));
    }
  }
  std::ranges::sort(warnings);
  return warnings;
}

std::vector<FirewallWarning> find_legacy_warnings(Family family, const WholeTable& table,
                                                  PacketFilter filter,
                                                  const std::vector<FirewallSample>& samples) {
  std::vector<FirewallWarning> warnings;
  for (const auto& passing : kPassings) {
    const std::string chain(passing.legacy_chain);
    const auto policy = table.policies.find(chain);
    const auto rules = table.chains.find(chain);
    if (policy == table.policies.end() || rules == table.chains.end()) continue;
    // Ours will stand there and accept what pods answer.
    if (passing.hook == NftHook::forward && filter == PacketFilter::iptables &&
        !table.chains.contains(std::string(kForwardChain)))
      continue;
    const netlink::NftBase base{.type = "filter", .hook = passing.hook, .priority = 0};
    const auto judged = judge_chain({family}, base, samples, [&](const FirewallPacket& packet) {
      return fate_in(table, chain, packet);
    });
    const bool by_policy = policy->second == Verdict::drop;
    if ((judged.dropped.empty() && judged.families.empty()) || (!judged.drops && !by_policy))
      continue;
    const auto word = netlink::to_string(family);
    warnings.push_back(drop_warning(fmt::format("legacy {} {}", word, chain),
                                    fmt::format("legacy {} table filter: chain {}", word, chain),
                                    by_policy, passing, judged,
                                    legacy_rules_for(family, passing, rules->second, judged)));
  }
  return warnings;
}

}  // namespace ipvsproxier::ipset
