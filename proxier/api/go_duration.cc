#include "proxier/api/go_duration.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

namespace ipvsproxier::api {

namespace {

struct Unit {
  std::string_view name;
  std::int64_t nanoseconds;
};

constexpr std::int64_t kMicro = 1'000;
constexpr std::int64_t kMilli = 1'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

// Longer names come before their prefixes.
constexpr std::array<Unit, 8> kUnits = {{
    {"ns", 1},
    {"us", kMicro},
    {"\xc2\xb5s", kMicro},  // micro sign
    {"\xce\xbcs", kMicro},  // Greek mu
    {"ms", kMilli},
    {"s", kSecond},
    {"m", 60 * kSecond},
    {"h", 3600 * kSecond},
}};

// Digits with at most one point: the whole part and the fraction.
struct Number {
  std::int64_t whole = 0;
  double fraction = 0;
};

std::optional<Number> take_decimal(std::string_view& text) {
  Number number;
  double scale = 1;
  bool point = false;
  bool any = false;
  for (; !text.empty(); text.remove_prefix(1)) {
    const char c = text[0];
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    any = true;
    if (point) {
      scale /= 10;
      number.fraction += scale * (c - '0');
    } else if (__builtin_mul_overflow(number.whole, 10, &number.whole) ||
               __builtin_add_overflow(number.whole, c - '0', &number.whole)) {
      return std::nullopt;
    }
  }
  if (!any) return std::nullopt;
  return number;
}

std::int64_t take_unit(std::string_view& text) {
  for (const auto& unit : kUnits) {
    if (text.substr(0, unit.name.size()) != unit.name) continue;
    text.remove_prefix(unit.name.size());
    return unit.nanoseconds;
  }
  return 0;
}

// A number of units without trailing zeros: 1500 of unit 1000 is 1.5.
std::string with_fraction(std::uint64_t value, std::uint64_t unit) {
  std::string text = std::to_string(value / unit);
  std::string fraction = std::to_string(unit + value % unit).substr(1);
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  return fraction.empty() ? text : text + "." + fraction;
}

}  // namespace

std::optional<std::chrono::nanoseconds> parse_go_duration(std::string_view text) {
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (text == "0") return std::chrono::nanoseconds(0);
  if (text.empty()) return std::nullopt;
  std::int64_t total = 0;
  while (!text.empty()) {
    const auto number = take_decimal(text);
    const std::int64_t unit = take_unit(text);
    if (!number || unit == 0) return std::nullopt;
    std::int64_t piece = 0;
    const std::int64_t part = std::llround(number->fraction * static_cast<double>(unit));
    if (__builtin_mul_overflow(number->whole, unit, &piece) ||
        __builtin_add_overflow(piece, part, &piece) || __builtin_add_overflow(total, piece, &total))
      return std::nullopt;
  }
  return std::chrono::nanoseconds(negative ? -total : total);
}

std::string format_go_duration(std::chrono::nanoseconds duration) {
  const std::int64_t count = duration.count();
  if (count == 0) return "0s";
  const std::string sign = count < 0 ? "-" : "";
  const auto size =
      count < 0 ? ~static_cast<std::uint64_t>(count) + 1 : static_cast<std::uint64_t>(count);
  if (size < kMicro) return fmt::format("{}{}ns", sign, size);
  if (size < kMilli) return sign + with_fraction(size, kMicro) + "\xc2\xb5s";
  if (size < kSecond) return sign + with_fraction(size, kMilli) + "ms";
  constexpr std::uint64_t kMinute = 60 * std::uint64_t{kSecond};
  std::string text = with_fraction(size % kMinute, kSecond) + "s";
  const std::uint64_t minutes = size / kMinute;
  if (minutes > 0) text = fmt::format("{}m{}", minutes % 60, text);
  if (minutes >= 60) text = fmt::format("{}h{}", minutes / 60, text);
  return sign + text;
}

}  // namespace ipvsproxier::api
