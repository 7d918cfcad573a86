#include "ipset/judge/nft_lookup.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace ipvsproxier::ipset {

using netlink::Bytes;
using netlink::NftElement;

namespace {

bool is_default(const NftElement& element) {
  return element.key.empty() && !element.interval_end;
}

Answer equals(const NftField& key, const Bytes& wanted) {
  if (key.bytes.size() != wanted.size()) return Answer::unknown;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (((key.bytes[i] ^ wanted[i]) & key.known[i]) != 0) return Answer::no;
  return key.is_known() ? Answer::yes : Answer::unknown;
}

// Each part of a concatenation is an interval of its own (nft_set_pipapo.c).
Answer holds(const netlink::NftSetSpec& spec, const NftElement& element, const NftField& key) {
  if (element.key_end.empty()) return equals(key, element.key);
  if (spec.fields.empty()) return key.between(element.key, element.key_end);
  auto result = Answer::yes;
  std::size_t at = 0;
  for (const auto size : spec.fields) {
    const auto end = at + size;
    if (end > key.bytes.size() || end > element.key.size() || end > element.key_end.size())
      return Answer::unknown;
    result = std::min(result, key.between(element.key, element.key_end, at, size));
    if (result == Answer::no) break;
    at += (size + 3) / 4 * 4;
  }
  return result;
}

// The bound at or below the key is the beginning of its interval, or the end of one before it
// (nft_set_rbtree.c). One pass, without copies: others' sets may have a million elements.
NftFound find_interval(const FilterSet& set, const NftField& key) {
  const NftElement* found = nullptr;
  const NftElement* otherwise = nullptr;
  for (const auto& bound : set.elements) {
    if (is_default(bound)) {
      otherwise = &bound;
    } else if (key.least_against(bound.key) < 0) {
      if (key.most_against(bound.key) >= 0) return {Answer::unknown, nullptr};
    } else if (found == nullptr || bound.key > found->key ||
               (bound.key == found->key && !bound.interval_end)) {
      found = &bound;
    }
  }
  if (found == nullptr || found->interval_end) found = otherwise;
  return {found == nullptr ? Answer::no : Answer::yes, found};
}

NftFound find_element_of(const FilterSet& set, const NftField& key) {
  NftFound found;
  const NftElement* otherwise = nullptr;
  const bool is_known = key.is_known();
  for (const auto& element : set.elements) {
    const bool is_plain =
        is_known && element.key_end.empty() && element.key.size() == key.bytes.size();
    if (is_plain && std::memcmp(element.key.data(), key.bytes.data(), key.bytes.size()) != 0)
      continue;
    if (is_default(element)) {
      otherwise = &element;
      continue;
    }
    const auto one = is_plain ? Answer::yes : holds(set.spec, element, key);
    if (one == Answer::yes) return {one, &element};
    if (one == Answer::unknown) found.answer = one;
  }
  if (found.answer == Answer::no && otherwise != nullptr) found = {Answer::yes, otherwise};
  return found;
}

bool has_bounds(const FilterSet& set) {
  return (set.spec.flags & netlink::NftSetSpec::kInterval) != 0 && set.spec.fields.empty() &&
         std::ranges::all_of(set.elements,
                             [](const NftElement& one) { return one.key_end.empty(); });
}

// Each interval ends at the next bound that has another key: where one begins at the end of
// another, both bounds have one key. The elements are sorted.
void add_possible_intervals(const FilterSet& set, const NftField& key,
                            std::vector<const NftElement*>& possible) {
  const auto end = set.elements.end();
  for (auto bound = set.elements.begin(); bound != end; ++bound) {
    if (is_default(*bound) || bound->interval_end) continue;
    if (key.most_against(bound->key) < 0) break;
    const auto next =
        std::find_if(bound, end, [&](const NftElement& other) { return other.key != bound->key; });
    if (next == end || key.least_against(next->key) < 0) possible.push_back(&*bound);
  }
}

}  // namespace

NftFound find_in(const FilterSet& set, const NftField& key) {
  return has_bounds(set) ? find_interval(set, key) : find_element_of(set, key);
}

std::vector<const NftElement*> possible_in(const FilterSet& set, const NftField& key) {
  std::vector<const NftElement*> possible;
  const bool by_bounds = has_bounds(set);
  if (by_bounds) add_possible_intervals(set, key, possible);
  for (const auto& element : set.elements)
    if (is_default(element) || (!by_bounds && holds(set.spec, element, key) != Answer::no))
      possible.push_back(&element);
  return possible;
}

}  // namespace ipvsproxier::ipset
