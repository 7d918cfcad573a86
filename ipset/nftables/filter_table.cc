#include "ipset/nftables/filter_table.h"

#include <utility>

namespace ipvsproxier::ipset {

namespace {

// Listings made before somebody else stops changing things.
constexpr int kWholeListings = 5;

}  // namespace

netlink::Result<std::optional<FilterContents>> FilterTable::list_frame(
    const netlink::NftTableKey& table) {
  auto first = begin_list(table);
  if (!first) return first.error();
  if (!*first) return std::optional<FilterContents>{};
  return std::optional((**std::move(first)).contents);
}

netlink::Result<std::optional<FilterContents>> FilterTable::list(
    const netlink::NftTableKey& table) {
  for (int attempt = 0; attempt < kWholeListings; ++attempt) {
    auto first = begin_list(table);
    if (!first) return first.error();
    if (!*first) return std::optional<FilterContents>{};
    auto whole = **std::move(first);
    while (!whole.last && !whole.disturbed) {
      auto part = next_list();
      if (!part) return part.error();
      for (auto& [name, set] : part->contents.sets) whole.contents.sets[name] = std::move(set);
      whole.last = part->last;
      whole.disturbed = part->disturbed;
    }
    if (!whole.disturbed) return std::optional<FilterContents>(std::move(whole.contents));
  }
  return netlink::Error{netlink::ErrorKind::busy, EBUSY,
                        "list " + to_string(table) + ": changed during each listing"};
}

}  // namespace ipvsproxier::ipset
