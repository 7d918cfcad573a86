#include "proxier/api/broken_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>

namespace ipvsproxier::api {

namespace {

constexpr std::string_view kJsonBlanks = " \t\r\n";
constexpr std::string_view kReplacement = "\xef\xbf\xbd";
constexpr std::string_view kReplacementEscape = "\\ufffd";

bool opens(char byte) {
  return byte == '{' || byte == '[';
}

bool closes(char byte) {
  return byte == '}' || byte == ']';
}

// The size in bytes of the character at the beginning of `text`, which is not ASCII; 0: no valid
// character (Unicode, table 3-7: overlong forms, surrogates, values beyond U+10FFFF).
std::size_t character_size(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto first = byte(0);
  const std::size_t size = first >= 0xf0U ? 4 : first >= 0xe0U ? 3 : 2;
  if (first < 0xc2U || first > 0xf4U) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
  const auto second = byte(1);
  const bool wrong = (first == 0xe0U && second < 0xa0U) || (first == 0xedU && second >= 0xa0U) ||
                     (first == 0xf0U && second < 0x90U) || (first == 0xf4U && second >= 0x90U);
  return wrong ? 0 : size;
}

// The code unit of a \uXXXX escape at the beginning of `text`; nullopt: no such escape.
std::optional<unsigned> escaped_unit(std::string_view text) {
  if (text.size() < 6 || text[0] != '\\' || text[1] != 'u') return std::nullopt;
  unsigned unit = 0;
  const auto* end = text.data() + 6;
  const auto [at, error] = std::from_chars(text.data() + 2, end, unit, 16);
  if (error != std::errc{} || at != end) return std::nullopt;
  return unit;
}

class Mender {
 public:
  explicit Mender(std::string_view text) : text_(text) { mended_.reserve(text.size()); }

  std::string mend() {
    while (at_ < text_.size()) {
      const char byte = text_[at_];
      if (byte == '"') {
        take_text();
        continue;
      }
      if (opens(byte) && ++depth_ == kKeptDepth + 1) mended_ += "null";
      if (depth_ <= kKeptDepth) mended_ += byte;
      if (closes(byte) && depth_ > 0) --depth_;
      ++at_;
    }
    return std::move(mended_);
  }

 private:
  void take_text() {
    take(1);
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\')
        take_escape();
      else if (static_cast<unsigned char>(text_[at_]) < 0x80U)
        take(1);
      else if (const auto size = character_size(text_.substr(at_)); size > 0)
        take(size);
      else
        replace(1, kReplacement);
    }
    take(1);
  }

  void take_escape() {
    const auto unit = escaped_unit(text_.substr(at_));
    if (!unit) return take(2);
    const auto is_half = [](const std::optional<unsigned>& some, unsigned first) {
      return some && (*some & 0xfc00U) == first;
    };
    constexpr unsigned kHigh = 0xd800;
    constexpr unsigned kLow = 0xdc00;
    if (is_half(unit, kHigh) && is_half(escaped_unit(text_.substr(at_ + 6)), kLow))
      take(12);
    else if (is_half(unit, kHigh) || is_half(unit, kLow))
      replace(6, kReplacementEscape);
    else
      take(6);
  }

  void take(std::size_t size) {
    const auto taken = text_.substr(std::min(at_, text_.size()), size);
    replace(taken.size(), taken);
  }

  void replace(std::size_t size, std::string_view by) {
    if (depth_ <= kKeptDepth) mended_ += by;
    at_ += size;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  std::string mended_;
};

struct Place {
  std::array<std::string_view, 3> keys;  // "" after the last key
  std::string Outline::*member;
};

constexpr std::array<Place, 4> kPlacesInEvent = {{
    {{"type"}, &Outline::event_type},
    {{"object", "metadata", "name"}, &Outline::name},
    {{"object", "metadata", "namespace"}, &Outline::ns},
    {{"object", "metadata", "resourceVersion"}, &Outline::resource_version},
}};
constexpr std::array<Place, 3> kPlacesInObject = {{
    {{"metadata", "name"}, &Outline::name},
    {{"metadata", "namespace"}, &Outline::ns},
    {{"metadata", "resourceVersion"}, &Outline::resource_version},
}};

// Whether the text has only characters of object names and resource versions.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == ':' || c == '_';
  });
}

class Outliner {
 public:
  template <std::size_t N>
  static Outline read(std::string_view text, const std::array<Place, N>& places) {
    Outliner outliner(text);
    while (const auto value = outliner.next_text())
      for (const auto& place : places)
        if (place.keys == outliner.keys_ && is_plain(*value))
          outliner.outline_.*place.member = std::string(*value);
    return std::move(outliner.outline_);
  }

 private:
  explicit Outliner(std::string_view text) : text_(text) {}

  // The next text that is a value. nullopt: none, or the input ends inside it.
  std::optional<std::string_view> next_text() {
    while (at_ < text_.size()) {
      const char byte = text_[at_++];
      if (opens(byte)) ++depth_;
      if (closes(byte) && depth_ > 0) forget(--depth_);
      if (byte != '"') continue;
      const auto begin = at_;
      while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
      if (at_ >= text_.size()) return std::nullopt;
      const auto text = text_.substr(begin, at_++ - begin);
      const auto behind = text_.find_first_not_of(kJsonBlanks, at_);
      const bool is_key = behind != std::string_view::npos && text_[behind] == ':';
      if (!is_key && depth_ <= keys_.size()) return text;
      if (is_key && depth_ > 0 && depth_ <= keys_.size()) {
        forget(depth_);
        keys_.at(depth_ - 1) = text;
      }
    }
    return std::nullopt;
  }

  // Forgets the keys below this depth.
  void forget(std::size_t depth) {
    for (auto i = depth; i < keys_.size(); ++i) keys_.at(i) = {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  std::array<std::string_view, 3> keys_;  // keys of the current value, outermost first
  Outline outline_;
};

}  // namespace

std::string mend_json(std::string_view text) {
  return Mender(text).mend();
}

Outline outline_of_event(std::string_view text) {
  return Outliner::read(text, kPlacesInEvent);
}

Outline outline_of_object(std::string_view text) {
  return Outliner::read(text, kPlacesInObject);
}

}  // namespace ipvsproxier::api
