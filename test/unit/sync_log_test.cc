// What a person is told of syncs that could not do all.

#include "proxier/sync/sync_log.h"

#include <sstream>

#include <fmt/format.h>
#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>

namespace ipvsproxier::sync {
namespace {

class LogFixture {
 public:
  LogFixture()
      : sink_(std::make_shared<spdlog::sinks::ostream_sink_st>(text_)), logger_("log", sink_) {
    logger_.set_pattern("%l %v");
  }

  // One sync that finds these wrong.
  void sync(const std::vector<std::string>& wrong, int second) {
    SyncProblems problems;
    for (const auto& message : wrong)
      problems.problems.push_back({.severity = api::Severity::error, .message = message});
    log_.tell(problems, true, "",
              TimePoint() + std::chrono::hours(1) + std::chrono::seconds(second));
  }
  // What was told since the last call.
  std::vector<std::string> lines() {
    std::vector<std::string> lines;
    for (std::string line; std::getline(text_, line);) lines.push_back(line);
    text_.clear();
    return lines;
  }

 private:
  std::stringstream text_;
  std::shared_ptr<spdlog::sinks::sink> sink_;
  spdlog::logger logger_;
  SyncLog log_{logger_};
};

TEST_CASE_METHOD(LogFixture, "sync log: what is still so is told again after ten minutes") {
  sync({"a"}, 0);
  CHECK(lines() == std::vector<std::string>{"error a"});
  sync({"a", "b"}, 1);
  CHECK(lines() == std::vector<std::string>{"error b"});
  sync({"a", "b"}, 600);
  CHECK(lines() == std::vector<std::string>{"error a"});
}

TEST_CASE_METHOD(LogFixture, "sync log: problems that change each second are told sixty a minute") {
  for (int second = 0; second < 60; ++second) {
    std::vector<std::string> wrong;
    for (int i = 0; i < 100; ++i) wrong.push_back(fmt::format("{} of second {}", i, second));
    sync(wrong, second);
  }
  CHECK(lines().size() == loop::LineLimit::kMostInMinute);
  sync({"another"}, 60);
  CHECK(lines() ==
        std::vector<std::string>{"warning 5940 more problems of objects were left out of this log",
                                 "error another"});
}

}  // namespace
}  // namespace ipvsproxier::sync
