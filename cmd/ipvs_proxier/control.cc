#include "cmd/ipvs_proxier/control.h"

#include <unistd.h>

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cmd/ipvs_proxier/control_service.h"
#include "proxier/api/json_text.h"
#include "proxier/config/config_json.h"
#include "proxier/inspect/name_page.h"
#include "proxier/inspect/object_page.h"
#include "proxier/serve/healthz.h"
#include "proxier/serve/listen_socket.h"

namespace ipvsproxier::cmd {

namespace {

using Json = nlohmann::json;

constexpr serve::HttpLimits kLimits{
    .connections = 8, .connections_per_listener = 8, .silence = std::chrono::seconds(10)};
// How long a request waits for the end of a sync; a first sync may take longer.
constexpr std::chrono::seconds kPatience{10};
// About 2 ms of the sync thread's time.
constexpr std::size_t kPageBytes = std::size_t{64} * 1024;
constexpr std::size_t kUnreadableTold = 20;
constexpr std::size_t kRefusedShown = 50;
constexpr std::size_t kNamePageBytes = std::size_t{256} * 1024;

serve::HttpResponse mistake(unsigned status, const std::string& text) {
  return serve::json_text(status, api::to_json_text(Json{{"error", text}}));
}

std::optional<std::string> query_of(const serve::HttpRequest& request, const std::string& key) {
  const auto it = request.query.find(key);
  return it == request.query.end() ? std::nullopt : std::optional(it->second);
}

std::optional<api::ObjectKind> parse_kind(const std::string& text) {
  using enum api::ObjectKind;
  for (const auto kind : {service, endpoint_slice, node})
    if (api::to_string(kind) == text) return kind;
  return std::nullopt;
}

// Parses the query; returns a description of a mistake, or "".
std::string read_query(const serve::HttpRequest& request, inspect::ServiceQuery& query) {
  query.ns = query_of(request, "namespace");
  if (const auto text = query_of(request, "service")) {
    query.service = inspect::parse_service_name(*text);
    if (!query.service) return "service must be NAMESPACE/NAME";
  }
  if (const auto text = query_of(request, "after")) {
    query.after = inspect::parse_page_end(*text);
    if (!query.after) return "after must be NAMESPACE/NAME or NAMESPACE/NAME/SLICE";
  }
  return "";
}

std::string settings_of(const Options& options) {
  return api::to_json_text(Json{
      {"version", IPVS_PROXIER_VERSION},
      {"node", options.node_name},
      {"flags", options.flags},
      {"config", Json::parse(config::config_json(options.config)).at("kubeproxy.config.k8s.io")}});
}

Json time_or_null(const std::optional<std::chrono::system_clock::time_point>& time) {
  return time ? Json(serve::go_time(time)) : Json(nullptr);
}

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// The current problems, one line each.
std::vector<std::string> wrong_lines(const sync::Inspection& inspection) {
  auto lines = inspection.standing.wrong;
  const auto& unreadable = inspection.cluster.unreadable;
  std::size_t told = 0;
  for (auto it = unreadable.begin(); it != unreadable.end() && told < kUnreadableTold; ++it, ++told)
    lines.push_back(it->second);
  if (unreadable.size() > told)
    lines.push_back(fmt::format("{} more objects cannot be read", unreadable.size() - told));
  return lines;
}

// Adds the problems that the main thread knows.
void add_held(const serve::Status& status, Json& wrong) {
  for (const auto resource : serve::kResources)
    if (const auto held = status.removal_held(resource); held > 0)
      wrong.push_back(
          fmt::format("{} {} are missing from the API server's list; they stay until another list "
                      "lacks them, too (--mass-removal-brake)",
                      held, to_string(resource)));
}

// The first refusals.
Json refused_json(const sync::Refusals& refusals) {
  auto list = Json::array();
  for (const auto& [thing, entry] : refusals.all()) {
    if (list.size() == kRefusedShown) break;
    list.push_back(to_string(entry));
  }
  return list;
}

// Runs on the sync thread.
std::string sync_json(const sync::Inspection& inspection) {
  const auto& standing = inspection.standing;
  const auto& desired = inspection.planner.desired();
  std::size_t slices = 0;
  for (const auto& [service, own] : inspection.cluster.slices) slices += own.size();
  Json json{{"listed", standing.listed},
            {"kernelRead", standing.known},
            {"settled", standing.settled},
            {"lastSync", time_or_null(standing.last_sync)},
            {"lastSyncMilliseconds", milliseconds(standing.last_took)},
            {"lastAgreement", time_or_null(standing.agreed)},
            {"draining", standing.draining},
            {"waiting", standing.waiting},
            {"unreadable", inspection.cluster.unreadable.size()},
            {"wrong", wrong_lines(inspection)},
            {"refused", refused_json(inspection.refusals)},
            {"refusedCount", inspection.refusals.all().size()},
            {"services", inspection.cluster.services.size()},
            {"endpointSlices", slices},
            {"virtualServices", desired.services.size()},
            {"addresses", desired.addresses.size()}};
  json["changedSinceAgreement"] =
      standing.agreed && standing.last_sync && *standing.last_sync > *standing.agreed;
  if (standing.next_try) json["nextTryMilliseconds"] = standing.next_try->count();
  return api::to_json_text(json);
}

}  // namespace

Control::Control(const Options& options, SyncMail& mail, const serve::Status& status,
                 spdlog::logger& logger)
    : options_(options),
      status_(status),
      settings_(settings_of(options)),
      question_queue_(mail),
      http_(logger, kLimits),
      probes_(logger, kLimits) {
  if (options.control_socket.empty()) return;
  const auto handler = serve::routes({
      {"/v1/status", [this](const auto&) { return answer_status(); }},
      {"/v1/settings", [this](const auto&) { return serve::json_text(200, settings_); }},
      {"/v1/objects", [this](const auto& request) { return answer_objects(request); }},
      {"/v1/service", [this](const auto& request) { return answer_service(request); }},
      {"/v1/names", [this](const auto& request) { return answer_names(request); }},
  });
  listening_ = listen(options.control_socket, http_, handler, logger);
  probed_ = listening_ &&
            listen(probe_socket(options.control_socket), probes_,
                   serve::routes({{"/v1/health", [this](const auto&) { return answer_health(); }}}),
                   logger);
}

Control::~Control() {
  stop_.request_stop();
  if (listening_) ::unlink(options_.control_socket.c_str());
  if (probed_) ::unlink(probe_socket(options_.control_socket).c_str());
}

bool Control::listen(const std::string& path, serve::HttpServer& server,
                     const serve::HttpHandler& handler, spdlog::logger& logger) {
  auto socket = serve::open_local_socket(path);
  const auto served = socket ? server.serve(*std::move(socket), handler) : socket.error();
  if (!served) logger.warn("{}; ipvsctl sees the kernel alone", to_string(served.error()));
  return served.has_value();
}

serve::HttpResponse Control::answer_status() {
  const auto health = status_.health();
  const auto liveness = status_.liveness();
  Json json{{"version", IPVS_PROXIER_VERSION},
            {"node", options_.node_name},
            {"source", options_.manifests.empty() ? "API server" : options_.manifests},
            {"ready", health.ready()},
            {"notReady", serve::reasons_not_ready(health)},
            {"alive", liveness.main && liveness.sync},
            {"nodeEligible", health.node_eligible},
            {"lastUpdated", time_or_null(health.last_updated())}};
  for (const auto resource : serve::kResources) {
    Json watch{{"error", status_.watch_failure(resource)}};
    if (const auto age = status_.watch_age(resource))
      watch["heardMillisecondsAgo"] = milliseconds(*age);
    if (options_.manifests.empty()) json["watches"][to_string(resource)] = std::move(watch);
  }
  // A long sync must not delay the values that need no answer from it.
  constexpr std::chrono::seconds kShort{1};
  const auto sync = question_queue_.ask(&sync_json, kShort, stop_.get_token());
  json["sync"] = sync ? Json::parse(*sync) : Json("busy");
  if (sync) add_held(status_, json["sync"]["wrong"]);
  return serve::json_text(200, api::to_json_text(json));
}

serve::HttpResponse Control::answer_health() const {
  const auto health = status_.health();
  const auto is_well = [](const serve::HttpResponse& answer) { return answer.status == 200; };
  const Json json{{"livez", is_well(serve::livez(health, status_.liveness()))},
                  {"healthz", is_well(serve::healthz(health))}};
  return serve::json_text(200, api::to_json_text(json));
}

serve::HttpResponse Control::answer_page(std::function<std::string(const sync::Inspection&)> page) {
  auto text = question_queue_.ask(std::move(page), kPatience, stop_.get_token());
  if (!text) return mistake(503, "the daemon is busy with a sync; try again");
  if (text->empty()) return mistake(503, "the daemon waits for the cluster's first lists");
  return serve::json_text(200, *std::move(text));
}

serve::HttpResponse Control::answer_objects(const serve::HttpRequest& request) {
  inspect::ObjectQuery query;
  const auto kind = parse_kind(query_of(request, "kind").value_or(""));
  if (!kind) return mistake(400, "kind must be Service, EndpointSlice or Node");
  query.kind = *kind;
  if (const auto wrong = read_query(request, query.services); !wrong.empty())
    return mistake(400, wrong);
  return answer_page([query](const sync::Inspection& inspection) {
    return inspect::object_page(inspection.cluster, query, kPageBytes);
  });
}

serve::HttpResponse Control::answer_names(const serve::HttpRequest& request) {
  inspect::ServiceQuery query;
  if (const auto wrong = read_query(request, query); !wrong.empty()) return mistake(400, wrong);
  return answer_page([query](const sync::Inspection& inspection) {
    if (!inspection.standing.listed) return std::string();
    return inspect::name_page(inspection.cluster, inspection.planner, query, kNamePageBytes);
  });
}

serve::HttpResponse Control::answer_service(const serve::HttpRequest& request) {
  const auto name = inspect::parse_service_name(query_of(request, "service").value_or(""));
  if (!name) return mistake(400, "service must be NAMESPACE/NAME");
  return answer_page([name](const sync::Inspection& inspection) {
    return inspection.standing.listed ? service_answer(inspection, *name) : std::string();
  });
}

}  // namespace ipvsproxier::cmd
