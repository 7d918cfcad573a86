#include "cmd/log.h"

#include <chrono>
#include <ctime>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "proxier/api/document_writer.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::cmd {

namespace {

std::string bounded(const spdlog::details::log_msg& message) {
  const std::string_view text(message.payload.data(), message.payload.size());
  const auto head = api::head_of(text, kMostLogged);
  if (head.size() == text.size()) return std::string(text);
  return fmt::format("{}... ({} bytes more)", head, text.size() - head.size());
}

class VisibleMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& line) override {
    const auto text = api::visible(bounded(message));
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<VisibleMessage>();
  }
};

// spdlog's pattern formatter, with %* for the visible message.
std::unique_ptr<spdlog::formatter> lines_like(const std::string& pattern) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<VisibleMessage>('*').set_pattern(pattern);
  return formatter;
}

class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const std::chrono::duration<double, std::milli> since_1970 = message.time.time_since_epoch();
    const auto level = spdlog::level::to_string_view(message.level);
    fmt::format_to(std::back_inserter(line), R"({{"ts":{:.3f},"level":"{}","msg":{}}})",
                   since_1970.count(), std::string_view(level.data(), level.size()),
                   api::visible(api::json_quoted(bounded(message))));
    line.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

}  // namespace

spdlog::sink_ptr standard_error() {
  return std::make_shared<spdlog::sinks::stderr_sink_mt>();
}

spdlog::logger make_logger(const config::LoggingConfig& logging, spdlog::sink_ptr sink) {
  spdlog::logger logger("ipvs-proxier", std::move(sink));
  if (logging.format == "json") {
    logger.set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger.set_formatter(lines_like("%Y-%m-%dT%H:%M:%S.%f%z %l: %*"));
  }
  logger.set_level(logging.verbosity >= 4 ? spdlog::level::debug : spdlog::level::info);
  return logger;
}

spdlog::logger make_tool_logger(spdlog::level::level_enum from, spdlog::sink_ptr sink) {
  spdlog::logger logger("ipvsctl", std::move(sink));
  logger.set_level(from);
  logger.set_formatter(lines_like("ipvsctl: %*"));
  return logger;
}

spdlog::level::level_enum level_of(const api::Problem& problem) {
  return problem.severity == api::Severity::error ? spdlog::level::err : spdlog::level::warn;
}

std::size_t log_problems(const api::Problems& problems, spdlog::logger& logger) {
  std::size_t errors = 0;
  for (const auto& problem : problems) {
    errors += problem.severity == api::Severity::error ? 1 : 0;
    logger.log(level_of(problem), "{}", api::to_string(problem));
  }
  return errors;
}

void log_incomplete(const Options& options, spdlog::logger& logger) {
  logger.warn("{}: not everything could be read: nothing is removed from the kernel",
              options.manifests);
}

}  // namespace ipvsproxier::cmd
