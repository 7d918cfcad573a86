#include "cmd/node_check.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "cmd/alike_nodes.h"
#include "cmd/log.h"
#include "netlink/links/link_kernel.h"
#include "proxier/config/config_warnings.h"

namespace ipvsproxier::cmd {

namespace {

constexpr const char* kWait = "pod CIDRs";

std::string_view source_of(const Options& options) {
  return options.manifests.empty() ? std::string_view("API server") : options.manifests;
}

bool needs_pod_cidrs(const Options& options) {
  return options.config.detect_local_mode == "NodeCIDR";
}

void log_no_pod_cidrs(const Options& options, std::string_view consequence,
                      spdlog::logger& logger) {
  logger.error("{}: Node {}: spec.podCIDRs: missing, but detectLocalMode is NodeCIDR; {}",
               source_of(options), options.node_name, consequence);
}

// Without those of Services, which may be addresses of other Nodes.
std::set<netlink::IpAddress> host_addresses() {
  std::set<netlink::IpAddress> own;
  const auto links = netlink::KernelLinkTable::open();
  const auto listed = links
                          ? (*links)->list_addresses()
                          : netlink::Result<std::vector<netlink::InterfaceAddress>>(links.error());
  if (!listed) return own;
  for (const auto& one : *listed)
    if (!one.on_dummy) own.insert(one.address);
  return own;
}

std::string listed(const std::vector<netlink::IpPrefix>& prefixes) {
  std::string text;
  for (const auto& prefix : prefixes) text += (text.empty() ? "" : ", ") + prefix.to_string();
  return text;
}

}  // namespace

bool fits_node(const Options& options, const std::vector<netlink::Family>& families,
               const std::optional<api::Node>& node, spdlog::logger& logger) {
  auto warnings = config::config_warnings(
      options.config, config::node_families(options.config, families, node), options.config_file);
  if (options.init_only)
    std::erase_if(warnings,
                  [](const auto& warning) { return warning.severity != api::Severity::error; });
  if (log_problems(warnings, logger) == 0) return true;
  logger.error("the configuration does not fit this node: ending; nothing was programmed");
  return false;
}

std::string no_node_text(const Options& options, const std::vector<api::Node>& others,
                         const std::set<std::string>& named) {
  const auto own = others.empty() ? std::set<netlink::IpAddress>() : host_addresses();
  const auto alike = alike_nodes(options.node_name, own, others, named);
  return fmt::format(
      "{}: no Node {}: no endpoint counts as one of this node, so Services of policy Local have "
      "none "
      "here, and its zone, addresses and pod CIDRs are unknown; {}",
      source_of(options), options.node_name,
      alike.empty()
          ? std::string("hostnameOverride names the Node")
          : fmt::format("alike: {} (hostnameOverride names the Node)", fmt::join(alike, ", ")));
}

bool lacks_pod_cidrs(const Options& options, const std::optional<api::Node>& node,
                     spdlog::logger& logger) {
  if (!needs_pod_cidrs(options) || (node && !node->pod_cidrs.empty())) return false;
  log_no_pod_cidrs(options, "nothing is programmed", logger);
  return true;
}

PodCidrs::PodCidrs(const Options& options, loop::Timers& timers, spdlog::logger& logger,
                   std::function<void()> on_timeout)
    : options_(options), timers_(timers), logger_(logger), on_timeout_(std::move(on_timeout)) {}

PodCidrs::~PodCidrs() {
  timers_.cancel(kWait);
}

PodCidrs::Verdict PodCidrs::see(const std::optional<api::Node>& node) {
  if (!needs_pod_cidrs(options_)) return Verdict::good;
  if (!node || node->pod_cidrs.empty()) {
    if (used_.empty()) {
      wait();
      return Verdict::wait;
    }
    if (!std::exchange(lacking_, true) && limit_.admits(timers_.now(), true))
      log_no_pod_cidrs(options_, "the Node stays as it was last seen", logger_);
    return Verdict::keep_old;
  }
  lacking_ = false;
  if (used_.empty()) {
    timers_.cancel(kWait);
    used_ = node->pod_cidrs;
  }
  if (node->pod_cidrs == used_) return Verdict::good;
  logger_.error(
      "{}: Node {}: spec.podCIDRs changed from {} to {}, and detectLocalMode is NodeCIDR: ending, "
      "to be started again with them; the kernel stays as it is",
      source_of(options_), options_.node_name, listed(used_), listed(node->pod_cidrs));
  return Verdict::end;
}

void PodCidrs::wait() {
  if (std::exchange(waiting_, true)) return;
  log_no_pod_cidrs(options_, "nothing is programmed until it is there", logger_);
  timers_.at(kWait, timers_.now() + kLongestWait, [this] {
    logger_.error("Node {}: no spec.podCIDRs after {} minutes: ending; nothing was programmed",
                  options_.node_name, kLongestWait.count());
    on_timeout_();
  });
}

}  // namespace ipvsproxier::cmd
