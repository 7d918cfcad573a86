#pragma once

// The IP sets that the rules consult, as text or a document. Pure, any thread.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ipset/set_table.h"
#include "netlink/result.h"

namespace ipvsproxier::inspect {

enum class SetFormat : std::uint8_t { text, json, yaml };

// A document that is no text.
std::string document_text(const nlohmann::json& document, SetFormat format);

// Those of our sets (set_catalog.h) that exist, in the catalog's order, IPv4's first. The error is
// the table's.
netlink::Result<std::vector<ipset::ListedSet>> list_sets(ipset::SetTable& table);

// A set a line with its kind, its family, how many elements it has and how many it can have.
std::string sets_text(const std::vector<ipset::ListedSet>& sets, SetFormat format);

// The elements of one set, a line each as `ipset list` prints them; a document says also what kind
// of set it is.
std::string elements_text(const ipset::ListedSet& set, SetFormat format);

}  // namespace ipvsproxier::inspect
