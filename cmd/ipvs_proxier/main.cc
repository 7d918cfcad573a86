// Composition root of the daemon: connects options, object sources, kernel tables and reconciler.

#include <cstdio>
#include <optional>
#include <set>
#include <string>

#include <fmt/format.h>

#include "cmd/alike_nodes.h"
#include "cmd/check_node.h"
#include "cmd/ipvs_proxier/cleanup.h"
#include "cmd/ipvs_proxier/daemon.h"
#include "cmd/ipvs_proxier/process.h"
#include "cmd/kernel_tables.h"
#include "cmd/log.h"
#include "cmd/node_check.h"
#include "cmd/options.h"
#include "cmd/settings.h"
#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_table.h"
#include "proxier/api/visible_text.h"
#include "proxier/config/config_json.h"
#include "proxier/manifests/manifest_source.h"
#include "proxier/sync/host_setup.h"
#include "proxier/sync/reconciler.h"

namespace ipvsproxier::cmd {
namespace {

// Reads the manifests into `changes`.
std::size_t load_cluster(const Options& options, model::Changes& changes, spdlog::logger& logger) {
  auto manifests = manifests::load_manifests(options.manifests, options.node_name);
  changes = manifests::changes_of(manifests);
  if (!changes.node) {
    std::set<std::string> alike;
    note_alike_names(options.node_name, changes, alike);
    logger.warn("{}; going on without", no_node_text(options, manifests.other_nodes, alike));
  }
  const auto errors = log_problems(manifests.problems, logger);
  if (!manifests.complete) log_incomplete(options, logger);
  return errors;
}

// Programs the kernel once. Returns the exit status.
int run_once(const Options& options, spdlog::logger& logger) {
  sync::SyncInput input;
  const auto errors = load_cluster(options, input.changes, logger);
  const auto node = input.changes.node.value_or(std::nullopt);
  if (lacks_pod_cidrs(options, node, logger)) return 1;
  const auto opened = open_kernel_tables(options, logger);
  if (!opened) return 1;
  const auto& tables = *opened;
  const auto settings = host_reconciler_settings(options, tables, logger);
  confine_process(options.config, logger);
  if (!fits_node(options, settings.options.families, node, logger)) return 1;
  sync::Reconciler reconciler(tables.kernel(), settings, logger);
  reconciler.take(std::move(input));
  auto report = reconciler.run_to_end(std::chrono::steady_clock::now());
  report.problems += errors;
  logger.info("synced: {}", to_string(report));
  return report.complete() ? 0 : 1;
}

// Writes the configuration to a file. Returns the exit status.
int write_config(const Options& options, spdlog::logger& logger) {
  const auto wrong = config::write_config_file(options.write_config_to, options.config);
  if (!wrong.empty()) {
    logger.error("{}: {}", options.write_config_to, wrong);
    return 1;
  }
  logger.info("wrote the configuration to {}", options.write_config_to);
  return 0;
}

// Loads modules, sets sysctls and IPVS timeouts. Returns the exit status.
int init_host(const Options& options, spdlog::logger& logger) {
  const auto opened = open_kernel_tables(options, logger);
  if (!opened) return 1;
  const auto& tables = *opened;
  const auto settings = host_reconciler_settings(options, tables, logger);
  // The Node is not read in this mode.
  if (!fits_node(options, settings.options.families, std::nullopt, logger)) return 1;
  auto report = sync::prepare_host(*settings.host, *tables.ipvs);
  for (const auto family : settings.options.families)
    if (const auto usable = tables.family_usable(family); !usable)
      report.failures.push_back(
          sync::Failure{fmt::format("use {}", to_string(tables.chosen.filter)), usable.error()});
  for (const auto& what : report.written) logger.info("set {}", what);
  for (const auto& note : report.notes) logger.info("{}", note);
  for (const auto& warning : report.warnings)
    logger.warn("{}: {}", warning.what, netlink::to_string(warning.error));
  for (const auto& failure : report.failures)
    logger.error("{}: {}", failure.what, netlink::to_string(failure.error));
  return report.failures.empty() ? 0 : 1;
}

// Removes our kernel state. Returns the exit status.
int clean_kernel(const Options& options, spdlog::logger& logger) {
  const auto tables = open_loaded_tables();
  const auto programmed = open_programmed_filter();
  std::optional<ipset::NftRuleTable> nft_rules;
  std::optional<ipset::NftSetTable> nft_sets;
  if (programmed && programmed->filter == ipset::PacketFilter::nftables) {
    nft_rules.emplace(*programmed->nftables);
    nft_sets.emplace(*programmed->nftables);
  }
  auto report = clean_up({.ipvs = tables.ipvs.get(),
                          .links = tables.links.get(),
                          .sets = tables.sets.get(),
                          .rules = tables.rules.get(),
                          .nft_rules = nft_rules ? &*nft_rules : nullptr,
                          .nft_sets = nft_sets ? &*nft_sets : nullptr,
                          .nftables = programmed ? programmed->nftables.get() : nullptr},
                         {.excluded = config::exclude_prefixes(options.config),
                          .all_services = !options.differences.keep_foreign_services,
                          .kube_router = options.differences.take_over_kube_router});
  if (!programmed)
    report.failures.push_back({"find the table of nf_tables", programmed.error(), {}});
  for (const auto& failure : report.failures)
    logger.error("{}: {}", failure.what, netlink::to_string(failure.error));
  logger.info("removed {}, failures {}", to_string(report), report.failures.size());
  return report.failures.empty() ? 0 : 1;
}

// Returns the exit status.
int check(const Options& options, spdlog::logger& logger) {
  const auto report = check_node(options, options.json, logger);
  fmt::print("{}", report.text);
  return report.status;
}

int run(int argc, char** argv) {
  auto parsed = parse_options(argc, argv, host_name());
  if (const auto* exit = std::get_if<Exit>(&parsed)) {
    fmt::print(exit->status == 0 ? stdout : stderr, "{}", api::visible_lines(exit->text));
    return exit->status;
  }
  const auto& options = std::get<Options>(parsed);
  auto logger = make_logger(options.config.logging);
  log_problems(options.warnings, logger);
  if (!options.write_config_to.empty()) return write_config(options, logger);
  if (options.check) return check(options, logger);
  if (options.cleanup) return clean_kernel(options, logger);
  if (options.init_only) return init_host(options, logger);
  return options.once ? run_once(options, logger) : run_daemon(options, logger);
}

}  // namespace
}  // namespace ipvsproxier::cmd

int main(int argc, char** argv) {
  return ipvsproxier::cmd::run(argc, argv);
}
