#pragma once

// Reads a whole file that a person names. Blocks; closes the file.

#include <cstddef>
#include <optional>
#include <string>

#include "proxier/api/problem.h"

namespace ipvsproxier::api {

// A larger file is refused, so that it cannot exhaust the memory.
inline constexpr std::size_t kMaxTextBytes = std::size_t{512} << 20U;

// nullopt after adding a problem with the reason.
std::optional<std::string> read_text_file(const std::string& path, Problems& problems);

}  // namespace ipvsproxier::api
