#include "cmd/ipvsctl/listing/set_listing.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cmd/ipvsctl/names/element_owners.h"
#include "ipset/sets/set_catalog.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

using ipset::ListedSet;

namespace {

// What the list of sets and the document of one set tell alike.
void write_set(api::DocumentWriter& out, const ListedSet& set) {
  out.member("family", to_string(set.spec.family));
  out.member("maxElements", set.spec.max_elements);
  out.member("name", set.spec.name);
  // Our sets have no options: another program made the set.
  if (!set.options.empty()) out.member("options", set.options);
}

// An element that may belong to an unknown Service has no entry.
void write_owners(api::DocumentWriter& out, const ListedSet& set, const ElementOwners& owners) {
  std::map<std::string, const std::set<std::string>*> by_element;
  for (const auto& element : set.elements) {
    const auto& own = owners.of(element);
    if (!own.empty() || owners.knows_all()) by_element[to_string(element)] = &own;
  }
  out.object("owners", [&] {
    for (const auto& [element, own] : by_element) out.member(element, *own);
  });
}

std::string owner_column(const ipset::Element& element, const ElementOwners& owners) {
  const auto& own = owners.of(element);
  return owners_text(own) + (own.empty() && owners.knows_all() ? ": no Service has it" : "");
}

}  // namespace

std::string document_text(SetFormat format,
                          const std::function<void(api::DocumentWriter&)>& write) {
  if (format == SetFormat::yaml) {
    api::YamlWriter out;
    write(out);
    return out.take();
  }
  api::JsonWriter out(api::JsonWriter::kIndented);
  write(out);
  return out.take() + "\n";
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
    return document_text(format, [&](api::DocumentWriter& out) {
      out.object([&] {
        out.list("sets", sets, [&](const ListedSet& set) {
          out.object([&] {
            out.member("elementCount", set.elements.size());
            write_set(out, set);
            out.member("type", to_string(set.spec.kind));
          });
        });
      });
    });
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
    return document_text(format, [&](api::DocumentWriter& out) {
      out.object([&] {
        out.member("elementCount", set.elements.size());
        out.list("elements", set.elements,
                 [&](const ipset::Element& element) { out.value(to_string(element)); });
        write_set(out, set);
        if (owners != nullptr) write_owners(out, set, *owners);
        out.member("type", to_string(set.spec.kind));
      });
    });
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
