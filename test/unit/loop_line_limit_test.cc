#include "proxier/loop/line_limit.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>
#include <string>

#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>

namespace ipvsproxier::loop {
namespace {

using namespace std::chrono_literals;

TEST_CASE("lines of objects: so many a minute, with room for errors, and how many were left out") {
  std::ostringstream text;
  spdlog::logger logger("log", std::make_shared<spdlog::sinks::ostream_sink_st>(text));
  logger.set_pattern("%l %v");
  LineLimit limit(logger, "services: ");
  const auto log = [&](std::size_t count, spdlog::level::level_enum level,
                       LineLimit::TimePoint now) {
    for (std::size_t i = 0; i < count; ++i) limit.log(level, "x", now);
  };
  const auto lines = [&] {
    const auto all = text.str();
    text.str("");
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), '\n'));
  };
  LineLimit::TimePoint now{1h};
  log(100, spdlog::level::info, now);
  CHECK(lines() == LineLimit::kMostWarnings);
  log(100, spdlog::level::warn, now + 59s);
  CHECK(lines() == 0);
  log(100, spdlog::level::err, now + 59s);
  CHECK(lines() == LineLimit::kMostInMinute - LineLimit::kMostWarnings);
  log(1, spdlog::level::info, now + 60s);
  const std::string said = text.str();
  CHECK(said ==
        "warning services: 240 more problems of objects were left out of this log\ninfo x\n");
}

TEST_CASE("lines of objects: one namespace gets half of what the others leave") {
  spdlog::logger logger("log");
  LineLimit limit(logger);
  const LineLimit::TimePoint now{1h};
  const auto admitted = [&](const char* owner) {
    std::size_t count = 0;
    for (int i = 0; i < 1000; ++i) count += limit.admits(now, true, owner) ? 1 : 0;
    return count;
  };
  CHECK(admitted("loud") == 30);
  CHECK(admitted("other") == 15);
  CHECK(admitted("loud") == 0);
  CHECK(admitted("third") == 8);
  CHECK(admitted("") == 7);
  CHECK_FALSE(limit.admits(now, true, "fourth"));
  CHECK(limit.admits(now + 1min, true, "loud"));
}

}  // namespace
}  // namespace ipvsproxier::loop
