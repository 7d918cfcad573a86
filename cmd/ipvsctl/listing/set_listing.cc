#include "cmd/ipvsctl/listing/set_listing.h"

#include <algorithm>
#include <map>
#include <span>

#include <fmt/format.h>

#include "cmd/ipvsctl/names/element_owners.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/sets/set_catalog.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

using ipset::ListedSet;

namespace {

// "hash:ip", "services": that the sets of nf_tables are there, their names tell.
std::string_view type_text(const ListedSet& set) {
  constexpr std::string_view kOfNft = "nft ";
  auto text = to_string(set.spec.kind);
  if (text.starts_with(kOfNft)) text.remove_prefix(kOfNft.size());
  return text;
}

// What the list of sets and the document of one set tell alike.
void write_set(api::DocumentWriter& out, const ListedSet& set) {
  out.member("family", to_string(set.spec.family));
  if (!is_nft(set.spec.kind)) out.member("maxElements", set.spec.max_elements);
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

// In the catalogue's order.
std::span<const ipset::SetId> ids_of(ipset::PacketFilter filter) {
  if (filter == ipset::PacketFilter::nftables) return ipset::kNftSetIds;
  return ipset::kIpSetIds;
}

void write_row(api::DocumentWriter& out, const ListedSet& set, bool leftover) {
  out.object([&] {
    out.member("elementCount", set.elements.size());
    if (leftover) out.member("leftover", true);
    write_set(out, set);
    out.member("type", type_text(set));
  });
}

std::string sets_document(const SetListing& listing, SetFormat format) {
  return document_text(format, [&](api::DocumentWriter& out) {
    out.object([&] {
      if (!listing.foreign.empty())
        out.list("foreignSets", listing.foreign, [&](const ForeignSet& set) {
          out.object([&] {
            out.member("family", to_string(set.family));
            out.member("name", set.name);
          });
        });
      out.key("sets");
      out.open_list();
      for (const auto& set : listing.sets) write_row(out, set, false);
      for (const auto& set : listing.leftovers) write_row(out, set, true);
      out.close();
    });
  });
}

std::string set_row(const ListedSet& set, std::string_view note) {
  const auto most = is_nft(set.spec.kind) ? "-" : std::to_string(set.spec.max_elements);
  return fmt::format("{:31} {:15} {:6} {:8} {:>8}{}\n", set.spec.name, type_text(set),
                     to_string(set.spec.family), set.elements.size(), most, note);
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

netlink::Result<std::optional<ListedSet>> list_set(ipset::SetTable& table,
                                                   const std::string& name) {
  auto set = table.list(name);
  if (!set || !*set) return set;
  std::vector<ipset::Element> shown;
  for (const auto& element : (*set)->elements)
    for (auto& one : ipset::one_by_one(element)) shown.push_back(std::move(one));
  (*set)->elements = std::move(shown);
  return set;
}

netlink::Result<std::vector<ListedSet>> list_sets(ipset::SetTable& table,
                                                  ipset::PacketFilter filter) {
  std::vector<ListedSet> sets;
  for (const auto family : netlink::kFamilies)
    for (const auto id : ids_of(filter)) {
      auto set = list_set(table, ipset::set_name(id, family));
      if (!set) return set.error();
      if (*set) sets.push_back(std::move(**set));
    }
  return sets;
}

std::string sets_text(const SetListing& listing, SetFormat format) {
  if (format != SetFormat::text) return sets_document(listing, format);
  auto text =
      fmt::format("{:31} {:15} {:6} {:>8} {:>8}\n", "Name", "Type", "Family", "Elements", "Most");
  if (listing.sets.empty() && listing.leftovers.empty())
    text += "neither iptables nor nf_tables has sets of ours\n";
  for (const auto& set : listing.sets) text += set_row(set, "");
  for (const auto& set : listing.leftovers) text += set_row(set, "  # LEFT OVER");
  for (const auto& set : listing.foreign)
    text += fmt::format("{} {}: NOT OURS\n", netlink::to_string(ipset::nft_table_of(set.family)),
                        api::visible(set.name));
  return text;
}

std::string set_name_of(std::string_view typed) {
  std::string name(typed);
  const auto slashed = name.starts_with("ip/") || name.starts_with("ip6/");
  if (slashed) std::ranges::replace(name, '/', ' ');
  return name;
}

std::optional<plan::SetKey> our_set(std::string_view name) {
  for (const auto family : netlink::kFamilies) {
    for (const auto filter : {ipset::PacketFilter::iptables, ipset::PacketFilter::nftables})
      for (const auto id : ids_of(filter))
        if (ipset::set_name(id, family) == name) return plan::SetKey{family, id};
    const auto table = netlink::to_string(ipset::nft_table_of(family)) + " ";
    if (!name.starts_with(table)) continue;
    const auto service = ipset::restricted_of(std::string(name.substr(table.size())));
    if (service && service->address.family() == family)
      return plan::SetKey{family, ipset::SetId::nft_source_ranges};
  }
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
        out.member("type", type_text(set));
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
