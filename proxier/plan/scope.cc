#include "proxier/plan/scope.h"

#include <algorithm>

namespace ipvsproxier::plan {

bool Scope::empty() const {
  const auto none = [](const auto& entry) { return entry.second.empty(); };
  return services.empty() && addresses.empty() && rules.empty() &&
         std::all_of(elements.begin(), elements.end(), none);
}

void Scope::merge(const Scope& other) {
  services.merge(other.services);
  addresses.merge(other.addresses);
  for (const auto& [key, some] : other.elements) elements[key].insert(some.begin(), some.end());
  rules.insert(other.rules.begin(), other.rules.end());
}

}  // namespace ipvsproxier::plan
