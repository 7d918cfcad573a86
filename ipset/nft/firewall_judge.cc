#include "ipset/nft/firewall_judge.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <variant>

#include "ipset/nft/chain_walk.h"
#include "ipset/nft/condition_judge.h"
#include "ipset/nft/truth.h"
#include "ipset/nftables/rule_decoding.h"
#include "netlink/nftables/nftables_foreign.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::ByteView;
using netlink::NftVerdict;

constexpr std::size_t kElementsAStep = 16;  // that a lookup compares, at the cost of one more step

// A byte of a register, if it is known.
using Known = std::optional<std::uint8_t>;

// Numbers by which the kernel lists registers: 1 to 4 are 16 bytes each, those from 8 four bytes.
constexpr std::size_t kRegisterBytes = 64;
std::size_t place_of(std::uint32_t number) {
  if (number >= 8) return (number - 8) * std::size_t{4};
  return number == 0 ? kRegisterBytes : (number - 1) * std::size_t{16};
}

// Registers of one rule.
class Registers {
 public:
  void store(std::uint32_t number, const std::vector<Known>& value) {
    for (std::size_t i = 0, at = place_of(number); i < value.size() && at + i < kRegisterBytes; ++i)
      bytes_[at + i] = value[i];
  }
  std::vector<Known> load(std::uint32_t number, std::size_t size) const {
    std::vector<Known> value(size);
    for (std::size_t i = 0, at = place_of(number); i < size && at + i < kRegisterBytes; ++i)
      value[i] = bytes_[at + i];
    return value;
  }

 private:
  std::array<Known, kRegisterBytes> bytes_;
};

std::vector<Known> known(ByteView bytes) {
  return {bytes.begin(), bytes.end()};
}

std::vector<Known> number_of(std::uint32_t value) {
  netlink::Bytes bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return known(bytes);
}

std::vector<Known> port_of(const std::optional<std::uint16_t>& port) {
  if (!port) return {std::nullopt, std::nullopt};
  return {static_cast<std::uint8_t>(*port >> 8), static_cast<std::uint8_t>(*port & 0xff)};
}

// Less than 0, 0 or more than 0; nullopt: it depends on bytes that are not known.
std::optional<int> order_of(const std::vector<Known>& value, ByteView data) {
  for (std::size_t i = 0; i < std::min(value.size(), data.size()); ++i) {
    if (!value[i]) return std::nullopt;
    if (*value[i] != data[i]) return *value[i] < data[i] ? -1 : 1;
  }
  return 0;
}

Truth equals(const std::vector<Known>& value, ByteView data) {
  bool sure = true;
  for (std::size_t i = 0; i < std::min(value.size(), data.size()); ++i) {
    if (value[i] && *value[i] != data[i]) return Truth::no;
    sure = sure && value[i];
  }
  return sure ? Truth::yes : Truth::maybe;
}

// The header of a packet: what is not known is left open.
std::vector<Known> network_header(const FirewallPacket& packet) {
  const bool is_v4 = packet.family == netlink::Family::ipv4;
  std::vector<Known> header(is_v4 ? 20 : 40);
  header[0] = static_cast<std::uint8_t>(is_v4 ? 0x45 : 0x60);
  header[is_v4 ? 9 : 6] = static_cast<std::uint8_t>(packet.protocol);
  auto at = header.begin() + (is_v4 ? 12 : 8);
  for (const auto* address : {&packet.source, &packet.destination}) {
    if (*address) std::ranges::copy(known((*address)->bytes()), at);
    at += is_v4 ? 4 : 16;
  }
  return header;
}

std::vector<Known> transport_header(const FirewallPacket& packet) {
  auto header = port_of(packet.source_port);
  const auto destination = port_of(packet.destination_port);
  header.insert(header.end(), destination.begin(), destination.end());
  return header;
}

// Nothing is settled yet but perhaps the destination, which stays as it was.
std::vector<Known> status_of_new() {
  constexpr std::uint32_t kDestinationDone = 1 << 8;  // IPS_DST_NAT_DONE
  auto status = number_of(0);
  const auto open = number_of(kDestinationDone);
  for (std::size_t i = 0; i < status.size(); ++i)
    if (open[i] != Known(0)) status[i].reset();
  return status;
}

// The name of that link, or its number, which is always 1.
bool is_loopback(ByteView link) {
  constexpr std::array<std::uint8_t, 3> kName = {'l', 'o', 0};
  if (link.size() == sizeof(std::uint32_t)) return equals(number_of(1), link) == Truth::yes;
  return link.size() >= kName.size() && std::ranges::equal(link.first(kName.size()), kName);
}

// The fields of a concatenation, each filled up to 4 bytes, lie between those of the two keys.
Truth lies_between(const std::vector<Known>& value, const netlink::NftElement& element,
                   const std::vector<std::uint32_t>& fields) {
  auto all = Truth::yes;
  std::size_t at = 0;
  for (const auto bytes : fields) {
    if (at + bytes > element.key.size() || at + bytes > element.key_end.size()) return Truth::maybe;
    const std::vector<Known> field(value.begin() + static_cast<std::ptrdiff_t>(at),
                                   value.begin() + static_cast<std::ptrdiff_t>(at + bytes));
    const auto low = order_of(field, ByteView(element.key).subspan(at, bytes));
    const auto high = order_of(field, ByteView(element.key_end).subspan(at, bytes));
    if ((low && *low < 0) || (high && *high > 0)) return Truth::no;
    if (!low || !high) all = Truth::maybe;
    at += (bytes + 3) / 4 * 4;
  }
  return all;
}

// Of one rule.
class StepJudge {
 public:
  StepJudge(const FirewallTable& table, const FirewallPacket& packet, LookBudget& budget)
      : table_(table), packet_(packet), budget_(budget) {}

  RuleOutcome outcome(const std::vector<NftStep>& steps) && {
    budget_.spend(steps.size());
    outcome_.holds = Truth::yes;
    for (const auto& step : steps) {
      outcome_.holds =
          std::min(outcome_.holds, std::visit([&](const auto& one) { return apply(one); }, step));
      if (outcome_.holds == Truth::no) break;
    }
    return std::move(outcome_);
  }

 private:
  void store(std::uint32_t number, const std::vector<Known>& value) {
    if (link_register_ == number) link_register_.reset();
    registers_.store(number, value);
  }
  // Any register may be another.
  void forget() {
    registers_ = {};
    link_register_.reset();
  }
  void lead_to(const NftVerdict& verdict) { lead_to(action_of(verdict)); }
  void lead_to(Action action) {
    if (!std::holds_alternative<NoAction>(action)) outcome_.leads.push_back(std::move(action));
  }

  Truth apply(const netlink::NftPayload& one) {
    constexpr std::uint32_t kMostBytes = 256;
    if (one.offset > kMostBytes || one.size > kRegisterBytes) {
      forget();
      return Truth::yes;
    }
    auto header = one.header == netlink::NftHeader::network     ? network_header(packet_)
                  : one.header == netlink::NftHeader::transport ? transport_header(packet_)
                                                                : std::vector<Known>();
    header.resize(std::max<std::size_t>(header.size(), one.offset + one.size));
    const auto begin = header.begin() + static_cast<std::ptrdiff_t>(one.offset);
    store(one.target, {begin, begin + static_cast<std::ptrdiff_t>(one.size)});
    return Truth::yes;
  }
  Truth apply(const netlink::NftMeta& one) {
    constexpr std::uint32_t kInLink = 4;  // NFT_META_IIF
    constexpr std::uint32_t kOutLink = 5;
    constexpr std::uint32_t kInLinkName = 6;
    constexpr std::uint32_t kOutLinkName = 7;
    constexpr std::uint32_t kFamily = 15;  // NFT_META_NFPROTO
    if (!one.target) return Truth::yes;
    std::vector<Known> value(16);
    if (one.key == netlink::NftMeta::kL4Protocol) {
      value = {static_cast<std::uint8_t>(packet_.protocol)};
    } else if (one.key == kFamily) {
      const bool is_v4 = packet_.family == netlink::Family::ipv4;
      value = {static_cast<std::uint8_t>(is_v4 ? netlink::NftFamily::ip : netlink::NftFamily::ip6)};
    }
    store(*one.target, value);
    const bool is_in = one.key == kInLink || one.key == kInLinkName;
    if ((is_in && packet_.from_elsewhere) || one.key == kOutLink || one.key == kOutLinkName)
      link_register_ = *one.target;
    return Truth::yes;
  }
  std::vector<Known> original_of(netlink::NftCtKey key) const {
    using Key = netlink::NftCtKey;
    if (key == Key::destination_port) return port_of(packet_.first_destination_port);
    if (key == Key::destination || key == Key::destination_ip || key == Key::destination_ip6)
      return known(packet_.first_destination->bytes());
    return std::vector<Known>(16);
  }
  Truth apply(const netlink::NftCt& one) {
    constexpr std::uint32_t kEstablished = 1 << 1;  // NF_CT_STATE_BIT()
    constexpr std::uint32_t kNew = 1 << 3;
    std::vector<Known> value(16);
    if (one.key == netlink::NftCt::kState)
      value = number_of(packet_.is_new ? kNew : kEstablished);
    else if (one.key == netlink::NftCt::kStatus && packet_.is_new && packet_.from_elsewhere)
      value = status_of_new();
    else if (const auto& first = packet_.first_destination; first && one.direction == 0)
      value = original_of(static_cast<netlink::NftCtKey>(one.key));
    store(one.target, value);
    return Truth::yes;
  }
  Truth apply(const netlink::NftBitwise& one) {
    auto value = registers_.load(one.source, one.size);
    for (std::size_t i = 0; i < value.size() && i < one.mask.size() && i < one.flip.size(); ++i) {
      if (one.mask[i] == 0) value[i] = 0;
      if (value[i]) *value[i] = static_cast<std::uint8_t>((*value[i] & one.mask[i]) ^ one.flip[i]);
    }
    store(one.target, value);
    return Truth::yes;
  }
  Truth apply(const netlink::NftCompare& one) {
    using Op = netlink::NftCompare::Op;
    const auto value = registers_.load(one.source, one.data.size());
    if (one.op == Op::equal || one.op == Op::not_equal) {
      const bool is_link = one.source == link_register_;
      if (is_link && packet_.from_unnamed_link) return truth_of(one.op == Op::not_equal);
      const bool not_it = is_link && is_loopback(one.data);
      const auto same = not_it ? Truth::no : equals(value, one.data);
      return one.op == Op::equal ? same : opposite(same);
    }
    const auto order = order_of(value, one.data);
    if (!order) return Truth::maybe;
    switch (one.op) {
      case Op::less:
        return truth_of(*order < 0);
      case Op::less_equal:
        return truth_of(*order <= 0);
      case Op::greater:
        return truth_of(*order > 0);
      default:
        return truth_of(*order >= 0);
    }
  }
  Truth apply(const netlink::NftLookup& one) {
    const auto* const set = table_.set(one.set);
    if (one.target && *one.target != netlink::kNftVerdictRegister) {
      store(*one.target, std::vector<Known>(16));
      return Truth::maybe;
    }
    if (set == nullptr) {
      if (one.target) lead_to(UnknownAction{});
      return Truth::maybe;
    }
    budget_.spend(set->elements.size() / kElementsAStep);
    auto found = Truth::no;
    for (const auto& [truth, element] : matches_in(*set, one.source)) {
      // Its limit or quota decides, and that is of the past.
      found = std::max(found, element->asks ? Truth::maybe : truth);
      const auto* verdict = element->data ? std::get_if<NftVerdict>(&*element->data) : nullptr;
      if (one.target && verdict != nullptr) lead_to(*verdict);
    }
    return one.inverted ? opposite(found) : found;
  }
  Truth apply(const netlink::NftImmediate& one) {
    if (const auto* verdict = std::get_if<NftVerdict>(&one.data))
      lead_to(*verdict);
    else
      store(one.target, known(std::get<netlink::Bytes>(one.data)));
    return Truth::yes;
  }
  Truth apply(const netlink::NftFib& one) {
    constexpr std::uint32_t kLocal = 2;  // RTN_LOCAL
    const bool of_destination =
        one.result == netlink::NftFib::kAddressType && one.flags == netlink::NftFib::kDestination;
    store(one.target,
          of_destination && packet_.to_here ? number_of(kLocal) : std::vector<Known>(16));
    return Truth::yes;
  }
  Truth apply(const netlink::NftRange& one) {
    const auto value = registers_.load(one.source, one.from.size());
    const auto low = order_of(value, one.from);
    const auto high = order_of(value, one.to);
    if ((low && *low < 0) || (high && *high > 0)) return truth_of(one.outside);
    return low && high ? truth_of(!one.outside) : Truth::maybe;
  }
  Truth apply(const netlink::NftByteOrder& one) {
    auto value = registers_.load(one.source, std::min<std::size_t>(one.size, kRegisterBytes));
    if (one.unit == 0) return Truth::yes;
    for (std::size_t at = 0; at + one.unit <= value.size(); at += one.unit) {
      const auto begin = value.begin() + static_cast<std::ptrdiff_t>(at);
      std::reverse(begin, begin + static_cast<std::ptrdiff_t>(one.unit));
    }
    store(one.target, value);
    return Truth::yes;
  }
  Truth apply(const netlink::NftReject& /*one*/) {
    lead_to(RejectTarget{});
    return Truth::yes;
  }
  // nft_nat_inet_eval(): a rule for the other family lets the packet go on.
  Truth apply(const netlink::NftNat& one) {
    if (one.family != netlink::NftFamily::inet &&
        (one.family == netlink::NftFamily::ip) != (packet_.family == netlink::Family::ipv4))
      return Truth::yes;
    lead_to(TranslateAction{.direction = one.destination ? Direction::dst : Direction::src});
    return Truth::yes;
  }
  Truth apply(const netlink::NftRedirect& /*one*/) {
    lead_to(TranslateAction{});
    return Truth::yes;
  }
  Truth apply(const netlink::NftMasquerade& /*one*/) {
    lead_to(MasqueradeTarget{});
    return Truth::yes;
  }
  Truth apply(const ExtensionStep& one) {
    auto all = Truth::yes;
    for (const auto& match : one.matches) all = std::min(all, judge(match, packet_));
    for (const auto& condition : one.conditions) all = std::min(all, judge(condition, packet_));
    if (one.action && std::holds_alternative<NoTrackAction>(*one.action)) outcome_.untracks = true;
    if (one.action) lead_to(*one.action);
    return all;
  }
  Truth apply(const NamedStep& one) {
    if (one.kind == NamedStep::Kind::harmless) return Truth::yes;
    forget();
    if (one.kind == NamedStep::Kind::unknown) lead_to(UnknownAction{});
    return Truth::maybe;
  }
  Truth apply(const netlink::NftNoTrack& /*one*/) {
    outcome_.untracks = true;
    return Truth::yes;
  }
  // Marks, and short cuts of later packets.
  static Truth apply(const auto& /*other*/) { return Truth::yes; }

  using Matches = std::vector<std::pair<Truth, const netlink::NftElement*>>;

  // An element "*" is for every key that no other one has.
  static bool is_default(const netlink::NftElement& element) { return element.key.empty(); }

  // The element that holds the key in the register; several if its bytes are not all known.
  Matches matches_in(const FilterSet& set, std::uint32_t source) const {
    auto found = listed_in(set, registers_.load(source, set.spec.key_bytes));
    const bool is_sure =
        std::ranges::any_of(found, [](const auto& match) { return match.first == Truth::yes; });
    if (is_sure) return found;
    const auto otherwise = std::ranges::find_if(set.elements, is_default);
    if (otherwise != set.elements.end())
      found.emplace_back(found.empty() ? Truth::yes : Truth::maybe, &*otherwise);
    return found;
  }

  static Matches listed_in(const FilterSet& set, const std::vector<Known>& key) {
    const bool intervals = (set.spec.flags & netlink::NftSetSpec::kInterval) != 0;
    if (intervals && set.spec.fields.empty()) return interval_in(set, key);
    Matches found;
    for (const auto& element : set.elements) {
      if (is_default(element)) continue;
      const auto truth = element.key_end.empty() ? equals(key, element.key)
                                                 : lies_between(key, element, set.spec.fields);
      if (truth != Truth::no) found.emplace_back(truth, &element);
    }
    return found;
  }

  // An interval goes from its first key to the one before the next.
  static Matches interval_in(const FilterSet& set, const std::vector<Known>& key) {
    Matches found;
    std::vector<const netlink::NftElement*> sorted;
    for (const auto& element : set.elements)
      if (!is_default(element)) sorted.push_back(&element);
    const auto before = [](const auto* one, const auto* other) {
      if (const auto order = one->key <=> other->key; order != 0) return order < 0;
      return one->interval_end && !other->interval_end;
    };
    if (!std::ranges::is_sorted(sorted, before)) std::ranges::sort(sorted, before);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i]->interval_end) continue;
      const auto low = order_of(key, sorted[i]->key);
      const auto high =
          i + 1 < sorted.size() ? order_of(key, sorted[i + 1]->key) : std::optional<int>(-1);
      if (low && *low < 0) break;  // all others begin later
      if (high && *high >= 0) continue;
      found.emplace_back(low && high ? Truth::yes : Truth::maybe, sorted[i]);
    }
    return found;
  }

  const FirewallTable& table_;
  const FirewallPacket& packet_;
  LookBudget& budget_;
  Registers registers_;
  std::optional<std::uint32_t> link_register_;  // holds a link of the packet that is not lo
  RuleOutcome outcome_;
};

WalkEnds walk_nft(const FirewallTable& table, const std::string& chain, bool policy_accepts,
                  const FirewallPacket& packet, LookBudget& budget) {
  const auto find = [&](const std::string& name) -> std::optional<ChainRules> {
    const auto* const rules = table.rules(name);
    if (rules == nullptr) return std::nullopt;
    return ChainRules{.size = rules->size(), .outcome = [&, rules](std::size_t i) {
                        return StepJudge(table, packet, budget).outcome((*rules)[i]);
                      }};
  };
  return walk_chain(find, chain, policy_accepts, budget);
}

}  // namespace

FirewallFate fate_of(const WalkEnds& ends) {
  if (!ends.can_drop) return FirewallFate::passes;
  return ends.can_accept || ends.can_translate ? FirewallFate::may_drop : FirewallFate::drops;
}

FirewallFate fate_in(const FirewallTable& table, const std::string& chain, bool policy_accepts,
                     const FirewallPacket& packet, LookBudget& budget) {
  return fate_of(walk_nft(table, chain, policy_accepts, packet, budget));
}

bool untracks_in(const FirewallTable& table, const std::string& chain, const FirewallPacket& packet,
                 LookBudget& budget) {
  return walk_nft(table, chain, true, packet, budget).can_untrack;
}

FirewallTranslation translation_in(const FirewallTable& table, const std::string& chain,
                                   const FirewallPacket& packet, LookBudget& budget) {
  const auto ends = walk_nft(table, chain, true, packet, budget);
  if (!ends.can_translate) return FirewallTranslation::none;
  return ends.can_accept || ends.can_drop ? FirewallTranslation::possible
                                          : FirewallTranslation::certain;
}

}  // namespace ipvsproxier::ipset
