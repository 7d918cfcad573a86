#pragma once

// Bytes as hexadecimal text, as captures have them.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ipvsproxier::test {

inline std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const auto byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// Pairs of digits, nothing between them.
inline std::vector<std::uint8_t> from_hex(std::string_view text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(
        static_cast<std::uint8_t>(std::stoul(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}

}  // namespace ipvsproxier::test
