#include "cmd/ipvsctl/explain/nft_lookup.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace ipvsproxier::ctl {

using netlink::Bytes;
using netlink::NftElement;

namespace {

bool is_default(const NftElement& element) {
  return element.key.empty() && !element.interval_end;
}

// The smallest and the largest value that the field may have.
Bytes least(const NftField& field) {
  Bytes bytes = field.bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] &= field.known[i];
  return bytes;
}
Bytes most(const NftField& field) {
  Bytes bytes = least(field);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(bytes[i] | static_cast<std::uint8_t>(~field.known[i]));
  return bytes;
}

NftField piece(const NftField& field, std::size_t at, std::size_t size) {
  const auto cut = [&](const Bytes& bytes) {
    const auto begin = std::min(at, bytes.size());
    const auto end = std::min(begin + size, bytes.size());
    return Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                 bytes.begin() + static_cast<std::ptrdiff_t>(end));
  };
  return {cut(field.bytes), cut(field.known)};
}

Answer equals(const NftField& key, const Bytes& wanted) {
  if (key.bytes.size() != wanted.size()) return Answer::unknown;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (((key.bytes[i] ^ wanted[i]) & key.known[i]) != 0) return Answer::no;
  return key.is_known() ? Answer::yes : Answer::unknown;
}

Answer between(const NftField& key, const Bytes& first, const Bytes& last) {
  const auto low = least(key);
  const auto high = most(key);
  if (high < first || low > last) return Answer::no;
  return low >= first && high <= last ? Answer::yes : Answer::unknown;
}

// Each part of a concatenation is an interval of its own (nft_set_pipapo.c).
Answer holds(const netlink::NftSetSpec& spec, const NftElement& element, const NftField& key) {
  if (element.key_end.empty()) return equals(key, element.key);
  if (spec.fields.empty()) return between(key, element.key, element.key_end);
  auto result = Answer::yes;
  std::size_t at = 0;
  for (const auto size : spec.fields) {
    const auto part = [&](const Bytes& bytes) {
      return piece(NftField::of(bytes), at, size).bytes;
    };
    const auto one = between(piece(key, at, size), part(element.key), part(element.key_end));
    if (one == Answer::no) return one;
    if (one == Answer::unknown) result = one;
    at += (size + 3) / 4 * 4;
  }
  return result;
}

// The bound at or below the key is the beginning of its interval, or the end of one before it
// (nft_set_rbtree.c). One pass, without copies: others' sets may have a million elements.
NftFound find_interval(const ipset::FilterSet& set, const NftField& key) {
  const auto low = least(key);
  const auto high = most(key);
  const NftElement* found = nullptr;
  for (const auto& bound : set.elements) {
    if (is_default(bound)) continue;
    if (bound.key > low) {
      if (bound.key <= high) return {Answer::unknown, nullptr};
    } else if (found == nullptr || bound.key > found->key ||
               (bound.key == found->key && !bound.interval_end)) {
      found = &bound;
    }
  }
  if (found != nullptr && found->interval_end) found = nullptr;
  return {found == nullptr ? Answer::no : Answer::yes, found};
}

NftFound find_element_of(const ipset::FilterSet& set, const NftField& key) {
  NftFound found;
  for (const auto& element : set.elements) {
    if (is_default(element)) continue;
    const auto one = holds(set.spec, element, key);
    if (one == Answer::yes) return {one, &element};
    if (one == Answer::unknown) found.answer = one;
  }
  return found;
}

}  // namespace

NftFound find_in(const ipset::FilterSet& set, const NftField& key) {
  const bool by_bounds =
      (set.spec.flags & netlink::NftSetSpec::kInterval) != 0 && set.spec.fields.empty() &&
      std::ranges::all_of(set.elements, [](const NftElement& one) { return one.key_end.empty(); });
  auto found = by_bounds ? find_interval(set, key) : find_element_of(set, key);
  if (found.answer != Answer::no) return found;
  const auto otherwise = std::ranges::find_if(set.elements, is_default);
  if (otherwise != set.elements.end()) found = {Answer::yes, &*otherwise};
  return found;
}

}  // namespace ipvsproxier::ctl
