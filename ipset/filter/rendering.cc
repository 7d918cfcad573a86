#include "ipset/filter/rendering.h"

#include <algorithm>
#include <span>

namespace ipvsproxier::ipset {

namespace {

// Leaves only what is between the values that both have first, and those that both have last, and
// sorts it: a change usually leaves most of many values as they are.
template <typename T>
void sort_middle(std::span<T>& one, std::span<T>& other) {
  const auto first = std::ranges::mismatch(one, other);
  one = {first.in1, one.end()};
  other = {first.in2, other.end()};
  while (!one.empty() && !other.empty() && one.back() == other.back()) {
    one = one.first(one.size() - 1);
    other = other.first(other.size() - 1);
  }
  std::ranges::sort(one);
  std::ranges::sort(other);
}

// Calls visit(value) for each value of `some` that `others` lacks. A value that is there twice
// counts twice. Both are sorted.
template <typename T, typename Visit>
void each_without(std::span<T> some, std::span<T> others, Visit visit) {
  auto other = others.begin();
  for (const auto& value : some) {
    while (other != others.end() && *other < value) ++other;
    if (other != others.end() && *other == value)
      ++other;
    else
      visit(value);
  }
}

}  // namespace

void Rendering::add(const SetElement& one, Touched& touched) {
  const auto& [id, element] = one;
  auto& set = sets_.at({family_, id});
  if (!set.insert(element)) {
    elements_.add(one);
    return;
  }
  touched.elements[{family_, id}].insert(element);
  if (set.size() == 1 && rules_.non_empty.insert(id).second) touched.rules.insert(family_);
}

void Rendering::remove(const SetElement& one, Touched& touched) {
  if (elements_.take(one)) return;
  const auto& [id, element] = one;
  auto& set = sets_.at({family_, id});
  set.erase(element);
  touched.elements[{family_, id}].insert(element);
  if (set.empty() && rules_.non_empty.erase(id) > 0) touched.rules.insert(family_);
}

// Adds before it removes: a set that became empty for a moment would change the rules.
void Rendering::replace(Rendered before, Rendered now, Touched touched) {
  std::span had(before.elements);
  std::span has(now.elements);
  sort_middle(had, has);
  each_without(has, had, [&](const SetElement& one) { add(one, touched); });
  each_without(had, has, [&](const SetElement& one) { remove(one, touched); });
  std::span had_rules(before.out_filter);
  std::span has_rules(now.out_filter);
  sort_middle(had_rules, has_rules);
  each_without(has_rules, had_rules, [&](const OutFilterEntry& entry) {
    if (rules_.out_filter.insert(entry).second)
      touched.rules.insert(family_);
    else
      out_filter_.add(entry);
  });
  each_without(had_rules, has_rules, [&](const OutFilterEntry& entry) {
    if (out_filter_.take(entry)) return;
    rules_.out_filter.erase(entry);
    touched.rules.insert(family_);
  });
}

}  // namespace ipvsproxier::ipset
