#include "cmd/log.h"

#include <sstream>

#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace ipvsproxier::cmd {
namespace {

// What a logger of this format writes of a message.
std::string logged(const std::string& format, const std::string& message) {
  std::ostringstream written;
  config::LoggingConfig logging;
  logging.format = format;
  auto logger = make_logger(logging, std::make_shared<spdlog::sinks::ostream_sink_mt>(written));
  logger.info("{}", message);
  logger.flush();
  return written.str();
}

TEST_CASE("log: a name forges no line and is no command to a terminal") {
  const auto line = logged("text", "Service a/b\n2026 error: forged\x1b[2J\xc2\x9bq\xfc\x7f");
  CHECK(line.substr(line.find(" info: ")) ==
        " info: Service a/b\\n2026 error: forged\\u001b[2J\\u009bq\\xfc\\u007f\n");
}

TEST_CASE("log: as JSON a message stays what it is, on one line of ASCII or visible text") {
  const auto line = logged("json", "a\nb\x1b\xc2\x9b\x7f\xe2\x80\xae \xc3\xbc \xfc");
  CHECK(line.find("\"msg\":\"a\\nb\\u001b\\u009b\\u007f\\u202e \xc3\xbc \xef\xbf\xbd\"}\n") !=
        std::string::npos);
  CHECK(nlohmann::json::parse(line)["msg"] ==
        "a\nb\x1b\xc2\x9b\x7f\xe2\x80\xae \xc3\xbc \xef\xbf\xbd");
}

TEST_CASE("log: no message fills the disk") {
  for (const std::string format : {"text", "json"}) {
    const auto line = logged(format, std::string(1 << 20, 'x'));
    CHECK(line.size() < kMostLogged + 200);
    CHECK(line.find("x... (1032192 bytes more)") != std::string::npos);
    // It is cut between two characters.
    CHECK(logged(format, std::string(kMostLogged - 1, 'x') + "\xc3\xbc")
              .find("x... (2 bytes more)") != std::string::npos);
    CHECK(logged(format, std::string(kMostLogged, 'x')).find("more") == std::string::npos);
  }
}

TEST_CASE("log: what ipvsctl says on the way is as visible") {
  std::ostringstream written;
  auto logger = make_tool_logger(spdlog::level::warn,
                                 std::make_shared<spdlog::sinks::ostream_sink_mt>(written));
  logger.info("nothing");
  logger.warn("{}", "Service a/b\x1b]0;\n");
  CHECK(written.str() == "ipvsctl: Service a/b\\u001b]0;\\n\n");
}

}  // namespace
}  // namespace ipvsproxier::cmd
