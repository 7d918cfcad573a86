#pragma once

// Detects that an API server's list lacks so many known objects that it probably lost them.

#include <cstddef>

namespace ipvsproxier::api {

// With fewer known objects, most of them may well be deleted at once.
inline constexpr std::size_t kMassRemovalFewest = 20;

constexpr bool is_mass_removal(std::size_t lost, std::size_t known) {
  return known >= kMassRemovalFewest && lost > known / 2;
}

}  // namespace ipvsproxier::api
