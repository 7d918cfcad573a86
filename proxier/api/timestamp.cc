#include "proxier/api/timestamp.h"

#include <charconv>
#include <chrono>
#include <cstddef>

namespace ipvsproxier::api {

namespace {

// Takes pieces off the front; once something does not fit, ok() stays false.
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

  void fraction() {
    if (!take('.')) return;
    const auto digits = std::min(text_.find_first_not_of("0123456789"), text_.size());
    ok_ = ok_ && digits > 0;
    text_.remove_prefix(digits);
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

}  // namespace

std::optional<std::int64_t> parse_rfc3339(std::string_view text) {
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
  scanner.fraction();
  const minutes zone = scanner.zone();
  const year_month_day date(in_year, in_month, on_day);
  if (!scanner.ok_at_end() || !date.ok()) return std::nullopt;
  const seconds since_epoch = sys_days(date).time_since_epoch() + hour + minute + second - zone;
  return since_epoch.count();
}

}  // namespace ipvsproxier::api
