#pragma once

// Names that the kernel has from anybody (tables, sets), in the text of an error. Pure; any thread.

#include <string>
#include <string_view>

namespace ipvsproxier::ipset {

// One line of printable ASCII: each other byte is written as "\x0a".
std::string printable_name(std::string_view name);

}  // namespace ipvsproxier::ipset
