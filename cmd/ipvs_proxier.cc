// Composition root of the daemon: options -> objects, kernel tables -> reconciler.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "cmd/kernel_tables.h"
#include "cmd/options.h"
#include "cmd/settings.h"
#include "proxier/sync/reconciler.h"
#include "proxier/watch/manifest_source.h"

namespace ipvsproxier::cmd {
namespace {

// klog's verbosity as spdlog's levels: from 4 on every operation is told.
spdlog::logger make_logger(std::uint32_t verbosity) {
  spdlog::logger logger("ipvs-proxier", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger.set_pattern("%Y-%m-%dT%H:%M:%S.%f%z %l: %v");
  logger.set_level(verbosity >= 4 ? spdlog::level::debug : spdlog::level::info);
  return logger;
}

// The number of errors.
std::size_t log_problems(const api::Problems& problems, spdlog::logger& logger) {
  std::size_t errors = 0;
  for (const auto& problem : problems) {
    const bool error = problem.severity == api::Severity::error;
    errors += error ? 1 : 0;
    logger.log(error ? spdlog::level::err : spdlog::level::warn, "{}", api::to_string(problem));
  }
  return errors;
}

// files -> objects -> ClusterState
std::size_t load_cluster(const Options& options, model::ClusterState& cluster,
                         spdlog::logger& logger) {
  auto manifests = watch::load_manifests(options.manifests, options.node_name);
  for (auto& object : manifests.objects) cluster.put(std::move(object));
  cluster.complete = manifests.complete;
  if (!cluster.node)
    logger.info("{}: no Node {}: its zone, addresses and pod CIDRs are unknown; going on without",
                options.manifests, options.node_name);
  const auto errors = log_problems(manifests.problems, logger);
  if (!cluster.complete)
    logger.info("{}: not everything could be read: nothing is removed from the kernel",
                options.manifests);
  return errors;
}

std::size_t log_host(const sync::HostReport& report, spdlog::logger& logger) {
  for (const auto& warning : report.warnings)
    logger.warn("{}: {}; going on without", warning.what, netlink::to_string(warning.error));
  for (const auto& failure : report.failures)
    logger.error("{}: {}", failure.what, netlink::to_string(failure.error));
  return report.failures.size();
}

unsigned online_cpus() {
  return static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

// Where pods of this node are told by its pod CIDRs, rules without these would be wrong.
bool lacks_pod_cidrs(const Options& options, const model::ClusterState& cluster) {
  return options.config.detect_local_mode == "NodeCIDR" &&
         (!cluster.node || cluster.node->pod_cidrs.empty());
}

// ClusterState + kernel tables -> the kernel programmed. The exit status.
int run_once(const Options& options, spdlog::logger& logger) {
  model::ClusterState cluster;
  std::size_t failures = log_problems(options.warnings, logger);
  failures += load_cluster(options, cluster, logger);
  if (lacks_pod_cidrs(options, cluster)) {
    logger.error(
        "{}: Node {}: spec.podCIDRs: missing, but detectLocalMode is NodeCIDR; nothing "
        "is programmed",
        options.manifests, options.node_name);
    return 1;
  }

  const auto tables = open_kernel_tables();
  std::string why_not_ipv6;
  const auto families = supported_families(*tables.rules, why_not_ipv6);
  if (!why_not_ipv6.empty()) logger.info("IPv6 is left out: {}", why_not_ipv6);
  const auto host =
      sync::prepare_host(host_settings(options.config), {}, online_cpus(), *tables.ipvs);
  failures += log_host(host, logger);

  sync::Reconciler reconciler(tables.kernel(), logger);
  const auto report = reconciler.sync({.cluster = cluster,
                                       .node_name = options.node_name,
                                       .bind_address = node_ip_override(options.config),
                                       .options = planner_options(options, families),
                                       .config_origin = options.config_file});
  failures += report.problems + report.failures;
  const auto& written = report.written;
  logger.info(
      "synced: ipvs {}, links {}, addresses {}, elements {}, sets {}, rule tables {}, sysctls {}, "
      "failures {}",
      written.ipvs, written.links, written.addresses, written.elements, written.sets,
      written.rule_tables, host.written, failures);
  return failures == 0 ? 0 : 1;
}

int run(int argc, char** argv) {
  auto parsed = parse_options(argc, argv, host_name());
  if (const auto* exit = std::get_if<Exit>(&parsed)) {
    fmt::print(exit->status == 0 ? stdout : stderr, "{}", exit->text);
    return exit->status;
  }
  const auto& options = std::get<Options>(parsed);
  auto logger = make_logger(options.verbosity);
  return run_once(options, logger);
}

}  // namespace
}  // namespace ipvsproxier::cmd

int main(int argc, char** argv) {
  return ipvsproxier::cmd::run(argc, argv);
}
