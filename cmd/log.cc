#include "cmd/log.h"

#include <memory>

#include <spdlog/sinks/stdout_sinks.h>

namespace ipvsproxier::cmd {

spdlog::logger make_logger(std::uint32_t verbosity) {
  spdlog::logger logger("ipvs-proxier", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger.set_pattern("%Y-%m-%dT%H:%M:%S.%f%z %l: %v");
  logger.set_level(verbosity >= 4 ? spdlog::level::debug : spdlog::level::info);
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

void log_no_node(const Options& options, spdlog::logger& logger) {
  logger.info("{}: no Node {}: its zone, addresses and pod CIDRs are unknown; going on without",
              options.manifests, options.node_name);
}

void log_incomplete(const Options& options, spdlog::logger& logger) {
  logger.info("{}: not everything could be read: nothing is removed from the kernel",
              options.manifests);
}

void log_no_pod_cidrs(const Options& options, std::string_view consequence,
                      spdlog::logger& logger) {
  logger.error("{}: Node {}: spec.podCIDRs: missing, but detectLocalMode is NodeCIDR; {}",
               options.manifests, options.node_name, consequence);
}

}  // namespace ipvsproxier::cmd
