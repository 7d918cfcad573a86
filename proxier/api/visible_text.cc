#include "proxier/api/visible_text.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

namespace ipvsproxier::api {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Characters of Unicode's categories Cc, Cf, Zl and Zp that act on a terminal or are invisible, and
// the tag characters, which can hide whole texts.
constexpr std::array kInvisible = {
    Range{0x00, 0x1f},     Range{0x7f, 0x9f},     Range{0xad, 0xad},       Range{0x61c, 0x61c},
    Range{0x180e, 0x180e}, Range{0x200b, 0x200f}, Range{0x2028, 0x202e},   Range{0x2060, 0x206f},
    Range{0xfeff, 0xfeff}, Range{0xfff9, 0xfffb}, Range{0xe0000, 0xe007f},
};

bool is_invisible(char32_t character) {
  return std::ranges::any_of(kInvisible, [character](const Range& range) {
    return character >= range.first && character <= range.last;
  });
}

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

bool is_inside_character(std::string_view text, std::size_t at) {
  return (byte_at(text, at) & 0xc0U) == 0x80U;
}

struct Character {
  char32_t code = 0;
  std::size_t size = 0;  // 0: no valid character begins here
};

// The first character (RFC 3629: shortest form, no surrogates, nothing beyond U+10FFFF).
Character first_character(std::string_view text) {
  struct Form {
    unsigned mask;
    unsigned mark;
    char32_t least;
  };
  constexpr std::array kForms = {Form{0x80, 0x00, 0x00}, Form{0xe0, 0xc0, 0x80},
                                 Form{0xf0, 0xe0, 0x800}, Form{0xf8, 0xf0, 0x10000}};
  const auto lead = byte_at(text, 0);
  for (std::size_t more = 0; more < kForms.size(); ++more) {
    const auto& form = kForms.at(more);
    if ((lead & form.mask) != form.mark) continue;
    if (text.size() <= more) return {};
    char32_t code = lead & ~form.mask;
    for (std::size_t i = 1; i <= more; ++i) {
      if (!is_inside_character(text, i)) return {};
      code = code << 6U | (byte_at(text, i) & 0x3fU);
    }
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    if (code < form.least || code > 0x10ffff || surrogate) return {};
    return {code, more + 1};
  }
  return {};
}

struct Style {
  bool lines_stay = false;
  bool yaml = false;  // writes characters beyond U+FFFF as YAML does
};

void append_visible(std::string& shown, char32_t character, const Style& style) {
  switch (character) {
    case '\n':
      shown += "\\n";
      return;
    case '\r':
      shown += "\\r";
      return;
    case '\t':
      shown += "\\t";
      return;
    default:
      break;
  }
  const auto append_unit = [&shown](std::uint32_t unit) {
    fmt::format_to(std::back_inserter(shown), "\\u{:04x}", unit);
  };
  const auto code = static_cast<std::uint32_t>(character);
  if (code < 0x10000) return append_unit(code);
  if (style.yaml) {
    fmt::format_to(std::back_inserter(shown), "\\U{:08x}", code);
    return;
  }
  append_unit(0xd800 + ((code - 0x10000) >> 10U));
  append_unit(0xdc00 + (code & 0x3ffU));
}

bool is_plain(char c) {
  return c >= ' ' && c <= '~';
}

std::string shown_text(std::string_view text, const Style& style) {
  std::string shown;
  while (!text.empty()) {
    const auto plain =
        static_cast<std::size_t>(std::ranges::find_if_not(text, is_plain) - text.begin());
    shown += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const auto [code, size] = first_character(text);
    const auto bytes = text.substr(0, std::max<std::size_t>(size, 1));
    if (size == 0)
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", byte_at(text, 0));
    else if (is_invisible(code) && !(style.lines_stay && code == '\n'))
      append_visible(shown, code, style);
    else
      shown += bytes;
    text.remove_prefix(bytes.size());
  }
  return shown;
}

}  // namespace

std::string visible(std::string_view text) {
  return shown_text(text, {});
}

std::string visible_lines(std::string_view text) {
  return shown_text(text, {.lines_stay = true});
}

std::string visible_yaml(std::string_view text) {
  return shown_text(text, {.lines_stay = true, .yaml = true});
}

std::string_view head_of(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  // A character has at most four bytes: if more continuation bytes follow, the text is not UTF-8.
  constexpr std::size_t kLongest = 4;
  auto end = most;
  while (end > 0 && most - end < kLongest && is_inside_character(text, end)) --end;
  return text.substr(0, is_inside_character(text, end) ? most : end);
}

std::string_view tail_of(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  constexpr std::size_t kLongest = 4;
  const auto wanted = text.size() - most;
  auto begin = wanted;
  while (begin < text.size() && begin - wanted < kLongest && is_inside_character(text, begin))
    ++begin;
  const bool is_end = begin == text.size() || !is_inside_character(text, begin);
  return text.substr(is_end ? begin : wanted);
}

}  // namespace ipvsproxier::api
