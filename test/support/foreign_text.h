#pragma once

// What has no business on a terminal, in a log line or in a label of a metric, judged without a
// look at how the product makes text visible (visible_text.h).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace ipvsproxier::test {

// The character as UTF-8.
inline std::string utf8(std::uint32_t code) {
  const auto byte = [](std::uint32_t bits) { return static_cast<char>(bits); };
  const auto tail = [&](unsigned shift) { return byte(0x80U | ((code >> shift) & 0x3fU)); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xc0U | code >> 6U), tail(0)};
  if (code < 0x10000) return {byte(0xe0U | code >> 12U), tail(6), tail(0)};
  return {byte(0xf0U | code >> 18U), tail(12), tail(6), tail(0)};
}

// The next character of UTF-8, taken away from `text`; nullopt: none.
inline std::optional<std::uint32_t> take_character(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t size = lead < 0x80   ? 1
                           : lead < 0xc2 ? 0
                           : lead < 0xe0 ? 2
                           : lead < 0xf0 ? 3
                                         : 4;
  if (size == 0 || lead > 0xf4 || text.size() < size) return std::nullopt;
  std::uint32_t code = size == 1 ? lead : lead & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0U) != 0x80) return std::nullopt;
    code = code << 6U | (byte & 0x3fU);
  }
  if ((size == 3 && code < 0x800) || (size == 4 && code < 0x10000) || code > 0x10ffff ||
      (code >= 0xd800 && code <= 0xdfff))
    return std::nullopt;
  text.remove_prefix(size);
  return code;
}

// It acts on a terminal, ends a line, turns the writing, or cannot be seen.
inline bool acts(std::uint32_t code) {
  const auto in = [code](std::uint32_t first, std::uint32_t last) {
    return code >= first && code <= last;
  };
  return code < 0x20 || in(0x7f, 0x9f) || code == 0xad || code == 0x61c || in(0x200b, 0x200f) ||
         in(0x2028, 0x202e) || in(0x2060, 0x206f) || code == 0xfeff || in(0xfff9, 0xfffb) ||
         in(0xe0000, 0xe007f);
}

// A line that hostile objects try to add to a log or to metrics begins so (hostile_objects.cc).
inline bool is_forged(std::string_view line) {
  return line.starts_with("2026-01-01T00:00:00Z") || line.starts_with("up 0");
}

// "byte 12 of 80: U+001B: ..." for the first that is raw in text of lines, or ends a line before
// one that is forged; "": none.
inline std::string raw_text_in(std::string_view text) {
  const auto all = text;
  while (!text.empty()) {
    const auto at = all.size() - text.size();
    const auto code = take_character(text);
    if (code == U'\n' ? !is_forged(text) : code && !acts(*code)) continue;
    auto around = std::string(all.substr(at < 60 ? 0 : at - 60, 100));
    for (auto& c : around)
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
    return fmt::format("byte {} of {}: {}: {}", at, all.size(),
                       code ? fmt::format("U+{:04X}", *code) : "no UTF-8", around);
  }
  return "";
}

// The same for text of one line.
inline std::string raw_text_in_line(std::string_view text) {
  return text.find('\n') == std::string_view::npos ? raw_text_in(text)
                                                   : fmt::format("several lines: {}", text);
}

}  // namespace ipvsproxier::test
