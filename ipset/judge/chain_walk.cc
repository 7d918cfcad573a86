#include "ipset/judge/chain_walk.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace ipvsproxier::ipset {

namespace {

// nf_tables has 16 (NFT_JUMP_STACK_SIZE), legacy iptables as many as there are chains.
constexpr std::size_t kMostDepth = 256;

// What rules change of a packet, besides its destination.
struct Changeable {
  explicit Changeable(const Packet& packet)
      : mark(packet.mark),
        mark_known(packet.mark_known),
        connection_mark(packet.connection_mark),
        connection_mark_known(packet.connection_mark_known),
        tracking(packet.tracking) {}

  // What differs from what was before is not known any more.
  void may_have_stayed(Packet& packet) const {
    packet.mark_known &= mark_known & ~(packet.mark ^ mark);
    packet.connection_mark_known &=
        connection_mark_known & ~(packet.connection_mark ^ connection_mark);
    if (packet.tracking != tracking) packet.tracking = Tracking::unknown;
  }

  std::uint32_t mark;
  std::uint32_t mark_known;
  std::uint32_t connection_mark;
  std::uint32_t connection_mark_known;
  Tracking tracking;
};

class RuleWalker {
 public:
  RuleWalker(const WalkedRules& rules, Packet& packet, LookBudget& budget)
      : rules_(rules), packet_(packet), budget_(budget) {}

  ChainWalk walk(const std::string& chain, bool policy_accepts) && {
    if (run(chain, 0) == After::ends) return std::move(walk_);
    if (!policy_accepts && is_telling_)
      walk_.hits.push_back({.chain = chain, .rule = "policy DROP", .decides = true});
    note(policy_accepts ? ChainEnd::accepted : ChainEnd::dropped);
    return std::move(walk_);
  }

 private:
  // What a rule, or a chain, leaves of the packet's way: the next rule, the chain that led here, or
  // nothing.
  enum class After : std::uint8_t { next, leaves, ends };

  bool follows() const { return rules_.doubt == Doubt::followed; }

  // `ends`: the packet does not come back from the chain; else `leaves`.
  After run(const std::string& chain, std::size_t depth) {
    // The kernel refuses loops of chains; a listing may still contain one.
    const bool is_loop = std::ranges::find(entered_, chain) != entered_.end();
    const auto rules = is_loop || depth > kMostDepth ? std::nullopt : rules_.find(chain);
    if (!rules) return give_up();
    is_telling_ = is_telling_ || static_cast<bool>(rules->text);
    entered_.push_back(chain);
    const auto after = run(chain, *rules, depth);
    entered_.pop_back();
    return after;
  }
  After run(const std::string& chain, const ChainRules& rules, std::size_t depth) {
    bool may_leave = false;
    for (std::size_t i = 0; i < rules.size; ++i) {
      if (!budget_.spend()) return give_up();
      auto outcome = rules.judge(i, packet_);
      if (outcome.answer == Answer::no) continue;
      const bool is_open = outcome.answer == Answer::unknown || outcome.vague;
      if (rules.text) tell(chain, rules.text(i), outcome, is_open);
      if (is_open && !follows()) continue;
      const bool is_certain = outcome.answer == Answer::yes && outcome.leads.size() <= 1;
      const auto after = carry_out(outcome, is_certain, depth);
      if (!is_certain)
        may_leave = may_leave || after == After::leaves;
      else if (after != After::next)
        return may_leave ? After::leaves : after;
    }
    return After::leaves;
  }

  void tell(const std::string& chain, std::string text, RuleOutcome& outcome, bool is_open) {
    walk_.hits.push_back({.chain = chain,
                          .rule = std::move(text),
                          .found = std::move(outcome.found),
                          .unjudged = is_open});
  }

  // The rule may lead to several of them: `leaves` if one does.
  After carry_out(const RuleOutcome& outcome, bool is_certain, std::size_t depth) {
    const Changeable before(packet_);
    const auto place = walk_.hits.size() - 1;
    for (const auto& effect : outcome.effects) change(effect);
    if (outcome.vague) packet_.mark_known = packet_.connection_mark_known = 0;
    if (outcome.settles) packet_.destination_settled = true;
    if (!is_certain) before.may_have_stayed(packet_);
    auto after = After::next;
    for (const auto& lead : outcome.leads) {
      const Changeable here(packet_);
      const auto one =
          std::visit([&](const auto& action) { return act(action, place, depth); }, lead);
      if (!is_certain) here.may_have_stayed(packet_);
      if (is_certain || one == After::leaves) after = one;
    }
    return after;
  }

  void note(ChainEnd end) {
    walk_.end = end;
    if (end == ChainEnd::dropped || end == ChainEnd::rejected)
      walk_.can_drop = true;
    else if (end == ChainEnd::translated && walk_.translation.direction == Direction::dst)
      walk_.can_translate = true;
    else
      walk_.can_accept = true;
  }
  // What is not known may end in any way.
  After give_up() {
    if (!follows()) return After::leaves;
    walk_.can_accept = walk_.can_drop = walk_.can_translate = true;
    return After::ends;
  }

  // ---- what ends the packet's way, or leads it elsewhere

  After finish(ChainEnd end, std::size_t place) {
    if (is_telling_) walk_.hits[place].decides = true;
    note(end);
    return After::ends;
  }
  After act(Verdict verdict, std::size_t place, std::size_t /*depth*/) {
    if (verdict == Verdict::return_) return After::leaves;
    return finish(verdict == Verdict::drop ? ChainEnd::dropped : ChainEnd::accepted, place);
  }
  After act(const RejectTarget& /*target*/, std::size_t place, std::size_t /*depth*/) {
    return finish(ChainEnd::rejected, place);
  }
  After act(const RejectAction& reject, std::size_t place, std::size_t /*depth*/) {
    walk_.rejected_as = reject.way;
    return finish(ChainEnd::rejected, place);
  }
  After act(const MasqueradeTarget& /*target*/, std::size_t place, std::size_t /*depth*/) {
    return finish(ChainEnd::masqueraded, place);
  }
  After act(const TranslateAction& action, std::size_t place, std::size_t /*depth*/) {
    walk_.translation = action;
    return finish(ChainEnd::translated, place);
  }
  After act(const JumpTarget& jump, std::size_t place, std::size_t depth) {
    if (rules_.passes_by && rules_.passes_by(jump.chain)) return After::next;
    return lead(jump.chain, place, depth) == After::ends ? After::ends : After::next;
  }
  After act(const GotoAction& action, std::size_t place, std::size_t depth) {
    return lead(action.chain, place, depth);
  }
  After act(const UnknownAction& /*action*/, std::size_t /*place*/, std::size_t /*depth*/) {
    give_up();
    return After::next;
  }
  static After act(const auto& /*effect*/, std::size_t /*place*/, std::size_t /*depth*/) {
    return After::next;
  }

  After lead(const std::string& chain, std::size_t place, std::size_t depth) {
    path_.push_back(place);
    const auto after = run(chain, depth + 1);
    path_.pop_back();
    // Leaves out a jump to a chain in which nothing matched.
    if (after != After::ends && is_telling_ && walk_.hits.size() == place + 1)
      walk_.hits.pop_back();
    return after;
  }

  // ---- what changes the packet

  void change(const Action& effect) {
    if (const auto* mark = std::get_if<MarkTarget>(&effect)) set_mark(*mark, 0xffffffff);
    if (const auto* move = std::get_if<ConnectionMarkAction>(&effect)) move_mark(*move);
    // A tracked packet stays tracked.
    if (std::holds_alternative<NoTrackAction>(effect) && packet_.tracking != Tracking::tracked) {
      packet_.tracking = Tracking::never;
      walk_.can_untrack = true;
    }
  }

  // connmark_tg_shift() in net/netfilter/xt_connmark.c.
  void move_mark(const ConnectionMarkAction& move) {
    using Way = ConnectionMarkAction::Way;
    if (packet_.tracking == Tracking::unknown)
      packet_.mark_known = packet_.connection_mark_known = 0;
    if (packet_.tracking != Tracking::tracked) return;
    auto& mark = packet_.connection_mark;
    auto& known = packet_.connection_mark_known;
    if (move.way == Way::restore)
      return set_mark({.value = mark & move.connection_mask, .mask = move.packet_mask},
                      known | ~move.connection_mask);
    const bool sets = move.way == Way::set;
    const auto value = sets ? move.value : packet_.mark & move.packet_mask;
    const auto value_known = sets ? 0xffffffff : packet_.mark_known | ~move.packet_mask;
    mark = (mark & ~move.connection_mask) ^ value;
    known = (known | move.connection_mask) & value_known;
  }

  void set_mark(const MarkTarget& target, std::uint32_t value_known) {
    const auto mark = (packet_.mark & ~target.mask) ^ target.value;
    if (is_telling_ && (mark & ~packet_.mark) != 0) walk_.marked_because = reason();
    packet_.mark = mark;
    packet_.mark_known = (packet_.mark_known | target.mask) & value_known;
  }

  // The last jump on the path to the last matching rule that found an element.
  std::string reason() const {
    const auto found = std::find_if(path_.rbegin(), path_.rend(), [&](std::size_t place) {
      return !walk_.hits[place].found.empty();
    });
    const auto& hit = found != path_.rend() ? walk_.hits[*found]
                      : path_.empty()       ? walk_.hits.back()
                                            : walk_.hits[path_.back()];
    return fmt::format("{} {}{}", hit.chain, hit.rule, hit.found.empty() ? "" : ": " + hit.found);
  }

  const WalkedRules& rules_;
  Packet& packet_;
  LookBudget& budget_;
  bool is_telling_ = false;
  std::vector<std::string> entered_;  // chains that the packet has not left
  std::vector<std::size_t> path_;     // indexes of the jumps to the current chain in walk_.hits
  ChainWalk walk_;
};

}  // namespace

ChainWalk walk_rules(const WalkedRules& rules, const std::string& chain, bool policy_accepts,
                     Packet& packet, LookBudget& budget) {
  return RuleWalker(rules, packet, budget).walk(chain, policy_accepts);
}

}  // namespace ipvsproxier::ipset
