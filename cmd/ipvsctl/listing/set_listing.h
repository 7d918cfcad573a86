#pragma once

// Prints the IP sets that the rules use, or the sets and maps of our tables of nf_tables, as text
// or as a document. Pure, any thread.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/ipvsctl/listing/foreign_sets.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/sets/set_table.h"
#include "netlink/result.h"
#include "proxier/api/document_writer.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::ctl {

class ElementOwners;

enum class SetFormat : std::uint8_t { text, json, yaml };

// The JSON or YAML document that `write` describes.
std::string document_text(SetFormat format, const std::function<void(api::DocumentWriter&)>& write);

// A set with its elements as they are shown (ipset::one_by_one()); nullopt: it does not exist.
netlink::Result<std::optional<ipset::ListedSet>> list_set(ipset::SetTable& table,
                                                          const std::string& name);

// Our existing sets of a packet filter (set_catalog.h) in the catalogue's order, IPv4 first.
// Returns the error of the table.
netlink::Result<std::vector<ipset::ListedSet>> list_sets(ipset::SetTable& table,
                                                         ipset::PacketFilter filter);

struct SetListing {
  std::vector<ipset::ListedSet> sets;       // of the packet filter in use
  std::vector<ipset::ListedSet> leftovers;  // IP sets of ours, while nf_tables is in use
  std::vector<ForeignSet> foreign;          // in our tables of nf_tables
};

// One line for each set: kind, family, number of elements, capacity ("-": it grows as needed). In
// documents leftovers have "leftover": true, and those of others stand in "foreignSets".
std::string sets_text(const SetListing& listing, SetFormat format);

// The name of a set as the lists have it: blanks may be written as slashes, "ip/kube-ipvs/vips".
std::string set_name_of(std::string_view typed);

// Our set of this name, or that of which a set of source ranges is a part ("ip kube-ipvs
// ranges_192.0.2.1_tcp_80"); nullopt: not one of ours.
std::optional<plan::SetKey> our_set(std::string_view name);

// The elements of one set, one line each in the format of `ipset list`, followed by their owners if
// known (nullptr: unknown). A document also has the kind of the set, and lists the owners by
// element:
//
//   "elements": ["10.96.0.9,tcp:80"], "owners": {"10.96.0.9,tcp:80": ["shop/web:http"]}
std::string elements_text(const ipset::ListedSet& set, SetFormat format,
                          const ElementOwners* owners);

// "shop/api, shop/web"; "-" for none.
std::string owners_text(const std::set<std::string>& owners);

}  // namespace ipvsproxier::ctl
