#include "ipset/nft/chain_walk.h"

#include <variant>

#include "ipset/nft/firewall_advice.h"

namespace ipvsproxier::ipset {

namespace {

constexpr std::size_t kMostDepth = 16;  // NFT_JUMP_STACK_SIZE

class ChainWalk {
 public:
  ChainWalk(const FindRules& find, LookBudget& budget) : find_(find), budget_(budget) {}

  WalkEnds run(const std::string& chain, bool policy_accepts) && {
    if (!walk(chain, 0)) note(policy_accepts);
    return ends_;
  }

 private:
  struct Led {
    bool ends = false;    // nothing comes back to this chain, nor to one before it
    bool leaves = false;  // the packet leaves this chain
  };

  void note(bool accepts) { (accepts ? ends_.can_accept : ends_.can_drop) = true; }
  // What is not known may end either way.
  bool give_up() {
    ends_.can_accept = ends_.can_drop = ends_.can_translate = true;
    return true;
  }

  // False if the packet may come back from the chain.
  bool walk(const std::string& chain, std::size_t depth) {
    const auto rules = find_(chain);
    if (!rules || depth == kMostDepth) return give_up();
    bool may_leave = false;
    for (std::size_t i = 0; i < rules->size; ++i) {
      if (!budget_.spend()) return give_up();
      const auto [holds, leads, untracks] = rules->outcome(i);
      if (holds == Truth::no) continue;
      ends_.can_untrack = ends_.can_untrack || untracks;
      const bool certain = holds == Truth::yes && leads.size() == 1;
      for (const auto& lead : leads) {
        const auto [ends, leaves] =
            std::visit([&](const auto& action) { return act(action, depth); }, lead);
        if (!certain) {
          may_leave = may_leave || leaves;
        } else if (ends) {
          return !may_leave;
        } else if (leaves) {
          return false;
        }
      }
    }
    return false;
  }

  Led end(bool accepts) {
    note(accepts);
    return {.ends = true};
  }
  Led act(Verdict verdict, std::size_t /*depth*/) {
    if (verdict == Verdict::return_) return {.leaves = true};
    return end(verdict == Verdict::accept);
  }
  Led act(const RejectTarget& /*target*/, std::size_t /*depth*/) { return end(false); }
  Led act(const RejectAction& /*action*/, std::size_t /*depth*/) { return end(false); }
  Led act(const MasqueradeTarget& /*target*/, std::size_t /*depth*/) { return end(true); }
  Led act(const TranslateAction& action, std::size_t /*depth*/) {
    if (action.direction == Direction::src) return end(true);
    ends_.can_translate = true;
    return {.ends = true};
  }
  Led act(const JumpTarget& jump, std::size_t depth) {
    if (is_proxy_chain(jump.chain)) return {};
    return {.ends = walk(jump.chain, depth + 1)};
  }
  Led act(const GotoAction& action, std::size_t depth) {
    const bool ends = walk(action.chain, depth + 1);
    return {.ends = ends, .leaves = !ends};
  }
  Led act(const UnknownAction& /*action*/, std::size_t /*depth*/) {
    give_up();
    return {};
  }
  // Marks and tracking, and what changes nothing.
  static Led act(const auto& /*goes_on*/, std::size_t /*depth*/) { return {}; }

  const FindRules& find_;
  LookBudget& budget_;
  WalkEnds ends_;
};

}  // namespace

WalkEnds walk_chain(const FindRules& find, const std::string& chain, bool policy_accepts,
                    LookBudget& budget) {
  return ChainWalk(find, budget).run(chain, policy_accepts);
}

}  // namespace ipvsproxier::ipset
