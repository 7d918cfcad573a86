#include "ipset/nft/sample_walk.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "ipset/judge/node_facts.h"
#include "ipset/judge/rule_judge.h"
#include "ipset/nft/firewall_advice.h"

namespace ipvsproxier::ipset {

namespace {

class SampleFacts final : public NodeFacts {
 public:
  explicit SampleFacts(bool to_here) : to_here_(to_here) {}

  Answer is_local(const Packet& /*packet*/, Direction direction, Limit limit) const override {
    const bool is_known = to_here_ && direction == Direction::dst && limit == Limit::none;
    return is_known ? Answer::yes : Answer::unknown;
  }

  std::optional<std::uint32_t> link_index(const std::string& name) const override {
    return name == "lo" ? std::optional<std::uint32_t>(1) : std::nullopt;
  }

 private:
  bool to_here_;
};

ChainWalk walk_everywhere(FindChain find, const std::string& chain, bool policy_accepts,
                          Packet packet, LookBudget& budget) {
  const WalkedRules rules{
      .find = std::move(find), .doubt = Doubt::followed, .passes_by = is_proxy_chain};
  return walk_rules(rules, chain, policy_accepts, packet, budget);
}

}  // namespace

ChainWalk walk_sample(const FirewallTable& table, const std::string& chain, bool policy_accepts,
                      const SamplePacket& sample, LookBudget& budget) {
  const SampleFacts facts(sample.to_here);
  const auto find = [&](const std::string& name) -> std::optional<ChainRules> {
    const auto* const rules = table.rules(name);
    if (rules == nullptr) return std::nullopt;
    return ChainRules{.size = rules->size(),
                      .judge = [&, rules](std::size_t i, const Packet& packet) {
                        return judge_nft((*rules)[i], table.sets, facts, packet, budget);
                      }};
  };
  return walk_everywhere(find, chain, policy_accepts, sample.packet, budget);
}

ChainWalk walk_sample(const WholeTable& table, const std::string& chain, bool policy_accepts,
                      const SamplePacket& sample, LookBudget& budget) {
  const SampleFacts facts(sample.to_here);
  const auto find = [&](const std::string& name) -> std::optional<ChainRules> {
    const auto found = table.chains.find(name);
    if (found == table.chains.end()) return std::nullopt;
    return ChainRules{.size = found->second.size(),
                      .judge = [&facts, found](std::size_t i, const Packet& packet) {
                        return RuleJudge(facts, packet).outcome(found->second[i]);
                      }};
  };
  return walk_everywhere(find, chain, policy_accepts, sample.packet, budget);
}

FirewallFate fate_of(const ChainWalk& walk) {
  if (!walk.can_drop) return FirewallFate::passes;
  return walk.can_accept || walk.can_translate ? FirewallFate::may_drop : FirewallFate::drops;
}

FirewallTranslation translation_of(const ChainWalk& walk) {
  if (!walk.can_translate) return FirewallTranslation::none;
  return walk.can_accept || walk.can_drop ? FirewallTranslation::possible
                                          : FirewallTranslation::certain;
}

}  // namespace ipvsproxier::ipset
