#include "proxier/inspect/set_listing.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ipset/set_catalog.h"
#include "proxier/api/yaml_writer.h"

namespace ipvsproxier::inspect {

using ipset::ListedSet;
using nlohmann::json;

namespace {

json set_document(const ListedSet& set) {
  json document{{"name", set.spec.name},
                {"type", to_string(set.spec.kind)},
                {"family", to_string(set.spec.family)},
                {"elementCount", set.elements.size()},
                {"maxElements", set.spec.max_elements}};
  // What ours do not have: somebody else made it.
  if (!set.options.empty()) document["options"] = set.options;
  return document;
}

}  // namespace

std::string document_text(const json& document, SetFormat format) {
  constexpr int kIndent = 2;
  return format == SetFormat::yaml ? api::write_yaml(document) : document.dump(kIndent) + "\n";
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
    json list = json::array();
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

std::string elements_text(const ListedSet& set, SetFormat format) {
  if (format != SetFormat::text) {
    auto document = set_document(set);
    document["elements"] = json::array();
    for (const auto& element : set.elements) document["elements"].push_back(to_string(element));
    return document_text(document, format);
  }
  std::string text;
  for (const auto& element : set.elements) text += to_string(element) + "\n";
  return text;
}

}  // namespace ipvsproxier::inspect
