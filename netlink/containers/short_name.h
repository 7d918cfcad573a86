#pragma once

// ShortName: a kernel name of at most 15 bytes in a fixed array, such as a scheduler's
// (IP_VS_SCHEDNAME_MAXLEN and IP_VS_PENAME_MAXLEN are 16 with the NUL). Longer text is cut; such a
// name cannot exist in the kernel. A value; any thread.

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <string>
#include <string_view>

namespace ipvsproxier::netlink {

class ShortName {
 public:
  static constexpr std::size_t kMost = 15;  // bytes

  constexpr ShortName() = default;
  ShortName(std::string_view text) {
    const auto end = std::min({text.size(), kMost, text.find('\0')});
    std::copy_n(text.begin(), end, bytes_.begin());
  }
  ShortName(const char* text) : ShortName(std::string_view(text)) {}
  ShortName(const std::string& text) : ShortName(std::string_view(text)) {}

  std::string_view view() const { return bytes_.data(); }
  bool empty() const { return bytes_[0] == '\0'; }

  friend auto operator<=>(const ShortName&, const ShortName&) = default;

 private:
  std::array<char, kMost + 1> bytes_{};  // padded with NULs
};

}  // namespace ipvsproxier::netlink
