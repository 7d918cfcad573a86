#include "ipset/nftables/filter_table.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

namespace ipvsproxier::ipset {

namespace {

using netlink::NftElement;
using netlink::NftTableKey;
using netlink::Result;

// Listings of one set before others must have stopped changing it.
constexpr int kListAttempts = 5;

Result<std::optional<std::vector<NftElement>>> all_elements(FilterTable& filter,
                                                            const NftTableKey& table,
                                                            const std::string& set) {
  auto begun = filter.begin_elements(table, set);
  if (!begun) return std::move(begun.error());
  if (!*begun) return std::optional<std::vector<NftElement>>{};
  auto elements = std::move((*begun)->elements);
  for (bool last = (*begun)->last; !last;) {
    auto part = filter.next_elements();
    if (!part) return std::move(part.error());
    std::ranges::move(part->elements, std::back_inserter(elements));
    last = part->last;
  }
  std::ranges::sort(elements);
  return std::optional(std::move(elements));
}

}  // namespace

std::vector<netlink::NftOp> removal_of_lookups(const NftTableKey& table,
                                               const FilterContents& contents,
                                               const std::string& set) {
  const auto looks = [&](const netlink::NftExpression& one) {
    const auto* const lookup = std::get_if<netlink::NftLookup>(&one);
    return lookup != nullptr && lookup->set == set;
  };
  std::vector<netlink::NftOp> ops;
  for (const auto& [name, chain] : contents.chains)
    for (const auto& rule : chain.rules)
      if (std::ranges::any_of(rule.expressions, looks))
        ops.emplace_back(netlink::NftDeleteRule{table, name, rule.handle});
  return ops;
}

Result<std::optional<FilterContents>> FilterTable::list_small_frame(const NftTableKey& table,
                                                                    std::size_t most_rules) {
  auto frame = list_frame(table);
  if (!frame || !*frame) return frame;
  std::size_t rules = 0;
  for (const auto& [name, chain] : (*frame)->chains) rules += chain.rules.size();
  if (rules > most_rules) return too_many_rules(most_rules);
  return frame;
}

Result<std::optional<FilterContents>> FilterTable::list_chains(const NftTableKey& table,
                                                               const KeepRule& keep) {
  auto frame = list_frame(table);
  if (!frame || !*frame) return frame;
  for (auto& chain : (*frame)->chains)
    std::erase_if(chain.second.rules,
                  [&](const FilterRule& rule) { return !keep || !keep(chain.first, rule); });
  return frame;
}

Result<std::optional<std::vector<NftElement>>> FilterTable::list_elements(const NftTableKey& table,
                                                                          const std::string& set) {
  auto listed = all_elements(*this, table, set);
  for (int attempt = 1; attempt < kListAttempts; ++attempt) {
    if (listed || listed.error().kind != netlink::ErrorKind::busy) break;
    listed = all_elements(*this, table, set);
  }
  return listed;
}

Result<std::optional<FilterContents>> FilterTable::list(const NftTableKey& table) {
  auto contents = list_frame(table);
  if (!contents || !*contents) return contents;
  for (auto& [name, set] : (*contents)->sets) {
    auto elements = list_elements(table, name);
    if (!elements) return std::move(elements.error());
    if (*elements) set.elements = **std::move(elements);
  }
  return contents;
}

}  // namespace ipvsproxier::ipset
