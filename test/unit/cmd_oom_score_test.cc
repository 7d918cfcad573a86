#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "cmd/ipvs_proxier/process.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::cmd {
namespace {

int current_score() {
  int score = 0;
  REQUIRE(std::ifstream("/proc/self/oom_score_adj") >> score);
  return score;
}

TEST_CASE("the OOM score is set, and left alone where it is right") {
  // More than before: anybody may.
  const int before = current_score();
  REQUIRE(set_oom_score_adj(before + 1));
  CHECK(current_score() == before + 1);
  REQUIRE(set_oom_score_adj(before));
  CHECK(current_score() == before);
}

TEST_CASE("an OOM score that cannot be set names the file") {
  const test::TempDir folder;
  const auto status = set_oom_score_adj(-999, folder.path());
  REQUIRE_FALSE(status);
  CHECK(status.error().kind == netlink::ErrorKind::missing);
  CHECK(status.error().where == "write -999 to " + (folder.path() / "oom_score_adj").string());
}

TEST_CASE("an OOM score that is right is not written") {
  const test::TempDir folder;
  std::ofstream(folder.path() / "oom_score_adj") << "-999\n";
  const auto file = folder.path() / "oom_score_adj";
  const auto written = std::filesystem::last_write_time(file) - std::chrono::hours(1);
  std::filesystem::last_write_time(file, written);
  REQUIRE(set_oom_score_adj(-999, folder.path()));
  CHECK(std::filesystem::last_write_time(file) == written);
}

}  // namespace
}  // namespace ipvsproxier::cmd
