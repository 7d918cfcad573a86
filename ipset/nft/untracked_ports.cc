#include "ipset/nft/untracked_ports.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <optional>
#include <utility>
#include <variant>

#include "ipset/nft/host_firewall.h"
#include "ipset/nft/read_table.h"
#include "ipset/nft/sample_walk.h"
#include "ipset/sets/printable_name.h"
#include "netlink/nftables/nftables_foreign.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::NftHook;
using netlink::Protocol;

constexpr std::uint16_t kAnyClientPort = 40000;
constexpr std::uint32_t kPorts = 0x10000;
constexpr std::array kTransports = {Protocol::tcp, Protocol::udp, Protocol::sctp};
constexpr const char* kTooManyPorts = "it takes too long to judge";

// An address that no rule names.
IpAddress nowhere(Family family) {
  return family == Family::ipv4 ? IpAddress::v4(0xc63364ff)  // 198.51.100.255
                                : *IpAddress::parse("2001:db8:ffff::ffff");
}

// The ports at which the answer of a rule may change, at most so many.
class Bounds {
 public:
  void add(std::uint32_t first, std::uint32_t last) {
    for (const auto port : {first, last + 1})
      if (port < kPorts && (all_.size() < kMostUntrackedBounds || all_.contains(port)))
        all_.insert(port);
      else
        is_whole_ = is_whole_ && port >= kPorts;
  }
  void add(const Match& match) {
    if (const auto* port = std::get_if<DestinationPortMatch>(&match)) add(port->first, port->last);
  }
  void add(const Condition& condition) {
    if (const auto* ports = std::get_if<PortCondition>(&condition))
      for (const auto& range : ports->ranges) add(range.first, range.last);
  }
  // Two bytes of a value that may be a port.
  void add_number(netlink::ByteView bytes, std::size_t at) {
    const auto number = static_cast<std::uint32_t>(bytes[at] << 8 | bytes[at + 1]);
    add(number, number);
  }
  // A port stands at a place that is divisible by 4, filled up with zeros.
  void add_key(netlink::ByteView key) {
    for (std::size_t at = 0; at + 1 < key.size(); at += 4)
      if (at + 4 > key.size() || (key[at + 2] == 0 && key[at + 3] == 0)) add_number(key, at);
  }

  const std::set<std::uint32_t>& all() const { return all_; }
  bool is_whole() const { return is_whole_; }

 private:
  std::set<std::uint32_t> all_{0};
  bool is_whole_ = true;
};

// Whether the rules of one place keep a packet from connection tracking.
using Untracks = std::function<bool(const SamplePacket&)>;

// One place that packets pass before connection tracking: of clients, or of this node.
struct UntrackingPlace {
  bool is_output = false;
  Untracks untracks;
};

class PortSearch {
 public:
  PortSearch(Family family, std::string table, const Bounds& bounds, LookBudget& budget)
      : family_(family), table_(std::move(table)), bounds_(bounds), budget_(budget) {}

  void search(const std::vector<UntrackingPlace>& places, const std::set<IpAddress>& addresses,
              UntrackedLook& look) {
    if (places.empty()) return;
    for (const auto& address : addresses) {
      if (address.family() != family_) continue;
      for (const auto protocol : kTransports) search(places, address, protocol, look);
    }
    if (budget_.is_spent() || !bounds_.is_whole()) look.unjudged[table_] = kTooManyPorts;
  }

 private:
  void search(const std::vector<UntrackingPlace>& places, const IpAddress& address,
              Protocol protocol, UntrackedLook& look) {
    // Most addresses no rule names at all.
    if (!is_named(places, address, protocol, std::nullopt)) return;
    for (auto it = bounds_.all().begin(); it != bounds_.all().end(); ++it) {
      const auto first = static_cast<std::uint16_t>(*it);
      const auto next = std::next(it);
      const auto last =
          static_cast<std::uint16_t>((next == bounds_.all().end() ? kPorts : *next) - 1);
      // No packet has port 0, which stands for one that is not known.
      const auto port = std::max<std::uint16_t>(first, 1);
      if (port > last || !is_named(places, address, protocol, port)) continue;
      auto& ports = look.ports;
      if (!ports.empty() && ports.back().address == address && ports.back().table == table_ &&
          ports.back().protocol == protocol && ports.back().last + 1 == first)
        ports.back().last = last;
      else
        ports.push_back({address, protocol, first, last, table_});
    }
  }

  bool is_named(const std::vector<UntrackingPlace>& places, const IpAddress& address,
                Protocol protocol, std::optional<std::uint16_t> port) {
    return std::ranges::any_of(places, [&](const UntrackingPlace& place) {
      SamplePacket sample{
          .packet = {.source = IpAddress::any(family_),
                     .source_port = kAnyClientPort,
                     .destination = address,
                     .destination_port = port.value_or(0),
                     .protocol = protocol,
                     .mark_known = 0,
                     .tracking = Tracking::not_yet,
                     .connection_mark_known = 0,
                     .in_link_is = place.is_output ? LinkFact::named : LinkFact::not_loopback,
                     .out_link_is = place.is_output ? LinkFact::unknown : LinkFact::named},
          .to_here = true};
      if (!place.untracks(sample)) return false;
      // Without a port any rule may hold for any address.
      if (!port) return true;
      sample.packet.destination = nowhere(family_);
      return !place.untracks(sample) && !budget_.is_spent();
    });
  }

  Family family_;
  std::string table_;
  const Bounds& bounds_;
  LookBudget& budget_;
};

bool untracks(const Rule& rule) {
  const auto* foreign = std::get_if<ForeignTarget>(&rule.target);
  return foreign != nullptr && std::holds_alternative<NoTrackAction>(foreign->action);
}

bool untracks(const NftStep& step) {
  const auto* extension = std::get_if<ExtensionStep>(&step);
  return std::holds_alternative<netlink::NftNoTrack>(step) ||
         (extension != nullptr && extension->action &&
          std::holds_alternative<NoTrackAction>(*extension->action));
}

void add_bounds(const NftStep& step, ReadTable& table, Bounds& bounds) {
  if (const auto* compare = std::get_if<netlink::NftCompare>(&step)) {
    if (compare->data.size() == 2) bounds.add_number(compare->data, 0);
  } else if (const auto* range = std::get_if<netlink::NftRange>(&step)) {
    for (const auto* bytes : {&range->from, &range->to})
      if (bytes->size() == 2) bounds.add_number(*bytes, 0);
  } else if (const auto* lookup = std::get_if<netlink::NftLookup>(&step)) {
    const auto* const set = table.set(lookup->set);
    if (set == nullptr) return;
    for (const auto& element : set->elements)
      for (const auto* key : {&element.key, &element.key_end}) bounds.add_key(*key);
  } else if (const auto* extension = std::get_if<ExtensionStep>(&step)) {
    for (const auto& match : extension->matches) bounds.add(match);
    for (const auto& condition : extension->conditions) bounds.add(condition);
  }
}

bool is_before_tracking(const netlink::NftBase& base) {
  return base.type == "filter" && base.priority < kTrackingPriority &&
         (base.hook == NftHook::prerouting || base.hook == NftHook::output);
}

void search_nft(ReadTable& table, Family family, const std::string& name,
                const std::set<IpAddress>& addresses, LookBudget& budget, UntrackedLook& look) {
  Bounds bounds;
  std::vector<UntrackingPlace> places;
  bool any = false;
  for (const auto& [chain, listed] : table.contents().chains) {
    for (const auto& steps : *table.rules(chain, family))
      for (const auto& step : steps) {
        any = any || untracks(step);
        add_bounds(step, table, bounds);
      }
    if (listed.base && is_before_tracking(*listed.base))
      places.push_back({listed.base->hook == NftHook::output,
                        [&, view = table.view(family), in = chain](const SamplePacket& sample) {
                          return walk_sample(view, in, true, sample, budget).can_untrack;
                        }});
  }
  if (any) PortSearch(family, name, bounds, budget).search(places, addresses, look);
}

}  // namespace

netlink::Result<UntrackedLook> find_untracked_ports(FilterTable& nftables,
                                                    const std::set<IpAddress>& addresses,
                                                    LookBudget& budget) {
  UntrackedLook look;
  const auto keys = nftables.list_tables();
  if (!keys) return keys.error();
  for (const auto& key : *keys) {
    const bool has_one = std::ranges::any_of(
        netlink::kFamilies, [&](const Family family) { return has_family(key.family, family); });
    if (!has_one) continue;
    const auto name = nft_table_name(printable_name(netlink::to_string(key)));
    auto frame = nftables.list_small_frame(key, budget.rules_left());
    if (!frame) look.unjudged[name] = netlink::to_string(frame.error());
    if (!frame || !*frame || (*frame)->flags.dormant) continue;
    const bool meets = std::ranges::any_of((*frame)->chains, [](const auto& chain) {
      return chain.second.base && is_before_tracking(*chain.second.base);
    });
    if (!meets) continue;
    for (const auto& [chain, listed] : (*frame)->chains) budget.spend_rules(listed.rules.size());
    ReadTable table(nftables, key, **std::move(frame));
    for (const auto family : netlink::kFamilies) {
      if (!has_family(key.family, family)) continue;
      budget.begin_share(2);
      search_nft(table, family, name, addresses, budget, look);
    }
  }
  std::ranges::sort(look.ports);
  return look;
}

std::string legacy_raw_name(Family family) {
  return "legacy " + std::string(netlink::to_string(family)) + " table raw";
}

UntrackedLook find_legacy_untracked_ports(Family family, const WholeTable& table,
                                          const std::set<IpAddress>& addresses,
                                          LookBudget& budget) {
  UntrackedLook look;
  Bounds bounds;
  bool any = false;
  for (const auto& [chain, rules] : table.chains)
    for (const auto& rule : rules) {
      any = any || untracks(rule);
      for (const auto& match : rule.matches) bounds.add(match);
      if (const auto* foreign = std::get_if<ForeignTarget>(&rule.target))
        for (const auto& condition : foreign->conditions) bounds.add(condition);
    }
  if (!any) return look;
  std::vector<UntrackingPlace> places;
  for (const auto* chain : {"PREROUTING", "OUTPUT"})
    if (table.chains.contains(chain))
      places.push_back(
          {chain == std::string_view("OUTPUT"), [&, chain](const SamplePacket& sample) {
             return walk_sample(table, chain, true, sample, budget).can_untrack;
           }});
  budget.begin_share(1);
  PortSearch(family, legacy_raw_name(family), bounds, budget).search(places, addresses, look);
  std::ranges::sort(look.ports);
  return look;
}

}  // namespace ipvsproxier::ipset
