#include <catch2/catch.hpp>

#include "proxier/api/timestamp.h"

namespace ipvsproxier::api {
namespace {

TEST_CASE("RFC 3339 times are seconds since 1970") {
  const auto [text, seconds] = GENERATE(table<std::string, std::int64_t>({
      {"1970-01-01T00:00:00Z", 0},
      {"2026-11-20T22:19:50Z", 1795213190},
      {"2026-11-20T23:19:50.999+01:00", 1795213190},
      {"2026-11-20T16:49:50-05:30", 1795213190},
      {"2024-02-29T00:00:00Z", 1709164800},
      {"1969-12-31T23:59:59Z", -1},
  }));
  CHECK(parse_rfc3339(text) == seconds);
}

TEST_CASE("what is no time is refused") {
  const std::string text =
      GENERATE("", "2026-11-20", "2026-11-20T22:19:50", "2026-13-20T22:19:50Z",
               "2026-02-30T22:19:50Z", "2026-11-20T24:00:00Z", "2026-11-20T22:19:50.Z",
               "2026-11-20T22:19:50Zx", "2026-11-20 22:19:50Z", "-026-11-20T22:19:50Z", "26");
  CHECK_FALSE(parse_rfc3339(text));
}

TEST_CASE("RFC 3339 times keep their fraction") {
  using std::chrono::nanoseconds;
  const auto [text, since] = GENERATE(table<std::string, std::int64_t>({
      {"1970-01-01T00:00:01Z", 1'000'000'000},
      {"2026-11-20T22:19:50.000000001Z", 1'795'213'190'000'000'001},
      {"2026-11-20T23:19:50.5+01:00", 1'795'213'190'500'000'000},
      {"2026-11-20T22:19:50.1234567891234Z", 1'795'213'190'123'456'789},
      {"1969-12-31T23:59:59.75Z", -250'000'000},
  }));
  const auto time = parse_rfc3339_time(text);
  REQUIRE(time);
  CHECK(nanoseconds(time->time_since_epoch()).count() == since);
}

TEST_CASE("a time that does not fit is none") {
  CHECK_FALSE(parse_rfc3339_time("9999-12-31T23:59:59Z"));
  CHECK_FALSE(parse_rfc3339_time("0001-01-01T00:00:00Z"));
  CHECK_FALSE(parse_rfc3339_time("2026-11-20"));
  CHECK(parse_rfc3339("9999-12-31T23:59:59Z") == 253402300799);
}

TEST_CASE("a MicroTime has six digits, always") {
  const auto [text, micro] = GENERATE(table<std::string, std::string>({
      {"2026-11-20T22:19:50Z", "2026-11-20T22:19:50.000000Z"},
      {"2026-11-20T23:19:50.000123999+01:00", "2026-11-20T22:19:50.000123Z"},
      {"1969-12-31T23:59:59.75Z", "1969-12-31T23:59:59.750000Z"},
  }));
  CHECK(to_rfc3339_micro(*parse_rfc3339_time(text)) == micro);
}

}  // namespace
}  // namespace ipvsproxier::api
