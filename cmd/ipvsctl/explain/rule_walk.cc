#include "cmd/ipvsctl/explain/rule_walk.h"

#include <algorithm>

#include <fmt/format.h>

#include "cmd/ipvsctl/explain/nft_judge.h"
#include "cmd/ipvsctl/explain/rule_judge.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/rules/nft_text.h"

namespace ipvsproxier::ctl {

namespace {

using ipset::Action;

struct ActionOf {
  const NodeReading& node;
  const Packet& packet;

  Action operator()(const ipset::ForeignTarget& foreign) const { return foreign.action; }
  Action operator()(const ipset::VerdictMapTarget& target) const {
    return verdict_in(node, target.map, packet);
  }
  Action operator()(const ipset::KeepDestinationTarget&) const { return ipset::Verdict::accept; }
  Action operator()(const ipset::UnacceleratedTarget&) const { return ipset::NoAction{}; }
  Action operator()(const ipset::DestinationMapTarget& target) const {
    return translation_in(node, target.map, packet);
  }
  Action operator()(const ipset::DestinationTarget& target) const {
    return ipset::TranslateAction{.direction = ipset::Direction::dst,
                                  .address = target.address,
                                  .port = target.port,
                                  .to_here = false};
  }
  Action operator()(const ipset::SourceTarget& target) const {
    return ipset::TranslateAction{
        .direction = ipset::Direction::src, .address = target.address, .port = 0, .to_here = false};
  }
  Action operator()(const auto& ours) const { return ours; }
};

class ChainWalker {
 public:
  // `nft_table`: the name of a table of nf_tables; "" for iptables.
  ChainWalker(const NodeReading& node, plan::TableKey table, std::string nft_table, Packet& packet,
              const IsLocal& is_local)
      : node_(node),
        key_(table),
        nft_table_(std::move(nft_table)),
        is_ours_(nft_table_ == to_string(ipset::nft_table_of(table.family))),
        packet_(packet),
        is_local_(is_local),
        judge_(node, packet, is_local) {}

  ChainWalk walk(const ipset::WholeTable& table, const std::string& chain) && {
    if (table.chains.count(chain) == 0) return {};
    table_ = &table;
    auto end = run(chain, 0);
    if (!end) {
      const auto policy = table_->policies.find(chain);
      const bool drops = policy != table_->policies.end() && policy->second == ipset::Verdict::drop;
      if (drops) walk_.hits.push_back({.chain = chain, .rule = "policy DROP", .decides = true});
      end = drops ? ChainEnd::dropped : ChainEnd::accepted;
    }
    walk_.end = *end;
    return std::move(walk_);
  }

 private:
  // nullopt: the packet returns to the calling chain.
  std::optional<ChainEnd> run(const std::string& chain, std::size_t depth) {
    const auto rules = table_->chains.find(chain);
    // The kernel refuses loops of chains; a listing may still contain one.
    if (rules == table_->chains.end() || depth > table_->chains.size()) return std::nullopt;
    for (std::size_t i = 0; i < rules->second.size(); ++i) {
      const auto& rule = rules->second[i];
      std::string found;
      const auto outcome = judge(rule, steps_of(chain, i), found);
      if (outcome.answer == Answer::no) continue;
      // Others may have ten thousand rules, of which few match: only their texts are made.
      RuleHit hit{.chain = chain, .rule = text_of(rule), .found = std::move(found)};
      hit.unjudged = outcome.answer == Answer::unknown;
      walk_.hits.push_back(std::move(hit));
      if (outcome.answer == Answer::unknown) continue;
      const auto place = walk_.hits.size() - 1;
      for (const auto& effect : outcome.effects) apply(effect, place, depth);
      const auto& action = outcome.end;
      if (action == Action(ipset::Verdict::return_)) return std::nullopt;
      if (const auto* go_to = std::get_if<ipset::GotoAction>(&action))
        return lead(go_to->chain, place, depth);
      if (const auto end = apply(action, place, depth)) return end;
    }
    return std::nullopt;
  }

  // nullptr: the rule is judged by our vocabulary.
  const std::vector<ipset::NftStep>* steps_of(const std::string& chain, std::size_t place) const {
    const auto table = node_.nft_rules.find(nft_table_);
    if (table == node_.nft_rules.end()) return nullptr;
    const auto rules = table->second.chains.find(chain);
    if (rules == table->second.chains.end() || place >= rules->second.size()) return nullptr;
    return &rules->second[place];
  }

  NftOutcome judge(const ipset::Rule& rule, const std::vector<ipset::NftStep>* steps,
                   std::string& found) {
    const auto* foreign = std::get_if<ipset::ForeignTarget>(&rule.target);
    if (steps != nullptr && (foreign != nullptr || !is_ours_)) {
      auto outcome = judge_nft(*steps, nft_table_, node_, packet_, is_local_);
      found = std::move(outcome.found);
      return outcome;
    }
    NftOutcome outcome;
    if (foreign != nullptr && std::holds_alternative<ipset::NoAction>(foreign->action))
      return outcome;
    outcome.answer = judge_.rule(rule, found);
    if (outcome.answer != Answer::yes) return outcome;
    outcome.end = std::visit(ActionOf{node_, packet_}, rule.target);
    if (std::holds_alternative<ipset::KeepDestinationTarget>(rule.target))
      packet_.destination_settled = true;
    return outcome;
  }

  // nullopt: continue with the next rule.
  std::optional<ChainEnd> apply(const Action& action, std::size_t place, std::size_t depth) {
    const auto ends = [&](ChainEnd end) {
      walk_.hits[place].decides = true;
      return std::optional(end);
    };
    if (const auto* verdict = std::get_if<ipset::Verdict>(&action))
      return ends(*verdict == ipset::Verdict::drop ? ChainEnd::dropped : ChainEnd::accepted);
    if (std::holds_alternative<ipset::RejectTarget>(action)) return ends(ChainEnd::rejected);
    if (const auto* reject = std::get_if<ipset::RejectAction>(&action)) {
      walk_.rejected_as = reject->way;
      return ends(ChainEnd::rejected);
    }
    if (std::holds_alternative<ipset::MasqueradeTarget>(action)) return ends(ChainEnd::masqueraded);
    if (const auto* translation = std::get_if<ipset::TranslateAction>(&action)) {
      walk_.translation = *translation;
      return ends(ChainEnd::translated);
    }
    if (const auto* mark = std::get_if<ipset::MarkTarget>(&action)) set_mark(*mark);
    if (const auto* move = std::get_if<ipset::ConnectionMarkAction>(&action)) move_mark(*move);
    // A tracked packet stays tracked.
    if (std::holds_alternative<ipset::NoTrackAction>(action) &&
        packet_.tracking == Tracking::not_yet)
      packet_.tracking = Tracking::never;
    if (const auto* jump = std::get_if<ipset::JumpTarget>(&action))
      return lead(jump->chain, place, depth);
    return std::nullopt;
  }

  std::optional<ChainEnd> lead(const std::string& chain, std::size_t place, std::size_t depth) {
    path_.push_back(place);
    const auto end = run(chain, depth + 1);
    path_.pop_back();
    // Leaves out a jump to a chain in which nothing matched.
    if (!end && walk_.hits.size() == place + 1) walk_.hits.pop_back();
    return end;
  }

  // connmark_tg_shift() in net/netfilter/xt_connmark.c.
  void move_mark(const ipset::ConnectionMarkAction& move) {
    using Way = ipset::ConnectionMarkAction::Way;
    if (packet_.tracking != Tracking::tracked) return;
    auto& mark = packet_.connection_mark;
    if (move.way == Way::set) mark = (mark & ~move.connection_mask) ^ move.value;
    if (move.way == Way::save)
      mark = (mark & ~move.connection_mask) ^ (packet_.mark & move.packet_mask);
    if (move.way == Way::restore)
      set_mark({.value = mark & move.connection_mask, .mask = move.packet_mask});
  }

  void set_mark(const ipset::MarkTarget& target) {
    const auto mark = (packet_.mark & ~target.mask) ^ target.value;
    if ((mark & ~packet_.mark) != 0) walk_.marked_because = reason();
    packet_.mark = mark;
  }

  std::string text_of(ipset::Rule rule) const {
    if (key_.table == ipset::Table::kube_ipvs) return to_nft_string(rule, key_.family);
    rule.comment.clear();
    return to_string(rule, key_.family);
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

  const NodeReading& node_;
  plan::TableKey key_;
  std::string nft_table_;
  bool is_ours_;
  const ipset::WholeTable* table_ = nullptr;
  Packet& packet_;
  const IsLocal& is_local_;
  RuleJudge judge_;
  std::vector<std::size_t> path_;  // indexes of the jumps to the current chain in walk_.hits
  ChainWalk walk_;
};

}  // namespace

ChainWalk walk_chain(const NodeReading& node, plan::TableKey table, const std::string& chain,
                     Packet& packet, const IsLocal& is_local) {
  const auto found = node.tables.find(table);
  if (found == node.tables.end()) return {};
  const bool is_nft = table.table == ipset::Table::kube_ipvs;
  auto nft_table = is_nft ? to_string(ipset::nft_table_of(table.family)) : std::string();
  return ChainWalker(node, table, std::move(nft_table), packet, is_local)
      .walk(found->second, chain);
}

ChainWalk walk_nft_chain(const NodeReading& node, const std::string& table,
                         const std::string& chain, Packet& packet, const IsLocal& is_local) {
  const plan::TableKey key{packet.destination.family(), ipset::Table::kube_ipvs};
  return ChainWalker(node, key, table, packet, is_local).walk(node.nft_tables.at(table), chain);
}

}  // namespace ipvsproxier::ctl
