#include "cmd/ipvsctl/explain/nft_judge.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "cmd/ipvsctl/explain/nft_field.h"
#include "cmd/ipvsctl/explain/nft_lookup.h"
#include "ipset/nftables/rule_decoding.h"

namespace ipvsproxier::ctl {

using ipset::Action;
using netlink::Bytes;
using netlink::Family;
using netlink::NftFamily;

namespace {

constexpr std::size_t kRegisterBytes = 64;
constexpr std::uint32_t kAllBits = 0xffffffff;

// The 16 words of registers (NFT_REG_1 to 4, or NFT_REG32_00 to 15).
class NftRegisters {
 public:
  void store(std::uint32_t number, const NftField& field) {
    const auto at = begin_of(number);
    if (at > kRegisterBytes) return;
    // The rest of a word is zero.
    const auto words = (field.bytes.size() + 3) / 4 * 4;
    for (std::size_t i = 0; i < words && at + i < kRegisterBytes; ++i) {
      const bool inside = i < field.bytes.size();
      bytes_[at + i] = inside ? field.bytes[i] : std::uint8_t{0};
      known_[at + i] = inside ? field.known[i] : std::uint8_t{0xff};
    }
  }
  NftField load(std::uint32_t number, std::size_t size) const {
    auto field = NftField::unknown(std::min(size, kRegisterBytes));
    const auto at = begin_of(number);
    for (std::size_t i = 0; i < field.bytes.size() && at + i < kRegisterBytes; ++i) {
      field.bytes[i] = bytes_[at + i];
      field.known[i] = known_[at + i];
    }
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

Answer truth(bool value) {
  return value ? Answer::yes : Answer::no;
}

Answer inverted(Answer answer, bool inverts) {
  if (!inverts || answer == Answer::unknown) return answer;
  return truth(answer == Answer::no);
}

Answer compared(const NftField& field, const netlink::NftCompare& compare) {
  using Op = netlink::NftCompare::Op;
  if (compare.op == Op::equal || compare.op == Op::not_equal) {
    for (std::size_t i = 0; i < field.bytes.size(); ++i)
      if (((field.bytes[i] ^ compare.data[i]) & field.known[i]) != 0)
        return truth(compare.op == Op::not_equal);
    return field.is_known() ? truth(compare.op == Op::equal) : Answer::unknown;
  }
  if (!field.is_known()) return Answer::unknown;
  if (compare.op == Op::less) return truth(field.bytes < compare.data);
  if (compare.op == Op::less_equal) return truth(field.bytes <= compare.data);
  if (compare.op == Op::greater) return truth(field.bytes > compare.data);
  return truth(field.bytes >= compare.data);
}

// Codes of ICMP of both families, and those that stand for one of either.
Action rejection(const netlink::NftReject& reject, Family family) {
  using Way = ipset::RejectAction::Way;
  if (reject.type == netlink::NftReject::kTcpReset) return ipset::RejectAction{Way::reset};
  if (reject.type == netlink::kNftRejectEither) {
    using Code = netlink::NftEitherReject;
    const auto code = static_cast<Code>(reject.code);
    if (code == Code::port) return ipset::RejectTarget{};
    return ipset::RejectAction{code == Code::prohibited ? Way::prohibited : Way::unreachable};
  }
  if (reject.type != netlink::NftReject::kIcmp) return ipset::UnknownAction{};
  const bool is_v4 = family == Family::ipv4;
  if (reject.code == (is_v4 ? 3 : 4)) return ipset::RejectTarget{};
  const bool unreachable = is_v4 ? reject.code <= 1 : reject.code == 0 || reject.code == 3;
  return ipset::RejectAction{unreachable ? Way::unreachable : Way::prohibited};
}

class NftRun {
 public:
  NftRun(const std::string& table, const NodeReading& node, const Packet& packet,
         const IsLocal& is_local)
      : table_(table), node_(node), packet_(packet), judge_(node, packet_, is_local) {}

  NftOutcome run(const std::vector<ipset::NftStep>& steps) && {
    outcome_.answer = Answer::yes;
    for (const auto& step : steps) {
      std::visit([this](const auto& one) { take(one); }, step);
      if (outcome_.answer == Answer::no || ended_) break;
    }
    const bool acts = ended_ || !outcome_.effects.empty() || may_act_;
    if (!acts) outcome_.answer = Answer::no;
    if (std::holds_alternative<ipset::UnknownAction>(outcome_.end) &&
        outcome_.answer == Answer::yes)
      outcome_.answer = Answer::unknown;
    return std::move(outcome_);
  }

 private:
  void ask(Answer answer) {
    if (answer == Answer::no || outcome_.answer == Answer::yes) outcome_.answer = answer;
  }
  void end(Action action) {
    outcome_.end = std::move(action);
    ended_ = !std::holds_alternative<ipset::NoAction>(outcome_.end);
  }
  void store(std::uint32_t target, const std::optional<NftField>& field) {
    if (!field) return ask(Answer::no);
    registers_.store(target, *field);
  }

  // ---- what loads registers

  template <typename Loads>
  void load(const Loads& one) {
    store(one.target, NftFields{node_, packet_, judge_}.of(one));
  }
  void take(const netlink::NftPayload& one) { load(one); }
  void take(const netlink::NftCt& one) { load(one); }
  void take(const netlink::NftFib& one) { load(one); }
  void take(const netlink::NftMeta& one) {
    if (one.target) return store(*one.target, NftFields{node_, packet_, judge_}.of(one));
    if (!one.source || one.key != netlink::NftMeta::kMark) return;
    const auto mark = number_of(registers_.load(*one.source, 4));
    if (!mark) return act_unknown();
    packet_.mark = *mark;
    outcome_.effects.emplace_back(ipset::MarkTarget{.value = *mark, .mask = kAllBits});
  }
  void take(const netlink::NftBitwise& one) {
    auto field = registers_.load(one.source, one.size);
    if (one.mask.size() != field.bytes.size() || one.flip.size() != field.bytes.size())
      return act_unknown();
    for (std::size_t i = 0; i < field.bytes.size(); ++i) {
      field.bytes[i] = static_cast<std::uint8_t>((field.bytes[i] & one.mask[i]) ^ one.flip[i]);
      field.known[i] |= static_cast<std::uint8_t>(~one.mask[i]);
    }
    registers_.store(one.target, field);
  }
  void take(const netlink::NftByteOrder& one) {
    auto field = registers_.load(one.source, one.size);
    if (one.unit == 0 || field.bytes.size() % one.unit != 0) return act_unknown();
    for (auto* bytes : {&field.bytes, &field.known})
      for (std::size_t at = 0; at < bytes->size(); at += one.unit) {
        const auto begin = bytes->begin() + static_cast<std::ptrdiff_t>(at);
        std::reverse(begin, begin + static_cast<std::ptrdiff_t>(one.unit));
      }
    registers_.store(one.target, field);
  }

  // ---- what asks

  void take(const netlink::NftCompare& one) {
    ask(compared(registers_.load(one.source, one.data.size()), one));
  }
  void take(const netlink::NftRange& one) {
    const auto field = registers_.load(one.source, one.from.size());
    if (!field.is_known()) return ask(Answer::unknown);
    ask(inverted(truth(field.bytes >= one.from && field.bytes <= one.to), one.outside));
  }
  void take(const netlink::NftLookup& one) {
    const auto rules = node_.nft_rules.find(table_);
    const auto* const sets = rules == node_.nft_rules.end() ? nullptr : &rules->second.sets;
    const bool to_verdict = one.target == netlink::kNftVerdictRegister;
    if (sets == nullptr || !sets->contains(one.set)) return miss(one.target);
    const auto& set = sets->at(one.set);
    const auto key = registers_.load(one.source, set.spec.key_bytes);
    const auto found = find_in(set, key);
    if (found.answer == Answer::unknown) return miss(one.target);
    ask(inverted(found.answer, one.inverted));
    if (found.element == nullptr) return;
    // Its limit or quota decides, and that is of the past.
    if (found.element->asks) ask(Answer::unknown);
    if ((set.spec.flags & netlink::NftSetSpec::kAnonymous) == 0) note(one.set, set, key);
    if (!one.target) return;
    const auto& data = found.element->data;
    if (!data) return act_unknown();
    if (const auto* const bytes = std::get_if<Bytes>(&*data); bytes != nullptr && !to_verdict)
      return registers_.store(*one.target, NftField::of(*bytes));
    const auto* const verdict = std::get_if<netlink::NftVerdict>(&*data);
    if (verdict == nullptr || !to_verdict) return act_unknown();
    end(ipset::action_of(*verdict));
  }
  // A lookup that cannot be judged.
  void miss(std::optional<std::uint32_t> target) {
    ask(Answer::unknown);
    if (target == netlink::kNftVerdictRegister) return act_unknown();
    if (target) registers_.forget();
  }
  void note(const std::string& name, const ipset::FilterSet& set, const NftField& key) {
    auto& found = outcome_.found;
    found += fmt::format("{}{} {} has {}", found.empty() ? "" : ", ", table_, name,
                         ipset::key_words(set.spec, key.bytes));
  }

  // ---- what acts

  void act_unknown() {
    ask(Answer::unknown);
    may_act_ = true;
    registers_.forget();
  }
  void take(const netlink::NftImmediate& one) {
    if (const auto* const verdict = std::get_if<netlink::NftVerdict>(&one.data))
      return end(ipset::action_of(*verdict));
    registers_.store(one.target, NftField::of(std::get<Bytes>(one.data)));
  }
  void take(const netlink::NftMasquerade& /*one*/) { end(ipset::MasqueradeTarget{}); }
  // nft_nat_inet_eval(): a rule for the other family lets the packet go on.
  void take(const netlink::NftNat& one) {
    const auto family = packet_.destination.family();
    const auto of_packet = family == Family::ipv4 ? NftFamily::ip : NftFamily::ip6;
    if (one.family != of_packet && one.family != NftFamily::inet) return;
    const auto direction = one.destination ? ipset::Direction::dst : ipset::Direction::src;
    ipset::TranslateAction action{.direction = direction};
    if (one.address) {
      const auto field = registers_.load(*one.address, netlink::address_bits(family) / 8U);
      if (!field.is_known() || one.address_end) return end(ipset::UnknownAction{});
      action.address = netlink::IpAddress::from_bytes(family, field.bytes);
    }
    // A range of source ports does not change where a packet goes.
    if (one.port && !(one.port_end && !one.destination)) {
      const auto port = port_in(*one.port);
      if (!port || one.port_end) return end(ipset::UnknownAction{});
      action.port = *port;
    }
    end(action);
  }
  void take(const netlink::NftRedirect& one) {
    ipset::TranslateAction action{.direction = ipset::Direction::dst, .to_here = true};
    if (one.port) {
      const auto port = port_in(*one.port);
      if (!port || one.port_end) return end(ipset::UnknownAction{});
      action.port = *port;
    }
    end(action);
  }
  std::optional<std::uint16_t> port_in(std::uint32_t number) const {
    const auto field = registers_.load(number, 2);
    if (!field.is_known()) return std::nullopt;
    return static_cast<std::uint16_t>(field.bytes[0] << 8 | field.bytes[1]);
  }
  void take(const netlink::NftReject& one) { end(rejection(one, packet_.destination.family())); }
  void take(const netlink::NftSetConnectionMark& one) {
    const auto mark = number_of(registers_.load(one.source, 4));
    if (!mark) return act_unknown();
    if (packet_.tracking == Tracking::tracked) packet_.connection_mark = *mark;
    outcome_.effects.emplace_back(
        ipset::ConnectionMarkAction{.value = *mark, .connection_mask = kAllBits});
  }
  void take(const netlink::NftNoTrack& /*one*/) {
    outcome_.effects.emplace_back(ipset::NoTrackAction{});
  }
  void take(const netlink::NftFlowOffload& /*one*/) {}
  void take(const ipset::ExtensionStep& one) {
    for (const auto& match : one.matches) ask(judge_.match(match, outcome_.found));
    for (const auto& condition : one.conditions) ask(judge_.condition(condition, outcome_.found));
    if (!one.action) return;
    const auto& action = *one.action;
    const bool is_effect = std::holds_alternative<ipset::MarkTarget>(action) ||
                           std::holds_alternative<ipset::ConnectionMarkAction>(action) ||
                           std::holds_alternative<ipset::NoTrackAction>(action);
    if (is_effect)
      outcome_.effects.push_back(action);
    else
      end(action);
  }
  void take(const ipset::NamedStep& one) {
    using Kind = ipset::NamedStep::Kind;
    if (one.kind == Kind::harmless) return;
    ask(Answer::unknown);
    registers_.forget();
    may_act_ = may_act_ || one.kind == Kind::unknown;
  }

  const std::string& table_;
  const NodeReading& node_;
  Packet packet_;  // with the marks that the rule has set
  RuleJudge judge_;
  NftRegisters registers_;
  NftOutcome outcome_;
  bool ended_ = false;
  bool may_act_ = false;
};

}  // namespace

NftOutcome judge_nft(const std::vector<ipset::NftStep>& steps, const std::string& table,
                     const NodeReading& node, const Packet& packet, const IsLocal& is_local) {
  return NftRun(table, node, packet, is_local).run(steps);
}

}  // namespace ipvsproxier::ctl
