#pragma once

// When so much is missing from what an API server says that it is rather lost there than deleted.

#include <cstddef>

namespace ipvsproxier::api {

// Of fewer things most may well go at once.
inline constexpr std::size_t kMassRemovalFewest = 20;

constexpr bool is_mass_removal(std::size_t lost, std::size_t known) {
  return known >= kMassRemovalFewest && lost > known / 2;
}

}  // namespace ipvsproxier::api
