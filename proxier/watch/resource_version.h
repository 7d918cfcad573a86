#pragma once

// Resource versions: which of two of the same resource is the newer one. Pure.
//
// Since KEP-5504 a version of the API is a decimal number of any length without zeros in front, and
// two of the same resource may be compared. Others are opaque.

#include <compare>
#include <optional>
#include <string_view>

namespace ipvsproxier::watch {

// nullopt: they say nothing about each other.
std::optional<std::strong_ordering> compare_versions(std::string_view left, std::string_view right);

// Both are numbers and `left` is not newer than `right`.
bool is_old(std::string_view left, std::string_view right);

}  // namespace ipvsproxier::watch
