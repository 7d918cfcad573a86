#pragma once

// Reading a whole file that a person names. Blocks; nothing is kept open.

#include <cstddef>
#include <optional>
#include <string>

#include "proxier/api/problem.h"

namespace ipvsproxier::watch {

// A larger file is refused: an error instead of an exhausted machine.
inline constexpr std::size_t kMaxTextBytes = std::size_t{512} << 20U;

// nullopt with an error problem that says why.
std::optional<std::string> read_text_file(const std::string& path, api::Problems& problems);

}  // namespace ipvsproxier::watch
