#pragma once

// Small functions of texts. Pure; any thread.

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace ipvsproxier::netlink {

// Without the blanks at both ends.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n\v\f") {
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// The whole text as a number; a "+" or blanks before it are refused. nullopt also where the type
// cannot hold it. `format`: the base of a whole number.
template <typename Number, typename... Format>
std::optional<Number> parse_number(std::string_view text, Format... format) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number, format...);
  return error == std::errc() && at == end ? std::optional(number) : std::nullopt;
}

}  // namespace ipvsproxier::netlink
