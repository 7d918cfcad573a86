#include "proxier/api/yaml_scalar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace ipvsproxier::api {

namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 5> kNulls = {"", "~", "null", "Null", "NULL"};
constexpr std::array<std::string_view, 11> kTrues = {"y",    "Y",    "yes", "Yes", "YES", "true",
                                                     "True", "TRUE", "on",  "On",  "ON"};
constexpr std::array<std::string_view, 11> kFalses = {"n",     "N",     "no",  "No",  "NO", "false",
                                                      "False", "FALSE", "off", "Off", "OFF"};

template <std::size_t kSize>
bool is_one_of(const std::array<std::string_view, kSize>& words, std::string_view text) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Removes a prefix (0x, 0b, 0o, or the 0 of YAML 1.1's octal numbers) and returns the base.
int take_base(std::string_view& digits) {
  if (digits.size() < 2 || digits[0] != '0') return 10;
  const char letter = static_cast<char>(digits[1] | 0x20);
  const int base = letter == 'x' ? 16 : letter == 'b' ? 2 : letter == 'o' ? 8 : 0;
  digits.remove_prefix(base == 0 ? 1 : 2);
  return base == 0 ? 8 : base;
}

std::optional<Json> parse_integer(std::string_view text) {
  const bool negative = !text.empty() && text[0] == '-';
  std::string_view digits = text;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  const int base = take_base(digits);
  if (digits.empty()) return std::nullopt;
  std::uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
  if (!negative) return magnitude > kLargest ? Json(magnitude) : Json(std::int64_t(magnitude));
  if (magnitude > kLargest + 1) return std::nullopt;
  return Json(static_cast<std::int64_t>(~magnitude + 1));
}

// [-+]? ( . digits | digits ( . digits? )? ) ( [eE] [-+]? digits )?
bool looks_like_float(std::string_view text) {
  const auto skip_sign = [&text] {
    if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  };
  const auto take_digits = [&text] {
    std::size_t count = 0;
    while (count < text.size() && is_digit(text[count])) ++count;
    text.remove_prefix(count);
    return count;
  };
  skip_sign();
  std::size_t digits = take_digits();
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    digits += take_digits();
  }
  if (digits == 0) return false;
  if (!text.empty() && (text[0] | 0x20) == 'e') {
    text.remove_prefix(1);
    skip_sign();
    if (take_digits() == 0) return false;
  }
  return text.empty();
}

std::optional<Json> parse_float(std::string_view text) {
  if (!looks_like_float(text)) return std::nullopt;
  if (text[0] == '+') text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number)) return std::nullopt;
  return Json(number);
}

std::optional<Json> parse_number(std::string_view text) {
  const bool may_be =
      !text.empty() && (is_digit(text[0]) || text[0] == '-' || text[0] == '+' || text[0] == '.');
  if (!may_be) return std::nullopt;
  std::string plain(text);
  std::erase(plain, '_');
  auto number = parse_integer(plain);
  return number ? number : parse_float(plain);
}

}  // namespace

Json resolve_plain_scalar(std::string_view text) {
  if (is_one_of(kNulls, text)) return nullptr;
  if (is_one_of(kTrues, text)) return true;
  if (is_one_of(kFalses, text)) return false;
  auto number = parse_number(text);
  return number ? *std::move(number) : Json(std::string(text));
}

std::optional<Json> resolve_tagged_scalar(std::string_view tag, std::string_view text) {
  constexpr std::string_view kStandard = "tag:yaml.org,2002:";
  if (tag.substr(0, kStandard.size()) != kStandard) return std::nullopt;
  tag.remove_prefix(kStandard.size());
  if (tag == "str" || tag == "timestamp") return Json(std::string(text));
  Json plain = resolve_plain_scalar(text);
  const bool fits = (tag == "int" && plain.is_number_integer()) ||
                    (tag == "float" && plain.is_number()) ||
                    (tag == "bool" && plain.is_boolean()) || (tag == "null" && plain.is_null());
  if (!fits) return std::nullopt;
  return plain;
}

}  // namespace ipvsproxier::api
