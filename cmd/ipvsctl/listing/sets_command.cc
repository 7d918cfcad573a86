// `ipvsctl sets`.

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cmd/ipvsctl/commands.h"
#include "cmd/ipvsctl/listing/foreign_sets.h"
#include "cmd/ipvsctl/listing/set_listing.h"
#include "cmd/ipvsctl/names/daemon_names.h"
#include "cmd/ipvsctl/names/element_owners.h"
#include "cmd/ipvsctl/set_tables.h"
#include "ipset/nftables/nft_set_elements.h"

namespace ipvsproxier::ctl {

namespace {

using ipset::ListedSet;
using ipset::PacketFilter;
using netlink::Result;

// The sets of others in our tables.
Result<std::vector<ForeignSet>> read_foreign(ipset::FilterTable& nftables) {
  std::vector<ForeignSet> foreign;
  for (const auto family : netlink::kFamilies) {
    const auto frame = nftables.list_frame(ipset::nft_table_of(family));
    if (!frame) return frame.error();
    if (*frame) std::ranges::move(foreign_sets_of(**frame, family), std::back_inserter(foreign));
  }
  return foreign;
}

// Also one of a name of ours, with another type.
bool has_set(const std::vector<ForeignSet>& foreign, const std::string& name) {
  return std::ranges::any_of(foreign, [&](const ForeignSet& one) {
    return name == to_string(ipset::nft_table_of(one.family)) + " " + one.name;
  });
}

Result<SetListing> list_all(SetTables& tables) {
  SetListing listing;
  if (!tables.of_nft) {
    if (!tables.of_ip_set) return listing;
    auto sets = list_sets(*tables.of_ip_set, PacketFilter::iptables);
    if (!sets) return sets.error();
    listing.sets = *std::move(sets);
    return listing;
  }
  auto sets = list_sets(*tables.of_nft, PacketFilter::nftables);
  if (!sets) return sets.error();
  listing.sets = *std::move(sets);
  auto foreign = read_foreign(*tables.programmed.nftables);
  if (!foreign) return foreign.error();
  listing.foreign = *std::move(foreign);
  std::erase_if(listing.sets,
                [&](const ListedSet& set) { return has_set(listing.foreign, set.spec.name); });
  if (!tables.of_ip_set) return listing;
  auto leftovers = list_sets(*tables.of_ip_set, PacketFilter::iptables);
  if (!leftovers) return leftovers.error();
  listing.leftovers = *std::move(leftovers);
  return listing;
}

// The set of one virtual service's source ranges, "ip kube-ipvs ranges_192.0.2.1_tcp_80".
Result<std::optional<ListedSet>> list_ranges(ipset::FilterTable& nftables,
                                             const std::string& name) {
  for (const auto family : netlink::kFamilies) {
    const auto table = ipset::nft_table_of(family);
    const auto prefix = to_string(table) + " ";
    if (!name.starts_with(prefix)) continue;
    const auto service = ipset::restricted_of(name.substr(prefix.size()));
    if (!service || service->address.family() != family) continue;
    const auto elements = nftables.list_elements(table, name.substr(prefix.size()));
    if (!elements) return elements.error();
    const auto prefixes = *elements ? ipset::prefixes_of(**elements, family) : std::nullopt;
    if (!prefixes) continue;
    ListedSet set{.spec = ipset::set_spec(ipset::SetId::nft_source_ranges, family),
                  .options = {},
                  .elements = {}};
    set.spec.name = name;
    for (const auto& range : *prefixes)
      set.elements.emplace_back(
          ipset::IpPortNetElement{service->address, service->protocol, service->port, range});
    return std::optional(std::move(set));
  }
  return std::optional<ListedSet>{};
}

Result<std::optional<ListedSet>> find_set(SetTables& tables, const std::string& name) {
  if (tables.of_nft) {
    const auto foreign = read_foreign(*tables.programmed.nftables);
    if (!foreign) return foreign.error();
    if (has_set(*foreign, name))
      return netlink::Error{netlink::ErrorKind::unsupported, 0,
                            "the set of the name " + name + " is not ours"};
    auto set = list_set(*tables.of_nft, name);
    if (!set || *set) return set;
    auto ranges = list_ranges(*tables.programmed.nftables, name);
    if (!ranges || *ranges) return ranges;
  }
  if (!tables.of_ip_set) return std::optional<ListedSet>{};
  return list_set(*tables.of_ip_set, name);
}

}  // namespace

netlink::Status run_sets(const SetsOptions& options, const TextSink& sink) {
  const auto tables = open_set_tables();
  if (!tables) return tables.error();
  if (options.name.empty()) {
    const auto listing = list_all(**tables);
    if (!listing) return listing.error();
    return sink(sets_text(*listing, options.format));
  }
  const auto name = set_name_of(options.name);
  const auto set = find_set(**tables, name);
  if (!set) return set.error();
  if (!*set)
    return netlink::Error{netlink::ErrorKind::missing, 0, "there is no set of the name " + name};
  // Names are read after the elements: an element of a new Service then has its owner.
  const auto key = our_set(name);
  const auto names = key && options.names ? names_if_known(options.socket) : std::nullopt;
  if (!names) return sink(elements_text(**set, options.format, nullptr));
  const ElementOwners owners(*key, *names);
  return sink(elements_text(**set, options.format, &owners));
}

}  // namespace ipvsproxier::ctl
