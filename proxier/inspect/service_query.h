#pragma once

// Which Services an answer in pages covers. Pure; any thread.

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "proxier/api/names.h"
#include "proxier/model/endpoint.h"

namespace ipvsproxier::inspect {

// "namespace/name"; nullopt for any other text.
inline std::optional<api::NamespacedName> parse_service_name(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) return std::nullopt;
  return api::NamespacedName{text.substr(0, slash), text.substr(slash + 1)};
}

// The end of a page, where the next page begins.
struct PageEnd {
  api::NamespacedName service;
  // Its last EndpointSlice on the page; "": the page holds the whole Service.
  std::string slice;
};

// "namespace/name/slice", or "namespace/name".
inline std::string to_string(const PageEnd& end) {
  return api::to_string(end.service) + (end.slice.empty() ? "" : "/" + end.slice);
}

// nullopt for any other text.
inline std::optional<PageEnd> parse_page_end(const std::string& text) {
  const auto first = text.find('/');
  if (first == std::string::npos) return std::nullopt;
  const auto second = text.find('/', first + 1);
  auto service = parse_service_name(text.substr(0, second));
  if (!service) return std::nullopt;
  if (second == std::string::npos) return PageEnd{*std::move(service), ""};
  if (second + 1 == text.size()) return std::nullopt;
  return PageEnd{*std::move(service), text.substr(second + 1)};
}

struct ServiceQuery {
  // Only entries after this one.
  std::optional<PageEnd> after;
  // Only this namespace, or only this Service.
  std::optional<std::string> ns;
  std::optional<api::NamespacedName> service;

  bool of_some() const { return ns || service; }
};

inline bool is_beyond(const api::NamespacedName& name, const ServiceQuery& query) {
  if (query.service) return name != *query.service;
  return query.ns && name.ns != *query.ns;
}

// Calls append(slice) for the slices with names after `after`, until it returns false (the page is
// full). Then returns the page's last slice, or "" if no slice is left; nullopt: not full.
template <typename Append>
std::optional<std::string> append_slices(const model::SlicesByName& slices,
                                         const std::string& after, Append append) {
  for (auto it = std::ranges::upper_bound(slices, after, {}, &model::name_of); it != slices.end();
       ++it)
    if (!append(*it)) return std::next(it) == slices.end() ? "" : it->name.name;
  return std::nullopt;
}

// Calls append(name, value, slice) for the entries that the query selects, in order of their names,
// until the page is full (as in append_slices()). `slice` is the last slice of the Service on the
// page before, "" if that page has nothing of it. Returns the `after` of the next page, "" after
// the last one.
template <typename Value, typename Append>
std::string append_page(const std::map<api::NamespacedName, Value>& values,
                        const ServiceQuery& query, Append append) {
  const auto first =
      query.service ? *query.service : api::NamespacedName{query.ns.value_or(""), ""};
  auto it = values.lower_bound(first);
  std::string slice;
  if (query.after && query.after->service >= first) {
    it = values.lower_bound(query.after->service);
    if (it != values.end() && it->first == query.after->service) {
      slice = query.after->slice;
      if (slice.empty()) ++it;
    }
  }
  for (; it != values.end() && !is_beyond(it->first, query); ++it, slice.clear()) {
    const auto full = append(it->first, it->second, slice);
    if (!full) continue;
    const auto next = std::next(it);
    if (full->empty() && (next == values.end() || is_beyond(next->first, query))) return "";
    return to_string(PageEnd{it->first, *full});
  }
  return "";
}

}  // namespace ipvsproxier::inspect
