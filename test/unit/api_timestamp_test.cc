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

}  // namespace
}  // namespace ipvsproxier::api
