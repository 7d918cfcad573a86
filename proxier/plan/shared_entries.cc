#include "proxier/plan/shared_entries.h"

#include <utility>

namespace ipvsproxier::plan {

using ipset::Element;
using ipset::SetId;
using netlink::IpAddress;

bool SharedEntries::take_addresses(const SortedVector<IpAddress>& before,
                                   const SortedVector<IpAddress>& wanted, Scope& scope) {
  bool changed = false;
  for (const auto& address : difference(wanted, before)) {
    if (state_.addresses.insert(address))
      changed = true;
    else
      addresses_.add(address);
    scope.addresses.insert(address);
  }
  for (const auto& address : difference(before, wanted)) {
    if (addresses_.take(address)) continue;
    state_.addresses.erase(address);
    scope.addresses.insert(address);
    changed = true;
  }
  return changed;
}

void SharedEntries::add_element(SetId id, const Element& element, Scope& scope) {
  auto& set = state_.sets.at({family_, id});
  if (!set.insert(element)) {
    elements_.add({id, element});
    return;
  }
  scope.elements[{family_, id}].insert(element);
  if (set.size() == 1 && rules().non_empty.insert(id).second) scope.rules.insert(family_);
}

void SharedEntries::remove_element(SetId id, const Element& element, Scope& scope) {
  if (elements_.take({id, element})) return;
  auto& set = state_.sets.at({family_, id});
  set.erase(element);
  scope.elements[{family_, id}].insert(element);
  if (set.empty() && rules().non_empty.erase(id) > 0) scope.rules.insert(family_);
}

void SharedEntries::replace(const SortedVector<ipset::OutFilterEntry>& now,
                            const SortedVector<ipset::OutFilterEntry>& wanted, Scope& scope) {
  for (const auto& entry : difference(wanted, now)) {
    if (rules().out_filter.insert(entry).second)
      scope.rules.insert(family_);
    else
      out_filter_.add(entry);
  }
  for (const auto& entry : difference(now, wanted))
    if (!out_filter_.take(entry)) {
      rules().out_filter.erase(entry);
      scope.rules.insert(family_);
    }
}

// Adds before it removes: a set that became empty for a moment would change the rules.
void SharedEntries::replace(FilterEntries& now, FilterEntries wanted, Scope& scope) {
  wanted.elements.each_without(
      now.elements, [&](SetId id, const Element& element) { add_element(id, element, scope); });
  now.elements.each_without(wanted.elements, [&](SetId id, const Element& element) {
    remove_element(id, element, scope);
  });
  replace(now.out_filter, wanted.out_filter, scope);
  now = std::move(wanted);
}

}  // namespace ipvsproxier::plan
