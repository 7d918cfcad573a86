#include "ipset/judge/nft_judge.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "ipset/judge/nft_field.h"
#include "ipset/judge/nft_lookup.h"
#include "ipset/nftables/rule_decoding.h"

namespace ipvsproxier::ipset {

using netlink::Bytes;
using netlink::Family;
using netlink::NftFamily;

namespace {

constexpr std::size_t kRegisterBytes = FieldBytes::kMost;
constexpr std::uint32_t kAllBits = 0xffffffff;
constexpr std::size_t kElementsAStep = 16;

// The 16 words of registers (NFT_REG_1 to 4, or NFT_REG32_00 to 15).
class NftRegisters {
 public:
  void store(std::uint32_t number, const NftField& field) {
    const auto at = begin_of(number);
    const auto size = std::min(field.bytes.size(), kRegisterBytes - at);
    std::copy_n(field.bytes.begin(), size, bytes_.begin() + at);
    std::copy_n(field.known.begin(), size, known_.begin() + at);
    // The rest of a word is zero.
    for (auto rest = at + size; rest % 4 != 0; ++rest) {
      bytes_[rest] = 0;
      known_[rest] = 0xff;
    }
  }
  NftField load(std::uint32_t number, std::size_t size) const {
    auto field = NftField::unknown(size);
    const auto at = begin_of(number);
    const auto most = std::min(field.bytes.size(), kRegisterBytes - at);
    std::copy_n(bytes_.begin() + at, most, field.bytes.begin());
    std::copy_n(known_.begin() + at, most, field.known.begin());
    return field;
  }
  void forget() { known_ = {}; }

 private:
  // nft_parse_register()
  static std::size_t begin_of(std::uint32_t number) {
    if (number >= 1 && number <= 4) return (number - 1) * std::size_t{16};
    return number >= 8 && number < 24 ? (number - 8) * std::size_t{4} : kRegisterBytes;
  }

  std::array<std::uint8_t, kRegisterBytes> bytes_{};
  std::array<std::uint8_t, kRegisterBytes> known_{};
};

std::optional<std::uint32_t> number_of(const NftField& field) {
  std::uint32_t number = 0;
  if (field.bytes.size() != sizeof number || !field.is_known()) return std::nullopt;
  std::memcpy(&number, field.bytes.data(), sizeof number);
  return number;
}

// The name of lo, or its number, which is always 1.
bool is_loopback(const Bytes& link) {
  constexpr std::array<std::uint8_t, 3> kName = {'l', 'o', 0};
  if (link.size() == sizeof(std::uint32_t)) return NftField::number(1).bytes.is(link);
  return link.size() >= kName.size() && std::equal(kName.begin(), kName.end(), link.begin());
}

Answer compared(const NftField& field, const netlink::NftCompare& compare) {
  using Op = netlink::NftCompare::Op;
  if (compare.op == Op::equal || compare.op == Op::not_equal) {
    for (std::size_t i = 0; i < field.bytes.size(); ++i)
      if (((field.bytes[i] ^ compare.data[i]) & field.known[i]) != 0)
        return answer_of(compare.op == Op::not_equal);
    return field.is_known() ? answer_of(compare.op == Op::equal) : Answer::unknown;
  }
  const auto low = field.least_against(compare.data);
  const auto high = field.most_against(compare.data);
  const auto both = [](bool one, bool other) {
    return one == other ? answer_of(one) : Answer::unknown;
  };
  if (compare.op == Op::less) return both(low < 0, high < 0);
  if (compare.op == Op::less_equal) return both(low <= 0, high <= 0);
  if (compare.op == Op::greater) return both(low > 0, high > 0);
  return both(low >= 0, high >= 0);
}

// Codes of ICMP of both families, and those that stand for one of either.
Action rejection(const netlink::NftReject& reject, Family family) {
  using Way = RejectAction::Way;
  if (reject.type == netlink::NftReject::kTcpReset) return RejectAction{Way::reset};
  if (reject.type == netlink::kNftRejectEither) {
    using Code = netlink::NftEitherReject;
    const auto code = static_cast<Code>(reject.code);
    if (code == Code::port) return RejectTarget{};
    return RejectAction{code == Code::prohibited ? Way::prohibited : Way::unreachable};
  }
  if (reject.type != netlink::NftReject::kIcmp) return UnknownAction{};
  const bool is_v4 = family == Family::ipv4;
  if (reject.code == (is_v4 ? 3 : 4)) return RejectTarget{};
  const bool unreachable = is_v4 ? reject.code <= 1 : reject.code == 0 || reject.code == 3;
  return RejectAction{unreachable ? Way::unreachable : Way::prohibited};
}

class NftRun {
 public:
  NftRun(const NftSets& sets, const NodeFacts& facts, const Packet& packet, LookBudget& budget)
      : sets_(sets), facts_(facts), packet_(packet), budget_(budget) {}

  RuleOutcome run(const std::vector<NftStep>& steps) && {
    budget_.spend(steps.size());
    outcome_.answer = Answer::yes;
    for (const auto& step : steps) {
      std::visit([this](const auto& one) { take(one); }, step);
      if (outcome_.answer == Answer::no || ended_) break;
    }
    const bool acts = !outcome_.leads.empty() || !outcome_.effects.empty() || outcome_.vague ||
                      !outcome_.flowtable.empty();
    if (!acts) outcome_.answer = Answer::no;
    return std::move(outcome_);
  }

 private:
  const Packet& packet() const { return changed_ ? *changed_ : packet_; }
  Packet& changed() {
    if (!changed_) changed_ = packet_;
    return *changed_;
  }
  void ask(Answer answer) { outcome_.answer = std::min(outcome_.answer, answer); }
  void end(Action action) {
    ended_ = !std::holds_alternative<NoAction>(action);
    add_action(std::move(action), outcome_);
  }
  void store(std::uint32_t target, const std::optional<NftField>& field) {
    if (link_register_ == target) link_register_.reset();
    if (!field) return ask(Answer::no);
    registers_.store(target, *field);
  }
  // Any register may be another.
  void forget() {
    registers_.forget();
    link_register_.reset();
  }

  // ---- what loads registers

  template <typename Loads>
  void load(const Loads& one) {
    store(one.target, NftFields{facts_, packet()}.of(one));
  }
  void take(const netlink::NftPayload& one) { load(one); }
  void take(const netlink::NftCt& one) { load(one); }
  void take(const netlink::NftFib& one) { load(one); }
  void take(const netlink::NftMeta& one) {
    if (one.target) {
      load_meta(one, *one.target);
    } else if (one.source && one.key == netlink::NftMeta::kMark) {
      const auto mark = number_of(registers_.load(*one.source, 4));
      changed().mark = mark.value_or(0);
      changed().mark_known = mark ? kAllBits : 0;
      if (!mark)
        outcome_.vague = true;
      else
        outcome_.effects.emplace_back(MarkTarget{.value = *mark, .mask = kAllBits});
    }
  }
  void load_meta(const netlink::NftMeta& one, std::uint32_t target) {
    using Key = netlink::NftMetaKey;
    store(target, NftFields{facts_, packet()}.of(one));
    const auto key = static_cast<Key>(one.key);
    const bool is_in = key == Key::in_index || key == Key::in_name;
    const bool is_out = key == Key::out_index || key == Key::out_name;
    if (!is_in && !is_out) return;
    link_ = is_in ? packet_.in_link_is : packet_.out_link_is;
    if (link_ != LinkFact::named) link_register_ = target;
  }
  void take(const netlink::NftBitwise& one) {
    auto field = registers_.load(one.source, one.size);
    if (one.mask.size() != field.bytes.size() || one.flip.size() != field.bytes.size())
      return act_unknown();
    for (std::size_t i = 0; i < field.bytes.size(); ++i) {
      field.bytes[i] = static_cast<std::uint8_t>((field.bytes[i] & one.mask[i]) ^ one.flip[i]);
      field.known[i] |= static_cast<std::uint8_t>(~one.mask[i]);
    }
    store(one.target, field);
  }
  void take(const netlink::NftByteOrder& one) {
    auto field = registers_.load(one.source, one.size);
    if (one.unit == 0 || field.bytes.size() % one.unit != 0) return act_unknown();
    for (auto* bytes : {&field.bytes, &field.known})
      for (std::size_t at = 0; at < bytes->size(); at += one.unit) {
        const auto begin = bytes->begin() + static_cast<std::ptrdiff_t>(at);
        std::reverse(begin, begin + static_cast<std::ptrdiff_t>(one.unit));
      }
    store(one.target, field);
  }

  // ---- what asks

  void take(const netlink::NftCompare& one) {
    using Op = netlink::NftCompare::Op;
    const bool is_other_link =
        one.source == link_register_ &&
        (link_ == LinkFact::unnamed || (link_ == LinkFact::not_loopback && is_loopback(one.data)));
    if (is_other_link && (one.op == Op::equal || one.op == Op::not_equal))
      return ask(answer_of(one.op == Op::not_equal));
    ask(compared(registers_.load(one.source, one.data.size()), one));
  }
  void take(const netlink::NftRange& one) {
    const auto field = registers_.load(one.source, one.from.size());
    ask(inverted(field.between(one.from, one.to), one.outside));
  }
  void take(const netlink::NftLookup& one) {
    const auto* const set = sets_.find ? sets_.find(one.set) : nullptr;
    if (set == nullptr) return miss(one.target);
    budget_.spend(set->elements.size() / kElementsAStep);
    const auto key = registers_.load(one.source, set->spec.key_bytes);
    const auto found = find_in(*set, key);
    if (found.answer == Answer::unknown) {
      if (one.target != netlink::kNftVerdictRegister) return miss(one.target);
      ask(Answer::unknown);
      budget_.spend(set->elements.size() / kElementsAStep);
      for (const auto* element : possible_in(*set, key)) lead_by(*element);
      return;
    }
    ask(inverted(found.answer, one.inverted));
    if (found.element == nullptr) return;
    // Its limit or quota decides, and that is of the past.
    if (found.element->asks) ask(Answer::unknown);
    if ((set->spec.flags & netlink::NftSetSpec::kAnonymous) == 0) note(one.set, *set, key);
    if (!one.target) return;
    if (one.target == netlink::kNftVerdictRegister) return lead_by(*found.element);
    const auto& data = found.element->data;
    const auto* const bytes = data ? std::get_if<Bytes>(&*data) : nullptr;
    if (bytes == nullptr) return act_unknown();
    store(*one.target, NftField::of(*bytes));
  }
  // What the verdict of the element does.
  void lead_by(const netlink::NftElement& element) {
    const auto* const verdict =
        element.data ? std::get_if<netlink::NftVerdict>(&*element.data) : nullptr;
    if (verdict == nullptr) return act_unknown();
    end(action_of(*verdict));
  }
  // A lookup that cannot be judged.
  void miss(std::optional<std::uint32_t> target) {
    ask(Answer::unknown);
    if (target == netlink::kNftVerdictRegister) return act_unknown();
    if (target) forget();
  }
  void note(const std::string& name, const FilterSet& set, const NftField& key) {
    if (sets_.table.empty()) return;
    auto& found = outcome_.found;
    found += fmt::format("{}{} {} has {}", found.empty() ? "" : ", ", sets_.table, name,
                         key_words(set.spec, {key.bytes.begin(), key.bytes.end()}));
  }

  // ---- what acts

  void act_unknown() {
    add_action(UnknownAction{}, outcome_);
    forget();
  }
  void take(const netlink::NftImmediate& one) {
    if (const auto* const verdict = std::get_if<netlink::NftVerdict>(&one.data))
      return end(action_of(*verdict));
    store(one.target, NftField::of(std::get<Bytes>(one.data)));
  }
  void take(const netlink::NftMasquerade& /*one*/) { end(MasqueradeTarget{}); }
  // nft_nat_inet_eval(): a rule for the other family lets the packet go on.
  void take(const netlink::NftNat& one) {
    const auto family = packet_.family();
    const auto of_packet = family == Family::ipv4 ? NftFamily::ip : NftFamily::ip6;
    if (one.family != of_packet && one.family != NftFamily::inet) return;
    const auto direction = one.destination ? Direction::dst : Direction::src;
    TranslateAction action{.direction = direction};
    if (one.address) {
      const auto field = registers_.load(*one.address, netlink::address_bits(family) / 8U);
      const bool is_known = field.is_known() && !one.address_end;
      if (is_known) action.address = netlink::IpAddress::from_bytes(family, field.bytes);
      outcome_.vague = outcome_.vague || !is_known;
    }
    // A range of source ports does not change where a packet goes.
    if (one.port && !(one.port_end && !one.destination)) take_port(*one.port, one.port_end, action);
    end(action);
  }
  void take(const netlink::NftRedirect& one) {
    TranslateAction action{.direction = Direction::dst, .to_here = true};
    if (one.port) take_port(*one.port, one.port_end, action);
    end(action);
  }
  void take_port(std::uint32_t first, std::optional<std::uint32_t> last, TranslateAction& action) {
    const auto port = port_in(first);
    if (!port || last)
      outcome_.vague = true;
    else
      action.port = *port;
  }
  std::optional<std::uint16_t> port_in(std::uint32_t number) const {
    const auto field = registers_.load(number, 2);
    if (!field.is_known()) return std::nullopt;
    return static_cast<std::uint16_t>(field.bytes[0] << 8 | field.bytes[1]);
  }
  void take(const netlink::NftReject& one) { end(rejection(one, packet_.family())); }
  void take(const netlink::NftSetConnectionMark& one) {
    const auto mark = number_of(registers_.load(one.source, 4));
    if (packet_.tracking == Tracking::tracked || packet_.tracking == Tracking::unknown) {
      changed().connection_mark = mark.value_or(0);
      changed().connection_mark_known = mark ? kAllBits : 0;
    }
    if (!mark)
      outcome_.vague = true;
    else
      outcome_.effects.emplace_back(
          ConnectionMarkAction{.value = *mark, .connection_mask = kAllBits});
  }
  void take(const netlink::NftNoTrack& /*one*/) { outcome_.effects.emplace_back(NoTrackAction{}); }
  // nft_flow_offload_eval(): the rule goes no further for a connection that no flowtable takes.
  void take(const netlink::NftFlowOffload& one) {
    const bool is_tracked =
        packet_.tracking == Tracking::tracked || packet_.tracking == Tracking::unknown;
    if (!is_tracked || packet_.protocol == netlink::Protocol::sctp) return ask(Answer::no);
    if (packet_.status_known && !packet_.confirmed) return ask(Answer::no);
    if (!packet_.status_known) ask(Answer::unknown);
    outcome_.flowtable = one.flowtable;
  }
  void take(const ExtensionStep& one) {
    const RuleJudge judge(facts_, packet());
    for (const auto& match : one.matches) ask(judge.match(match, outcome_.found));
    for (const auto& condition : one.conditions) ask(judge.condition(condition, outcome_.found));
    if (!one.action) return;
    add_action(*one.action, outcome_);
    ended_ = !outcome_.leads.empty();
  }
  void take(const NamedStep& one) {
    using Kind = NamedStep::Kind;
    if (one.kind == Kind::harmless) return;
    ask(Answer::unknown);
    forget();
    if (one.kind == Kind::unknown) act_unknown();
  }

  const NftSets& sets_;
  const NodeFacts& facts_;
  const Packet& packet_;
  std::optional<Packet> changed_;  // with the marks that the rule has set
  LookBudget& budget_;
  NftRegisters registers_;
  std::optional<std::uint32_t> link_register_;  // holds a link whose name is not known
  LinkFact link_ = LinkFact::unknown;           // of that link
  RuleOutcome outcome_;
  bool ended_ = false;
};

}  // namespace

RuleOutcome judge_nft(const std::vector<NftStep>& steps, const NftSets& sets,
                      const NodeFacts& facts, const Packet& packet, LookBudget& budget) {
  return NftRun(sets, facts, packet, budget).run(steps);
}

}  // namespace ipvsproxier::ipset
