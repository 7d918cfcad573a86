#include "cmd/ipvs_proxier/servers.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "proxier/config/config_json.h"
#include "proxier/config/feature_gates.h"
#include "proxier/config/listen_address.h"
#include "proxier/serve/healthz.h"
#include "proxier/serve/metrics_server.h"

namespace ipvsproxier::cmd {

namespace {

constexpr std::chrono::seconds kBeat{5};

// An answer may have 35 MB (20,000 ports by kinds), and whoever reads it slowly keeps it here.
constexpr serve::HttpLimits kFiguresLimits{.connections = 4, .connections_per_listener = 4};

std::string_view stage_of(config::GateStage stage) {
  switch (stage) {
    case config::GateStage::alpha:
      return "ALPHA";
    case config::GateStage::beta:
      return "BETA";
    case config::GateStage::stable:
      return "";
  }
  return "";
}

}  // namespace

Servers::Servers(const Options& options, std::vector<netlink::Family> families,
                 loop::MainLoop& loop, serve::FiguresDesk* figures, watch::EventRecorder* events,
                 spdlog::logger& logger)
    : options_(options),
      families_(std::move(families)),
      loop_(loop),
      figures_(figures),
      events_(events),
      logger_(logger),
      status_({.sync_period = options.config.ipvs.sync_period,
               .max_watch_age = options.healthz_max_watch_age.value_or(config::Nanoseconds::zero()),
               .published = [this] { loop_.post([this] { update_service_health(); }); }}),
      metrics_({.families = families_, .version = IPVS_PROXIER_VERSION}),
      http_(logger) {
  for (const auto& gate : config::kFeatureGates)
    metrics_.feature(std::string(gate.name), std::string(stage_of(gate.stage)),
                     config::feature_enabled(options.config.feature_gates, gate.name));
  if (figures_ != nullptr) metrics_http_.emplace(logger, kFiguresLimits);
}

Servers::~Servers() {
  if (figures_ != nullptr) figures_->stop();
}

bool Servers::start() {
  beat();
  const auto& config = options_.config;
  const bool listening =
      listen(http_, {"health server", "FailedToStartProxierHealthcheck"},
             config.healthz_bind_address, serve::health_routes(status_, metrics_)) &&
      listen(metrics_http_ ? *metrics_http_ : http_,
             {"metrics server", "FailedToStartMetricServer"}, config.metrics_bind_address,
             serve::metrics_routes(metrics_, status_, config::config_json(config), figures_));
  if (listening) tell_node_event(watch::EventLevel::normal, "Starting", "");
  return listening;
}

bool Servers::listen(serve::HttpServer& server, const Listener& who, const std::string& address,
                     serve::HttpHandler handler) {
  const auto where = config::parse_listen_address(address);
  if (!where) return true;
  if (!options_.config.bind_address_hard_fail) {
    // keep_listening() logs the failure and tries again.
    static_cast<void>(server.keep_listening(who.name, *where, std::move(handler)));
    return true;
  }
  const auto listening = server.listen(*where, std::move(handler));
  if (listening) return true;
  const auto cause = fmt::format("{}: {}", who.name, netlink::to_string(listening.error()));
  logger_.error("{}; ending, for bindAddressHardFail is set", cause);
  tell_node_event(watch::EventLevel::warning, who.failure, cause);
  return false;
}

void Servers::tell_node_event(watch::EventLevel level, std::string reason, std::string note) {
  if (events_ == nullptr) return;
  events_->record({.regarding = {.kind = "Node", .ns = "", .name = options_.node_name},
                   .level = level,
                   .reason = std::move(reason),
                   .action = "StartKubeProxy",
                   .note = std::move(note)});
}

void Servers::tell_service_failure(const serve::NodePortHealth::Failure& failure) {
  if (events_ == nullptr) return;
  const auto& [ns, name] = failure.service;
  events_->record(
      {.regarding = {.kind = "Service", .ns = ns, .name = name},
       .level = watch::EventLevel::warning,
       .reason = "FailedToStartServiceHealthcheck",
       .action = "Listen",
       .note = fmt::format("node {} cannot answer for \"{}\" on healthCheckNodePort {}: {}",
                           options_.node_name, to_string(failure.service), failure.port,
                           netlink::to_string(failure.error))});
}

void Servers::note(const model::Changes& changes, const std::optional<api::Node>& node,
                   bool watched) {
  // After the Node's deletion the last report stays. Without an API server there may be no Node.
  if (node || !watched) status_.set_node_eligible(!node || !node->to_be_deleted);
  metrics_.services_changed(changes.services.size());
  metrics_.endpoint_slices_changed(changes.slices.size());
  const auto now = status_.now().wall;
  for (const auto family : families_) {
    status_.sync_requested(family);
    metrics_.sync_queued(family, now);
  }
}

void Servers::watch(std::function<std::vector<watch::WatchStatus>()> watches) {
  watches_ = std::move(watches);
}

void Servers::note_watch(serve::Resource resource, const watch::ReflectorStatus& now) {
  auto& seen = seen_.at(static_cast<std::size_t>(resource));
  if (now.heard != seen.heard) status_.watch_heard(resource);
  // The first watch and the first list are no restart and no relist.
  if (seen.watches == 0) seen.watches = std::min<std::uint64_t>(now.watches, 1);
  if (seen.lists == 0) seen.lists = std::min<std::uint64_t>(now.lists, 1);
  for (; seen.watches < now.watches; ++seen.watches) metrics_.watch_restarted(resource);
  for (; seen.lists < now.lists; ++seen.lists) metrics_.relisted(resource);
  seen.heard = now.heard;
  status_.watch_failing(resource, now.last_error);
  metrics_.objects_held(resource, now.objects);
  metrics_.objects_unreadable(resource, now.unreadable);
  status_.removal_held(resource, now.held);
  metrics_.removal_held(resource, now.held);
}

void Servers::beat() {
  status_.main_heartbeat().beat();
  const auto watches = watches_ ? watches_() : std::vector<watch::WatchStatus>{};
  for (const auto& [name, now] : watches)
    for (const auto resource : serve::kResources)
      if (serve::to_string(resource) == name) note_watch(resource, now);
  // A server that could not listen may be able to now.
  if (service_health_ && service_health_->any_failed()) update_service_health();
  loop_.at("heartbeat", loop_.now() + kBeat, [this] { beat(); });
}

void Servers::update_service_health() {
  const auto changes = status_.take_service_health();
  if (!service_health_) service_health_.emplace(http_, status_);
  std::set<std::string> told;
  for (const auto& failure : service_health_->update(changes)) {
    tell_service_failure(failure);
    auto line = fmt::format("Service {}: healthCheckNodePort {}: {}", to_string(failure.service),
                            failure.port, netlink::to_string(failure.error));
    if (!told_.contains(line))
      limit_.log(spdlog::level::warn,
                 fmt::format("{}; trying again every {} s", line, kBeat.count()), loop_.now(),
                 failure.service.ns);
    told.insert(std::move(line));
  }
  told_ = std::move(told);
}

}  // namespace ipvsproxier::cmd
