#include "ipset/sets/printable_name.h"

#include <fmt/format.h>

namespace ipvsproxier::ipset {

std::string printable_name(std::string_view name) {
  std::string text;
  for (const char one : name) {
    const auto byte = static_cast<unsigned char>(one);
    if (byte >= 0x20 && byte < 0x7f)
      text += one;
    else
      text += fmt::format("\\x{:02x}", byte);
  }
  return text;
}

}  // namespace ipvsproxier::ipset
