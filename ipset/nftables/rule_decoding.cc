#include "ipset/nftables/rule_decoding.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "ipset/nftables/foreign_steps.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/rule_expressions.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::NftExpression;
using netlink::NftVerdict;
using netlink::NftVerdictCode;

constexpr std::uint32_t kInterfaceKey = 6;       // NFT_META_IIFNAME
constexpr std::size_t kWholeInterfaceName = 16;  // IFNAMSIZ

// Of the source address in the headers of IPv4 and IPv6.
constexpr std::uint32_t source_offset(Family family) {
  return family == Family::ipv4 ? 12 : 8;
}

// What an expression has loaded for the next one to look at.
enum class Loaded : std::uint8_t {
  source,
  destination,
  protocol,
  port,
  icmp_type,
  in_interface,
  mark,
  state,
  status,
  source_type,
  destination_type,
};

std::optional<std::uint32_t> number_in(const netlink::Bytes& bytes) {
  std::uint32_t number = 0;
  if (bytes.size() != sizeof number) return std::nullopt;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

// Guesses the rule by what is loaded and how it is used. It need not look at registers and
// lengths: whoever calls it encodes the rule again and compares.
class LooseDecoder {
 public:
  LooseDecoder(Family family, const netlink::NftTableKey& table)
      : family_(family), table_(netlink::to_string(table)) {}

  std::optional<Rule> run(std::span<const NftExpression> expressions) {
    for (const auto& one : expressions)
      if (!std::visit([this](const auto& expression) { return take(expression); }, one))
        return std::nullopt;
    if (!has_target_) return std::nullopt;
    return std::move(rule_);
  }

 private:
  using Things = std::vector<Loaded>;

  bool load(Loaded thing) {
    loaded_.push_back(thing);
    return true;
  }
  // What was loaded since the last use.
  Things use() { return std::exchange(loaded_, {}); }
  // Made in place: gcc 12 takes moved variants for uninitialised.
  template <typename Part>
  bool match(Part part) {
    rule_.matches.emplace_back(std::in_place_type<Part>, std::move(part));
    return true;
  }
  template <typename Part>
  bool act(Part part) {
    rule_.target.emplace<Part>(std::move(part));
    has_target_ = true;
    return true;
  }
  std::string full_name(const std::string& set) const { return table_ + " " + set; }

  bool take(const netlink::NftPayload& payload) {
    if (payload.header == netlink::NftHeader::network) {
      const bool is_source = payload.offset == source_offset(family_);
      return load(is_source ? Loaded::source : Loaded::destination);
    }
    return load(payload.size == 1 ? Loaded::icmp_type : Loaded::port);
  }
  bool take(const netlink::NftMeta& meta) {
    if (meta.source) {
      const auto mask = number_in(mask_);
      const auto flip = number_in(flip_);
      if (use() != Things{Loaded::mark} || !mask || !flip) return false;
      return act(MarkTarget{.value = *flip, .mask = ~*mask});
    }
    if (meta.key == netlink::NftMeta::kMark) return load(Loaded::mark);
    if (meta.key == netlink::NftMeta::kL4Protocol) return load(Loaded::protocol);
    return meta.key == kInterfaceKey && load(Loaded::in_interface);
  }
  bool take(const netlink::NftCt& ct) {
    if (ct.direction) return false;
    return load(ct.key == netlink::NftCt::kState ? Loaded::state : Loaded::status);
  }
  bool take(const netlink::NftFib& fib) {
    return load(fib.flags == netlink::NftFib::kSource ? Loaded::source_type
                                                      : Loaded::destination_type);
  }
  bool take(const netlink::NftBitwise& bitwise) {
    mask_ = bitwise.mask;
    flip_ = bitwise.flip;
    return true;
  }
  bool take(const netlink::NftCompare& compare) {
    const auto used = use();
    const auto mask = std::exchange(mask_, {});
    if (used.size() != 1) return false;
    return compared(used.front(), mask, compare);
  }
  bool compared(Loaded thing, const netlink::Bytes& mask, const netlink::NftCompare& compare) {
    const bool negated = compare.op == netlink::NftCompare::Op::not_equal;
    switch (thing) {
      case Loaded::source:
        return source_is(mask, compare.data, negated);
      case Loaded::in_interface:
        return interface_is(compare.data, negated);
      case Loaded::protocol:
        return protocol_is(compare.data);
      case Loaded::icmp_type:
        return match(EchoRequestMatch{});
      case Loaded::mark: {
        const auto bits = number_in(mask);
        const auto value = number_in(compare.data);
        return bits && value && match(MarkMatch{*value, *bits, negated});
      }
      case Loaded::state: {
        const auto bits = number_in(mask);
        return bits && match(ConntrackStateMatch{
                           .is_new = (*bits & netlink::nft_ct_state::kNew) != 0,
                           .related = (*bits & netlink::nft_ct_state::kRelated) != 0,
                           .established = (*bits & netlink::nft_ct_state::kEstablished) != 0,
                           .invalid = (*bits & netlink::nft_ct_state::kInvalid) != 0});
      }
      case Loaded::status:
        if (number_in(compare.data) == 0U) return match(UntranslatedMatch{});
        return match(ConfirmedMatch{.negated = negated});
      case Loaded::source_type:
        return match(LocalAddressMatch{.direction = Direction::src, .negated = negated});
      case Loaded::destination_type:
        return match(LocalAddressMatch{.direction = Direction::dst, .negated = negated});
      case Loaded::destination:
        return destination_is(mask, compare.data);
      case Loaded::port:
        return port_is(compare.data);
    }
    return false;
  }
  std::optional<netlink::IpPrefix> prefix_of(const netlink::Bytes& mask,
                                             const netlink::Bytes& data) const {
    const auto address = netlink::IpAddress::from_bytes(family_, data);
    if (!address) return std::nullopt;
    unsigned length = netlink::address_bits(family_);
    if (!mask.empty()) {
      length = 0;
      for (const auto byte : mask) length += static_cast<unsigned>(std::popcount(byte));
    }
    return netlink::IpPrefix::of(*address, static_cast<std::uint8_t>(length));
  }
  bool destination_is(const netlink::Bytes& mask, const netlink::Bytes& data) {
    rule_.destination = prefix_of(mask, data);
    return rule_.destination.has_value();
  }
  bool source_is(const netlink::Bytes& mask, const netlink::Bytes& data, bool negated) {
    const auto prefix = prefix_of(mask, data);
    if (!prefix) return false;
    if (!rule_.source) {
      rule_.source = SourceMatch{.prefix = *prefix, .negated = negated};
      return true;
    }
    if (rule_.matches.empty()) match(OutsideMatch{});
    if (auto* outside = std::get_if<OutsideMatch>(&rule_.matches.back()))
      outside->prefixes.push_back(*prefix);
    return true;
  }
  bool interface_is(const netlink::Bytes& data, bool negated) {
    const bool is_prefix = data.size() != kWholeInterfaceName;
    // iptables-nft writes a whole name so.
    if (is_prefix && std::ranges::find(data, std::uint8_t{0}) != data.end()) return false;
    const auto end = is_prefix ? data.end() : std::ranges::find(data, std::uint8_t{0});
    rule_.in_interface = InInterfaceMatch{
        .name = std::string(data.begin(), end), .is_prefix = is_prefix, .negated = negated};
    return true;
  }
  bool port_is(const netlink::Bytes& data) {
    if (data.size() != 2 || !rule_.protocol) return false;
    const auto port = static_cast<std::uint16_t>(data[0] << 8 | data[1]);
    return match(DestinationPortMatch{*rule_.protocol, port, port});
  }
  bool protocol_is(const netlink::Bytes& data) {
    if (data.size() != 1) return false;
    const auto protocol = static_cast<netlink::Protocol>(data.front());
    for (const auto known :
         {netlink::Protocol::tcp, netlink::Protocol::udp, netlink::Protocol::sctp})
      if (protocol == known) rule_.protocol = protocol;
    return true;  // that of ICMP comes with its type
  }

  bool take(const netlink::NftLookup& lookup) {
    const auto used = use();
    if (lookup.target) {
      const bool by_service = used == Things{Loaded::destination, Loaded::protocol, Loaded::port};
      if (!by_service || lookup.target == netlink::kNftVerdictRegister)
        return by_service && act(VerdictMapTarget{.map = full_name(lookup.set)});
      found_in_ = full_name(lookup.set);
      return true;
    }
    if (used.empty()) return false;
    SetMatch found{.set = full_name(lookup.set), .directions = {}, .negated = lookup.inverted};
    for (const auto thing : used)
      found.directions.push_back(thing == Loaded::source ? Direction::src : Direction::dst);
    return match(std::move(found));
  }
  bool take(const netlink::NftNat& nat) {
    if (immediate_ && nat.destination)
      return use().empty() && act(DestinationTarget{.address = *immediate_});
    if (immediate_) return use().empty() && act(SourceTarget{.address = *immediate_});
    if (found_in_) return use().empty() && act(DestinationMapTarget{.map = *found_in_});
    return use() == Things{Loaded::destination} && act(KeepDestinationTarget{});
  }
  bool take(const netlink::NftMasquerade& masquerade) {
    const auto* mark = std::get_if<MarkTarget>(&rule_.target);
    return act(MasqueradeTarget{.random_fully = masquerade.flags == netlink::kNftFullyRandom,
                                .clears = mark == nullptr ? 0 : mark->mask});
  }
  bool take(const netlink::NftReject& /*reject*/) { return act(RejectTarget{}); }
  bool take(const netlink::NftObjectRef& /*use*/) { return act(UnacceleratedTarget{}); }
  bool take(const netlink::NftImmediate& immediate) {
    if (const auto* bytes = std::get_if<netlink::Bytes>(&immediate.data)) {
      immediate_ = netlink::IpAddress::from_bytes(family_, *bytes);
      return immediate_.has_value();
    }
    const auto* verdict = std::get_if<NftVerdict>(&immediate.data);
    if (verdict == nullptr) return false;
    switch (verdict->code) {
      case NftVerdictCode::accept:
        return act(Verdict::accept);
      case NftVerdictCode::drop:
        return act(Verdict::drop);
      case NftVerdictCode::give_back:
        return act(Verdict::return_);
      case NftVerdictCode::jump:
        return act(JumpTarget{.chain = verdict->chain});
      default:
        return false;
    }
  }
  bool take(const auto& /*other*/) { return false; }

  Family family_;
  std::string table_;
  Rule rule_;
  bool has_target_ = false;
  Things loaded_;
  std::optional<std::string> found_in_;          // the map whose data are loaded
  std::optional<netlink::IpAddress> immediate_;  // that is loaded
  netlink::Bytes mask_;
  netlink::Bytes flip_;
};

// The verdict of the last expression; nullptr if that has none.
const NftVerdict* final_verdict(std::span<const NftExpression> expressions) {
  if (expressions.empty()) return nullptr;
  const auto* last = std::get_if<netlink::NftImmediate>(&expressions.back());
  return last == nullptr ? nullptr : std::get_if<NftVerdict>(&last->data);
}

Rule foreign_rule(std::span<const NftExpression> bare, Family family,
                  const std::map<std::string, FilterSet>& sets) {
  NoSets no_sets;
  ForeignTarget target{.description = words_of(steps_of(bare, family, no_sets), family, sets),
                       .conditions = {},
                       .action = UnknownAction{}};
  if (target.description.empty()) target.description = "[]";
  const auto* const verdict = final_verdict(bare);
  if (verdict != nullptr) target.action = action_of(*verdict);
  if (bare.size() > (verdict == nullptr ? 0 : 1))
    target.conditions.emplace_back(UnknownCondition{});
  return {.target = std::move(target)};
}

// nft(8) compares only the bytes of a source prefix, if it ends with a byte: the same with a mask.
void widen_sources(std::vector<NftExpression>& expressions, Family family) {
  const std::uint32_t size = netlink::address_bits(family) / 8;
  for (std::size_t i = 0; i + 1 < expressions.size(); ++i) {
    auto* payload = std::get_if<netlink::NftPayload>(&expressions[i]);
    auto* compare = std::get_if<netlink::NftCompare>(&expressions[i + 1]);
    if (payload == nullptr || compare == nullptr ||
        payload->header != netlink::NftHeader::network ||
        payload->offset != source_offset(family) || payload->size >= size ||
        compare->data.size() != payload->size || compare->source != payload->target)
      continue;
    netlink::NftBitwise bitwise{.source = payload->target,
                                .target = payload->target,
                                .size = size,
                                .mask = netlink::Bytes(payload->size, 0xff),
                                .flip = netlink::Bytes(size)};
    bitwise.mask.resize(size);
    compare->data.resize(size);
    payload->size = size;
    expressions.insert(expressions.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                       std::move(bitwise));
  }
}

}  // namespace

Action action_of(const NftVerdict& verdict) {
  switch (verdict.code) {
    case NftVerdictCode::accept:
      return Verdict::accept;
    case NftVerdictCode::drop:
      return Verdict::drop;
    case NftVerdictCode::give_back:
      return Verdict::return_;
    case NftVerdictCode::go_on:
      return NoAction{};
    case NftVerdictCode::jump:
      return JumpTarget{.chain = verdict.chain};
    case NftVerdictCode::go_to:
      return GotoAction{.chain = verdict.chain};
    case NftVerdictCode::no_match:
      return NoAction{};
  }
  // The kernel takes the low byte for the verdict; a drop may have an error number above it.
  constexpr std::uint32_t kVerdictMask = 0xff;  // NF_VERDICT_MASK
  const auto low = static_cast<std::uint32_t>(verdict.code) & kVerdictMask;
  if (low == static_cast<std::uint32_t>(NftVerdictCode::drop)) return Verdict::drop;
  if (low == static_cast<std::uint32_t>(NftVerdictCode::accept)) return Verdict::accept;
  return UnknownAction{};
}

Rule rule_in(std::span<const NftExpression> expressions, Family family) {
  return rule_in(expressions, family, nft_table_of(family), {});
}

Rule rule_in(std::span<const NftExpression> expressions, Family family,
             const netlink::NftTableKey& table, const std::map<std::string, FilterSet>& sets) {
  std::vector<NftExpression> bare;
  std::ranges::copy_if(expressions, std::back_inserter(bare), [](const NftExpression& one) {
    return !std::holds_alternative<netlink::NftCounter>(one);
  });
  auto widened = bare;
  widen_sources(widened, family);
  auto rule = LooseDecoder(family, table).run(widened);
  if (rule && expressions_of(*rule, family) == widened) return *std::move(rule);
  return foreign_rule(bare, family, sets);
}

std::optional<RuleCount> count_in(std::span<const NftExpression> expressions) {
  std::optional<RuleCount> sum;
  for (const auto& expression : expressions)
    if (const auto* counter = std::get_if<netlink::NftCounter>(&expression)) {
      if (!sum) sum = RuleCount{};
      sum->packets += counter->packets;
      sum->bytes += counter->bytes;
    }
  return sum;
}

WholeTable whole_table_of(const FilterContents& contents, Family family) {
  return whole_table_of(contents, family, nft_table_of(family));
}

WholeTable whole_table_of(const FilterContents& contents, Family family,
                          const netlink::NftTableKey& table) {
  WholeTable whole;
  for (const auto& [name, chain] : contents.chains) {
    auto& rules = whole.chains[name];
    auto& counts = whole.counts[name];
    for (const auto& rule : chain.rules) {
      rules.push_back(rule_in(rule.expressions, family, table, contents.sets));
      counts.push_back(count_in(rule.expressions));
    }
    if (chain.base) whole.policies[name] = chain.base->accepts ? Verdict::accept : Verdict::drop;
  }
  return whole;
}

}  // namespace ipvsproxier::ipset
