#include "cmd/ipvsctl/rules/chain_review.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ipvsproxier::ctl {

using ipset::Rule;
using ipset::WholeTable;

namespace {

// Pairs of positions of the rules that `actual` and `wanted` have in the same order: the longest
// common subsequence.
std::vector<std::pair<std::size_t, std::size_t>> common_rules(const std::vector<Rule>& actual,
                                                              const std::vector<Rule>& wanted) {
  std::vector<std::vector<std::size_t>> length(actual.size() + 1,
                                               std::vector<std::size_t>(wanted.size() + 1));
  for (std::size_t i = actual.size(); i-- > 0;)
    for (std::size_t j = wanted.size(); j-- > 0;)
      length[i][j] = actual[i] == wanted[j] ? length[i + 1][j + 1] + 1
                                            : std::max(length[i + 1][j], length[i][j + 1]);
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0, j = 0; i < actual.size() && j < wanted.size();) {
    if (actual[i] == wanted[j])
      pairs.emplace_back(i++, j++);
    else if (length[i + 1][j] >= length[i][j + 1])
      ++i;
    else
      ++j;
  }
  return pairs;
}

bool has(const std::vector<Rule>& rules, const Rule& rule) {
  return std::find(rules.begin(), rules.end(), rule) != rules.end();
}

std::optional<ipset::RuleCount> count_of(const WholeTable& table, const std::string& chain,
                                         std::size_t index) {
  const auto found = table.counts.find(chain);
  if (found == table.counts.end() || index >= found->second.size()) return std::nullopt;
  return found->second[index];
}

}  // namespace

ChainReview::ChainReview(const WholeTable& table, const WantedRules& wanted, std::string name)
    : table_(table),
      name_(std::move(name)),
      actual_(rules_of(table.chains, name_)),
      wanted_(rules_of(wanted.chains, name_)) {
  const auto sure = wanted.sure.find(name_);
  if (sure != wanted.sure.end()) sure_ = &sure->second;
}

std::vector<ReviewedRule> ChainReview::ordered() {
  std::size_t next = 0;
  std::size_t next_wanted = 0;
  auto pairs = common_rules(actual_, wanted_);
  pairs.emplace_back(actual_.size(), wanted_.size());
  for (const auto& [at, wanted] : pairs) {
    for (; next < at; ++next)
      there(next, has(wanted_, actual_[next]) ? RuleState::misplaced : RuleState::foreign);
    for (; next_wanted < wanted; ++next_wanted) absent(wanted_[next_wanted]);
    if (at < actual_.size()) there(next++, RuleState::ours);
    ++next_wanted;
  }
  return std::move(result_);
}

std::vector<ReviewedRule> ChainReview::unordered() {
  const std::set<Rule> wanted(wanted_.begin(), wanted_.end());
  for (std::size_t i = 0; i < actual_.size(); ++i)
    there(i, wanted.contains(actual_[i]) ? RuleState::ours : RuleState::foreign);
  for (const auto& rule : wanted_) absent(rule);
  return std::move(result_);
}

std::vector<ReviewedRule> ChainReview::all_in(RuleState state) {
  for (std::size_t i = 0; i < actual_.size(); ++i) there(i, state);
  return std::move(result_);
}

std::vector<ReviewedRule> ChainReview::jumps(const WantedRules& wanted, bool all) {
  const auto& jumps = rules_of(wanted.jumps, name_);
  for (const auto& jump : jumps) absent(jump);
  for (std::size_t i = 0; i < actual_.size(); ++i) {
    if (has(jumps, actual_[i]))
      there(i, RuleState::ours);
    else if (wanted.chains.contains(target_chain(actual_[i])))
      there(i, RuleState::foreign);
    else if (all)
      there(i, RuleState::not_judged);
  }
  return std::move(result_);
}

void ChainReview::there(std::size_t index, RuleState state) {
  result_.push_back({actual_[index], count_of(table_, name_, index), state});
}

void ChainReview::absent(const Rule& rule) {
  if (has(actual_, rule)) return;
  const bool sure = sure_ == nullptr || sure_->contains(rule);
  result_.push_back({rule, {}, sure ? RuleState::missing : RuleState::missing_unsure});
}

}  // namespace ipvsproxier::ctl
