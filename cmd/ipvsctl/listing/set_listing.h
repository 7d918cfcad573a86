#pragma once

// Prints the IP sets that the rules use, as text or as a document. Pure, any thread.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ipset/sets/set_table.h"
#include "netlink/result.h"
#include "proxier/api/document_writer.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::ctl {

class ElementOwners;

enum class SetFormat : std::uint8_t { text, json, yaml };

// The JSON or YAML document that `write` describes.
std::string document_text(SetFormat format, const std::function<void(api::DocumentWriter&)>& write);

// Our existing sets (set_catalog.h) in the catalogue's order, IPv4 first. Returns the error of the
// table.
netlink::Result<std::vector<ipset::ListedSet>> list_sets(ipset::SetTable& table);

// One line for each set: kind, family, number of elements, capacity.
std::string sets_text(const std::vector<ipset::ListedSet>& sets, SetFormat format);

// Our set of this name; nullopt: not one of ours.
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
