#include "cmd/ipvsctl_options.h"

#include <sstream>
#include <vector>

#include <catch2/catch.hpp>

namespace ipvsproxier::cmd {
namespace {

struct Answer {
  CtlCommandLine line;
  std::string out;
  std::string err;
};

Answer parse(std::vector<const char*> words) {
  words.insert(words.begin(), "ipvsctl");
  std::ostringstream out;
  std::ostringstream err;
  auto line = parse_ctl_options(static_cast<int>(words.size()), words.data(), out, err);
  return {line, out.str(), err.str()};
}

TEST_CASE("ipvsctl list -o save is understood") {
  const auto answer = parse({"list", "-o", "save"});
  REQUIRE(answer.line.options);
  CHECK(answer.line.options->format == ListFormat::save);
  CHECK(parse({"list", "--output=save"}).line.options);
}

TEST_CASE("ipvsctl answers --version and --help with status 0") {
  const auto version = parse({"--version"});
  CHECK_FALSE(version.line.options);
  CHECK(version.line.status == 0);
  CHECK(version.out == "ipvsctl " IPVS_PROXIER_VERSION "\n");
  const auto help = parse({"--help"});
  CHECK(help.line.status == 0);
  CHECK(help.out.find("list") != std::string::npos);
}

TEST_CASE("ipvsctl refuses what it does not know with status 2") {
  const auto answer = GENERATE(as<Answer>{}, parse({}), parse({"list"}), parse({"explain"}),
                               parse({"list", "-o", "wide"}), parse({"--frobnicate"}));
  CHECK_FALSE(answer.line.options);
  CHECK(answer.line.status == 2);
  CHECK(answer.out.empty());
  CHECK_FALSE(answer.err.empty());
}

}  // namespace
}  // namespace ipvsproxier::cmd
