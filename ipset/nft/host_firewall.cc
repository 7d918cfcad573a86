#include "ipset/nft/host_firewall.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ipset/nft/firewall_judge.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_table_claim.h"
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
  std::string_view rule;  // that lets it pass; "": by addresses
};
constexpr std::array<Passing, 5> kPassings = {{
    {NftHook::prerouting, "what comes for Services", ""},
    {NftHook::input, "what comes for Services", ""},
    {NftHook::forward, "what pods answer", "ct state established,related accept"},
    {NftHook::output, "what IPVS sends to pods", "ct state new,established,related accept"},
    {NftHook::postrouting, "what IPVS sends to pods", "ct state new,established,related accept"},
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
          .from_elsewhere = base.hook != NftHook::output && base.hook != NftHook::postrouting};
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

Judged judge_chain(ReadTable& table, NftFamily family_of_table, const std::string& name,
                   const netlink::NftBase& base, const std::vector<FirewallSample>& samples) {
  Judged judged;
  const auto view = table.view();
  const bool comes = base.hook == NftHook::prerouting || base.hook == NftHook::input;
  const bool some_serve = std::ranges::any_of(
      samples, [](const FirewallSample& sample) { return sample.server.has_value(); });
  for (const auto family : netlink::kFamilies) {
    if (!has_family(family_of_table, family)) continue;
    const auto some = some_of(samples, family);
    if (some.empty() && samples.empty()) {
      const auto fate = fate_in(view, name, base.accepts, any_packet(family, base));
      note_fate(fate, judged);
      if (fate != FirewallFate::passes) judged.families.insert(family);
    }
    for (const auto& sample : some) {
      if (!comes && !sample.server && some_serve) continue;  // IPVS sends nothing on
      const auto fate = fate_in(view, name, base.accepts, packet_of(sample, base));
      note_fate(fate, judged);
      if (fate != FirewallFate::passes) judged.dropped.push_back(sample);
    }
  }
  return judged;
}

std::string_view word_of(Family family) {
  return family == Family::ipv4 ? "ip" : "ip6";
}

// "ip daddr { 10.96.0.1, 10.96.0.10 } accept", for each family and for node ports.
std::vector<std::string> rules_by_address(const Judged& judged) {
  std::vector<std::string> rules;
  std::map<Family, std::set<netlink::IpAddress>> addresses;
  bool node_ports = false;
  for (const auto& sample : judged.dropped) {
    const bool is_node_port = sample.port >= kFirstNodePort && sample.port <= kLastNodePort;
    node_ports = node_ports || is_node_port;
    auto& of_family = addresses[sample.address.family()];
    if (!is_node_port && of_family.size() < kNamedAddresses) of_family.insert(sample.address);
  }
  for (const auto family : judged.families)
    rules.push_back(fmt::format("{} daddr {{ SERVICE ADDRESSES }} accept", word_of(family)));
  for (const auto& [family, some] : addresses) {
    if (some.empty()) continue;
    std::vector<std::string> texts;
    for (const auto& address : some) texts.push_back(address.to_string());
    rules.push_back(
        fmt::format("{} daddr {{ {} }} accept", word_of(family), fmt::join(texts, ", ")));
  }
  if (node_ports)
    rules.push_back(fmt::format("meta l4proto {{ tcp, udp, sctp }} th dport {}-{} accept",
                                kFirstNodePort, kLastNodePort));
  return rules;
}

FirewallWarning warning_of(const std::string& place, const netlink::NftBase& base,
                           const Passing& passing, const Judged& judged) {
  auto rules = passing.rule.empty() ? rules_by_address(judged)
                                    : std::vector<std::string>{std::string(passing.rule)};
  for (auto& rule : rules) rule = fmt::format("nft insert rule {} {}", place, rule);
  std::string example;
  if (!judged.dropped.empty()) {
    const auto& one = judged.dropped.front();
    example = fmt::format(" (of {})", netlink::to_string(one.address, one.port));
  }
  return {.drops = judged.drops,
          .chain = place,
          .text = fmt::format(
              "nf_tables chain {} {} {}{}{}, and no rule of another table can let it through; add: "
              "{}{}",
              place, judged.drops ? "drops" : "may drop", passing.what, example,
              base.accepts ? "" : " by its policy", fmt::join(rules, "; "),
              passing.rule.empty() ? "; with all addresses of Services" : "")};
}

bool is_ours(const netlink::NftTableKey& key, const FilterContents& contents) {
  return std::ranges::any_of(netlink::kFamilies, [&](const Family family) {
    return key == nft_table_of(family) && claim_of(contents, family) != TableClaim::foreign;
  });
}

}  // namespace

netlink::Result<std::vector<FirewallWarning>> find_firewall_warnings(
    FilterTable& nftables, const std::vector<FirewallSample>& samples) {
  const auto tables = nftables.list_tables();
  if (!tables) return tables.error();
  std::vector<FirewallWarning> warnings;
  for (const auto& key : *tables) {
    if (!has_family(key.family, Family::ipv4) && !has_family(key.family, Family::ipv6)) continue;
    auto frame = nftables.list_frame(key);
    if (!frame || !*frame || (*frame)->flags.dormant || is_ours(key, **frame)) continue;
    ReadTable table(nftables, key, **std::move(frame));
    for (const auto& [name, chain] : table.contents().chains) {
      const auto* const passing = chain.base ? passing_of(*chain.base) : nullptr;
      if (passing == nullptr) continue;
      const auto judged = judge_chain(table, key.family, name, *chain.base, samples);
      if (!judged.dropped.empty() || !judged.families.empty())
        warnings.push_back(warning_of(printable_name(netlink::to_string(key) + " " + name),
                                      *chain.base, *passing, judged));
    }
  }
  std::ranges::sort(warnings);
  return warnings;
}

}  // namespace ipvsproxier::ipset
