#pragma once

// Resource versions: which of two versions of one resource is newer. Pure.
//
// Since KEP-5504 a resource version is a decimal number of any length without leading zeros, and
// versions of one resource can be compared. Other texts are opaque.

#include <compare>
#include <optional>
#include <string_view>

namespace ipvsproxier::watch {

// nullopt: not comparable.
std::optional<std::strong_ordering> compare_versions(std::string_view left, std::string_view right);

// True if both are numbers and `left` is not newer than `right`.
bool is_old(std::string_view left, std::string_view right);

}  // namespace ipvsproxier::watch
