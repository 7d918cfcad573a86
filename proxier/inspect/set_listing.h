#pragma once

// The IP sets that the rules consult, as text or a document. Pure, any thread.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ipset/set_table.h"
#include "netlink/result.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::inspect {

class ElementOwners;

enum class SetFormat : std::uint8_t { text, json, yaml };

// A document that is no text.
std::string document_text(const nlohmann::json& document, SetFormat format);

// Those of our sets (set_catalog.h) that exist, in the catalog's order, IPv4's first. The error is
// the table's.
netlink::Result<std::vector<ipset::ListedSet>> list_sets(ipset::SetTable& table);

// A set a line with its kind, its family, how many elements it has and how many it can have.
std::string sets_text(const std::vector<ipset::ListedSet>& sets, SetFormat format);

// The set of ours that has this name; nullopt: it is none of ours.
std::optional<plan::SetKey> our_set(std::string_view name);

// The elements of one set, a line each as `ipset list` prints them, and behind each whom it is for,
// where that is known (nullptr: it is not); a document says also what kind of set it is, and has
// the owners beside the elements, by element:
//
//   "elements": ["10.96.0.9,tcp:80"], "owners": {"10.96.0.9,tcp:80": ["shop/web:http"]}
std::string elements_text(const ipset::ListedSet& set, SetFormat format,
                          const ElementOwners* owners);

// "shop/api, shop/web"; "-" for none.
std::string owners_text(const std::set<std::string>& owners);

}  // namespace ipvsproxier::inspect
