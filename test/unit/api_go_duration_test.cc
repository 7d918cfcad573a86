#include <catch2/catch.hpp>

#include "proxier/api/go_duration.h"

namespace ipvsproxier::api {
namespace {

TEST_CASE("durations parse and print as Go does it") {
  const auto [text, count, printed] = GENERATE(table<std::string, std::int64_t, std::string>({
      {"0", 0, "0s"},
      {"0s", 0, "0s"},
      {"30s", 30'000'000'000, "30s"},
      {"1m30s", 90'000'000'000, "1m30s"},
      {"24h", 86'400'000'000'000, "24h0m0s"},
      {"250ms", 250'000'000, "250ms"},
      {"1.5h", 5'400'000'000'000, "1h30m0s"},
      {"-10s", -10'000'000'000, "-10s"},
      {"+1.25s", 1'250'000'000, "1.25s"},
      {".5s", 500'000'000, "500ms"},
      {"1us", 1'000, "1\xc2\xb5s"},
      {"1\xc2\xb5s", 1'000, "1\xc2\xb5s"},
      {"7ns", 7, "7ns"},
      {"2562047h", 9'223'369'200'000'000'000, "2562047h0m0s"},
  }));
  CAPTURE(text);
  const auto duration = parse_go_duration(text);
  REQUIRE(duration);
  CHECK(duration->count() == count);
  CHECK(format_go_duration(*duration) == printed);
  CHECK(parse_go_duration(printed) == duration);
}

TEST_CASE("what is no duration is refused") {
  const std::string text = GENERATE("", "-", "30", "s", "1d", "1.2.3s", "3 s", "1s ", ".s",
                                    "99999999999999999999s", "2562048h", "1h-5m", "0x1s");
  CHECK_FALSE(parse_go_duration(text));
}

}  // namespace
}  // namespace ipvsproxier::api
