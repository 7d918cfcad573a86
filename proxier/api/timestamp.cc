#include "proxier/api/timestamp.h"

#include <ctime>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

#include <fmt/format.h>

namespace ipvsproxier::api {

namespace {

// Reads parts from the front; after a mismatch ok() stays false.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  int number(std::size_t digits, int largest) {
    int value = 0;
    const auto piece = text_.substr(0, digits);
    const auto [end, error] = std::from_chars(piece.data(), piece.data() + piece.size(), value);
    ok_ = ok_ && piece.size() == digits && error == std::errc{} && piece[0] != '-' &&
          end == piece.data() + digits && value <= largest;
    text_.remove_prefix(piece.size());
    return value;
  }

  void expect(char wanted) { ok_ = take(wanted) && ok_; }

  bool take(char wanted) {
    if (text_.empty() || text_[0] != wanted) return false;
    text_.remove_prefix(1);
    return true;
  }

  // Further digits are dropped.
  std::chrono::nanoseconds fraction() {
    if (!take('.')) return {};
    const auto digits = std::min(text_.find_first_not_of("0123456789"), text_.size());
    ok_ = ok_ && digits > 0;
    std::int64_t value = 0;
    for (std::size_t i = 0; i < 9; ++i) value = value * 10 + (i < digits ? text_[i] - '0' : 0);
    text_.remove_prefix(digits);
    return std::chrono::nanoseconds(value);
  }

  std::chrono::minutes zone() {
    if (take('Z')) return std::chrono::minutes(0);
    const bool west = take('-');
    if (!west) expect('+');
    const std::chrono::hours hours(number(2, 23));
    expect(':');
    const auto offset = hours + std::chrono::minutes(number(2, 59));
    return west ? -offset : offset;
  }

  bool ok_at_end() const { return ok_ && text_.empty(); }

 private:
  std::string_view text_;
  bool ok_ = true;
};

struct Moment {
  std::chrono::seconds since_epoch;
  std::chrono::nanoseconds fraction;
};

std::optional<Moment> parse(std::string_view text) {
  using namespace std::chrono;
  Scanner scanner(text);
  const year in_year(scanner.number(4, 9999));
  scanner.expect('-');
  const month in_month(static_cast<unsigned>(scanner.number(2, 12)));
  scanner.expect('-');
  const day on_day(static_cast<unsigned>(scanner.number(2, 31)));
  scanner.expect('T');
  const hours hour(scanner.number(2, 23));
  scanner.expect(':');
  const minutes minute(scanner.number(2, 59));
  scanner.expect(':');
  const seconds second(scanner.number(2, 60));  // 60: a leap second
  const auto fraction = scanner.fraction();
  const minutes zone = scanner.zone();
  const year_month_day date(in_year, in_month, on_day);
  if (!scanner.ok_at_end() || !date.ok()) return std::nullopt;
  return Moment{sys_days(date).time_since_epoch() + hour + minute + second - zone, fraction};
}

}  // namespace

std::optional<std::int64_t> parse_rfc3339(std::string_view text) {
  const auto moment = parse(text);
  return moment ? std::optional(moment->since_epoch.count()) : std::nullopt;
}

std::optional<std::chrono::system_clock::time_point> parse_rfc3339_time(std::string_view text) {
  using std::chrono::hours;
  using std::chrono::system_clock;
  // One day less than 64 bits of nanoseconds, in both directions.
  constexpr auto kReach =
      std::chrono::duration_cast<hours>(system_clock::duration::max()) - hours(24);
  const auto moment = parse(text);
  if (!moment || moment->since_epoch > kReach || moment->since_epoch < -kReach) return std::nullopt;
  return system_clock::time_point(
      std::chrono::duration_cast<system_clock::duration>(moment->since_epoch + moment->fraction));
}

std::string to_rfc3339(std::int64_t since_1970) {
  const auto time = static_cast<std::time_t>(since_1970);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string to_rfc3339_micro(std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  const auto rounded = floor<microseconds>(time);
  const auto day = floor<days>(rounded);
  const year_month_day date(day);
  const hh_mm_ss clock(rounded - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

}  // namespace ipvsproxier::api
