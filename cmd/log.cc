#include "cmd/log.h"

#include <chrono>
#include <iterator>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <nlohmann/json.hpp>

namespace ipvsproxier::cmd {

namespace {

class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const std::chrono::duration<double, std::milli> since_1970 = message.time.time_since_epoch();
    const nlohmann::json text(std::string(message.payload.data(), message.payload.size()));
    const auto level = spdlog::level::to_string_view(message.level);
    fmt::format_to(std::back_inserter(line), R"({{"ts":{:.3f},"level":"{}","msg":{}}})",
                   since_1970.count(), std::string_view(level.data(), level.size()),
                   text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    line.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

}  // namespace

spdlog::logger make_logger(const LoggingConfig& logging) {
  spdlog::logger logger("ipvs-proxier", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (logging.format == "json") {
    logger.set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger.set_pattern("%Y-%m-%dT%H:%M:%S.%f%z %l: %v");
  }
  logger.set_level(logging.verbosity >= 4 ? spdlog::level::debug : spdlog::level::info);
  return logger;
}

std::size_t log_problems(const api::Problems& problems, spdlog::logger& logger) {
  std::size_t errors = 0;
  for (const auto& problem : problems) {
    const bool error = problem.severity == api::Severity::error;
    errors += error ? 1 : 0;
    logger.log(error ? spdlog::level::err : spdlog::level::warn, "{}", api::to_string(problem));
  }
  return errors;
}

void log_incomplete(const Options& options, spdlog::logger& logger) {
  logger.info("{}: not everything could be read: nothing is removed from the kernel",
              options.manifests);
}

}  // namespace ipvsproxier::cmd
