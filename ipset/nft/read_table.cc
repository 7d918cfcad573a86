#include "ipset/nft/read_table.h"

#include <algorithm>
#include <iterator>

namespace ipvsproxier::ipset {

using netlink::Family;
using netlink::NftFamily;

namespace {

// Of a set of others that is judged: a larger one counts as unknown, for it is looked at for every
// packet.
constexpr std::size_t kMostElements = 20'000;

}  // namespace

bool has_family(NftFamily table, Family family) {
  return table == NftFamily::inet ||
         table == (family == Family::ipv4 ? NftFamily::ip : NftFamily::ip6);
}

FirewallTable ReadTable::view(Family family) {
  return {.rules = [this, family](const std::string& chain) { return rules(chain, family); },
          .sets = {.table = {}, .find = [this](const std::string& name) { return set(name); }}};
}

const ReadTable::Steps* ReadTable::rules(const std::string& chain, Family family) {
  const auto found = contents_.chains.find(chain);
  if (found == contents_.chains.end()) return nullptr;
  const auto [place, is_new] = steps_.try_emplace({chain, family});
  NoSets no_sets;
  if (is_new)
    for (const auto& rule : found->second.rules)
      place->second.push_back(steps_of(rule.expressions, family, no_sets));
  return &place->second;
}

const FilterSet* ReadTable::set(const std::string& name) {
  const auto found = contents_.sets.find(name);
  if (found == contents_.sets.end() || unread_.contains(name)) return nullptr;
  if (!read_.insert(name).second) return &found->second;
  if (read_elements(name, found->second.elements)) return &found->second;
  found->second.elements.clear();
  unread_.insert(name);
  return nullptr;
}

// False if there are too many, or they cannot be read.
bool ReadTable::read_elements(const std::string& name, std::vector<netlink::NftElement>& elements) {
  auto part = nftables_.begin_elements(key_, name);
  if (!part || !*part) return false;
  elements = std::move((*part)->elements);
  for (bool last = (*part)->last; !last;) {
    auto more = nftables_.next_elements();
    if (!more || elements.size() + more->elements.size() > kMostElements) return false;
    std::ranges::move(more->elements, std::back_inserter(elements));
    last = more->last;
  }
  std::ranges::sort(elements);
  return elements.size() <= kMostElements;
}

}  // namespace ipvsproxier::ipset
