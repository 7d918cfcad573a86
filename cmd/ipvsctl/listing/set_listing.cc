#include "cmd/ipvsctl/listing/set_listing.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cmd/ipvsctl/names/element_owners.h"
#include "ipset/sets/set_catalog.h"
#include "proxier/api/json_text.h"
#include "proxier/api/visible_text.h"
#include "proxier/api/yaml_writer.h"

namespace ipvsproxier::ctl {

using ipset::ListedSet;
using Json = nlohmann::json;

namespace {

Json set_document(const ListedSet& set) {
  Json document{{"name", set.spec.name},
                {"type", to_string(set.spec.kind)},
                {"family", to_string(set.spec.family)},
                {"elementCount", set.elements.size()},
                {"maxElements", set.spec.max_elements}};
  // Our sets have no options: another program made the set.
  if (!set.options.empty()) document["options"] = set.options;
  return document;
}

// An element that may belong to an unknown Service has no entry.
Json owners_document(const ListedSet& set, const ElementOwners& owners) {
  auto document = Json::object();
  for (const auto& element : set.elements) {
    const auto& own = owners.of(element);
    if (!own.empty() || owners.knows_all()) document[to_string(element)] = own;
  }
  return document;
}

std::string owner_column(const ipset::Element& element, const ElementOwners& owners) {
  const auto& own = owners.of(element);
  return owners_text(own) + (own.empty() && owners.knows_all() ? ": no Service has it" : "");
}

}  // namespace

std::string document_text(const Json& document, SetFormat format) {
  constexpr int kIndent = 2;
  return format == SetFormat::yaml ? api::write_yaml(document)
                                   : api::to_json_text(document, kIndent) + "\n";
}

netlink::Result<std::vector<ListedSet>> list_sets(ipset::SetTable& table) {
  std::vector<ListedSet> sets;
  for (const auto family : netlink::kFamilies)
    for (const auto id : ipset::kSetIds) {
      auto set = table.list(ipset::set_name(id, family));
      if (!set) return set.error();
      if (*set) sets.push_back(std::move(**set));
    }
  return sets;
}

std::string sets_text(const std::vector<ListedSet>& sets, SetFormat format) {
  if (format != SetFormat::text) {
    Json list = Json::array();
    for (const auto& set : sets) list.push_back(set_document(set));
    return document_text({{"sets", list}}, format);
  }
  auto text =
      fmt::format("{:31} {:15} {:6} {:>8} {:>8}\n", "Name", "Type", "Family", "Elements", "Most");
  for (const auto& set : sets)
    fmt::format_to(std::back_inserter(text), "{:31} {:15} {:6} {:8} {:8}\n", set.spec.name,
                   to_string(set.spec.kind), to_string(set.spec.family), set.elements.size(),
                   set.spec.max_elements);
  return text;
}

std::optional<plan::SetKey> our_set(std::string_view name) {
  for (const auto family : netlink::kFamilies)
    for (const auto id : ipset::kSetIds)
      if (ipset::set_name(id, family) == name) return plan::SetKey{family, id};
  return std::nullopt;
}

std::string owners_text(const std::set<std::string>& owners) {
  std::string text;
  for (const auto& owner : owners) text += (text.empty() ? "" : ", ") + api::visible(owner);
  return text.empty() ? "-" : text;
}

std::string elements_text(const ListedSet& set, SetFormat format, const ElementOwners* owners) {
  if (format != SetFormat::text) {
    auto document = set_document(set);
    document["elements"] = Json::array();
    for (const auto& element : set.elements) document["elements"].push_back(to_string(element));
    if (owners != nullptr) document["owners"] = owners_document(set, *owners);
    return document_text(document, format);
  }
  std::string text;
  std::size_t width = 0;
  for (const auto& element : set.elements)
    if (owners != nullptr) width = std::max(width, to_string(element).size());
  for (const auto& element : set.elements) {
    const auto start = text.size();
    text += to_string(element);
    if (owners != nullptr) {
      text.append(start + width + 1 - text.size(), ' ');
      text += owner_column(element, *owners);
    }
    text += '\n';
  }
  return text;
}

}  // namespace ipvsproxier::ctl
