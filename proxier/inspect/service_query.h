#pragma once

// Which Services an answer in pages is about. Pure; any thread.

#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "proxier/api/names.h"

namespace ipvsproxier::inspect {

// "namespace/name"; nullopt: it is something else.
inline std::optional<api::NamespacedName> parse_service_name(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) return std::nullopt;
  return api::NamespacedName{text.substr(0, slash), text.substr(slash + 1)};
}

struct ServiceQuery {
  // Those after this one.
  std::optional<api::NamespacedName> after;
  // Of this namespace, this one alone.
  std::optional<std::string> ns;
  std::optional<api::NamespacedName> service;

  bool of_some() const { return ns || service; }
};

inline bool is_beyond(const api::NamespacedName& name, const ServiceQuery& query) {
  if (query.service) return name != *query.service;
  return query.ns && name.ns != *query.ns;
}

// Calls append(name, value) for those that the query asks for, in order of their names, until it
// answers false: the page is full. Answers the next page's `after` as "namespace/name"; "": this
// was the last.
template <typename Value, typename Append>
std::string append_page(const std::map<api::NamespacedName, Value>& values,
                        const ServiceQuery& query, Append append) {
  const auto first =
      query.service ? *query.service : api::NamespacedName{query.ns.value_or(""), ""};
  auto it = values.lower_bound(first);
  if (query.after && *query.after >= first) it = values.upper_bound(*query.after);
  for (; it != values.end() && !is_beyond(it->first, query); ++it) {
    if (append(it->first, it->second)) continue;
    const auto next = std::next(it);
    const bool last = next == values.end() || is_beyond(next->first, query);
    return last ? "" : api::to_string(it->first);
  }
  return "";
}

}  // namespace ipvsproxier::inspect
