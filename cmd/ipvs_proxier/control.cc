#include "cmd/ipvs_proxier/control.h"

#include <unistd.h>

#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "proxier/api/document_writer.h"
#include "proxier/config/config_json.h"
#include "proxier/inspect/name_page.h"
#include "proxier/inspect/object_page.h"
#include "proxier/inspect/service_page.h"
#include "proxier/serve/healthz.h"
#include "proxier/serve/listen_socket.h"

namespace ipvsproxier::cmd {

namespace {

constexpr serve::HttpLimits kLimits{
    .connections = 8, .connections_per_listener = 8, .silence = std::chrono::seconds(10)};
// How long a request waits for the end of a sync; a first sync may take longer.
constexpr std::chrono::seconds kPatience{10};
// About 2 ms of the sync thread's time.
constexpr std::size_t kPageBytes = std::size_t{64} * 1024;
constexpr std::size_t kUnreadableTold = 20;
constexpr std::size_t kRefusedShown = 50;
constexpr std::size_t kLackingShown = 5;
constexpr std::size_t kNamePageBytes = std::size_t{256} * 1024;

serve::HttpResponse mistake(unsigned status, const std::string& text) {
  api::JsonWriter out;
  out.object([&] { out.member("error", text); });
  return serve::json_text(status, out.take());
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

std::string settings_of(const Options& options, ipset::PacketFilter filter) {
  api::JsonWriter out;
  out.object([&] {
    out.key("config");
    config::write_sorted_config(out, options.config);
    out.member("flags", options.flags);
    out.member("node", options.node_name);
    out.member("packetFilter", to_string(filter));
    out.member("version", IPVS_PROXIER_VERSION);
  });
  return out.take();
}

void write_time(api::DocumentWriter& out, std::string_view name,
                const std::optional<std::chrono::system_clock::time_point>& time) {
  out.key(name);
  if (time)
    out.value(serve::go_time(time));
  else
    out.value(nullptr);
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

// The problems that the main thread knows.
std::vector<std::string> held_lines(const serve::Status& status) {
  std::vector<std::string> lines;
  for (const auto resource : serve::kResources)
    if (const auto held = status.removal_held(resource); held > 0)
      lines.push_back(
          fmt::format("{} {} are missing from the API server's list; they stay until another list "
                      "lacks them, too (--mass-removal-brake)",
                      held, to_string(resource)));
  auto wrong = status.wrong();
  std::move(wrong.begin(), wrong.end(), std::back_inserter(lines));
  return lines;
}

// The first refusals.
std::vector<std::string> refused_lines(const sync::Refusals& refusals) {
  std::vector<std::string> lines;
  for (const auto& [thing, entry] : refusals.all()) {
    if (lines.size() == kRefusedShown) break;
    lines.push_back(to_string(entry));
  }
  return lines;
}

void write_lacking(api::DocumentWriter& out, const sync::Inspection& inspection) {
  const auto lacking = sync::lacking_services(inspection.planner.problems(), inspection.refusals);
  std::vector<std::string> first;
  for (const auto& name : lacking)
    if (first.size() < kLackingShown) first.push_back(name);
  out.member("lacking", first);
  out.member("lackingCount", lacking.size());
}

// Runs on the sync thread. `held` are further problems.
std::string sync_json(const sync::Inspection& inspection, const std::vector<std::string>& held) {
  const auto& standing = inspection.standing;
  const auto& desired = inspection.planner.desired();
  std::size_t slices = 0;
  for (const auto& [service, own] : inspection.cluster.slices) slices += own.size();
  auto wrong = wrong_lines(inspection);
  wrong.insert(wrong.end(), held.begin(), held.end());
  api::JsonWriter out;
  out.object([&] {
    out.member("addresses", desired.addresses.size());
    out.member("changedSinceAgreement",
               standing.agreed && standing.last_sync && *standing.last_sync > *standing.agreed);
    out.member("draining", standing.draining);
    out.member("endpointSlices", slices);
    out.member("kernelRead", standing.known);
    write_lacking(out, inspection);
    write_time(out, "lastAgreement", standing.agreed);
    write_time(out, "lastSync", standing.last_sync);
    out.member("lastSyncMilliseconds", milliseconds(standing.last_took));
    out.member("listed", standing.listed);
    if (standing.next_try) out.member("nextTryMilliseconds", standing.next_try->count());
    out.member("refused", refused_lines(inspection.refusals));
    out.member("refusedCount", inspection.refusals.all().size());
    out.member("removalsHeld", !desired.complete || !desired.leftovers.empty());
    out.member("services", inspection.cluster.services.size());
    out.member("settled", standing.settled);
    out.member("unreadable", inspection.cluster.unreadable.size());
    out.member("virtualServices", desired.services.size());
    out.member("waiting", standing.waiting);
    out.member("wrong", wrong);
  });
  return out.take();
}

void write_watch(api::DocumentWriter& out, const serve::Status& status, serve::Resource resource) {
  out.member("error", status.watch_failure(resource));
  if (const auto age = status.watch_age(resource))
    out.member("heardMillisecondsAgo", milliseconds(*age));
}

void write_watches(api::DocumentWriter& out, const serve::Status& status) {
  std::map<std::string_view, serve::Resource> by_name;
  for (const auto resource : serve::kResources) by_name.emplace(to_string(resource), resource);
  out.object("watches", [&] {
    for (const auto& [name, resource] : by_name) {
      out.key(name);
      out.open_object();
      write_watch(out, status, resource);
      out.close();
    }
  });
}

std::vector<inspect::PageDraining> draining_of(const sync::Inspection& inspection,
                                               const api::NamespacedName& name) {
  std::vector<inspect::PageDraining> list;
  if (!inspection.kernel.services) return list;
  for (const auto& claim : inspection.planner.claims_held_by(name)) {
    const auto service = inspection.kernel.services->find(claim.key);
    if (service == inspection.kernel.services->end() || !service->second.servers) continue;
    for (const auto& server : *service->second.servers) {
      const auto leaving = inspection.drain.leaving(claim.key, server.key, inspection.now);
      if (!leaving) continue;
      inspect::PageDraining one{.service = to_string(claim.key),
                                .server = to_string(server.key),
                                .for_ms = leaving->since.count(),
                                .left_ms = {}};
      if (leaving->left) one.left_ms = leaving->left->count();
      list.push_back(std::move(one));
    }
  }
  return list;
}

// Runs on the sync thread. null: there is no such Service.
std::string service_json(const sync::Inspection& inspection, const api::NamespacedName& name) {
  auto page = inspect::service_page(name, inspection.cluster, inspection.planner);
  if (!page) return "null";
  page->decisions->draining = draining_of(inspection, name);
  for (const auto& [thing, entry] : inspection.refusals.all())
    if (entry.services.contains(name)) page->decisions->refused.push_back(to_string(entry));
  if (const auto change = inspection.changes.of(name))
    page->decisions->last_change = inspect::PageChange{.when = serve::go_time(change->when),
                                                       .took_ms = milliseconds(change->took)};
  api::JsonWriter out;
  out.object([&] { inspect::write_members(out, *page); });
  return out.take();
}

}  // namespace

Control::Control(const Options& options, ipset::PacketFilterChoice filter, SyncMail& mail,
                 const serve::Status& status, spdlog::logger& logger)
    : options_(options),
      filter_(std::move(filter)),
      status_(status),
      settings_(settings_of(options, filter_.filter)),
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
  // A long sync must not delay the values that need no answer from it.
  constexpr std::chrono::seconds kShort{1};
  const auto held = held_lines(status_);
  const auto sync = question_queue_.ask(
      [held](const sync::Inspection& inspection) { return sync_json(inspection, held); }, kShort,
      stop_.get_token());
  api::JsonWriter out;
  out.object([&] {
    out.member("alive", liveness.main && liveness.sync);
    write_time(out, "lastUpdated", health.last_updated());
    out.member("node", options_.node_name);
    out.member("nodeEligible", health.node_eligible);
    out.member("notReady", serve::reasons_not_ready(health));
    out.object("packetFilter", [&] {
      out.member("name", to_string(filter_.filter));
      out.member("notes", filter_.notes);
      out.member("reason", filter_.reason);
    });
    out.member("ready", health.ready());
    out.member("source", options_.manifests.empty() ? "API server" : options_.manifests);
    out.key("sync");
    out.splice(sync.value_or(R"("busy")"));
    out.member("version", IPVS_PROXIER_VERSION);
    if (options_.manifests.empty()) write_watches(out, status_);
  });
  return serve::json_text(200, out.take());
}

serve::HttpResponse Control::answer_health() const {
  const auto health = status_.health();
  const auto is_well = [](const serve::HttpResponse& answer) { return answer.status == 200; };
  api::JsonWriter out;
  out.object([&] {
    out.member("healthz", is_well(serve::healthz(health)));
    out.member("livez", is_well(serve::livez(health, status_.liveness())));
  });
  return serve::json_text(200, out.take());
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
    return inspect::name_page(inspection.cluster, inspection.planner, query, kNamePageBytes,
                              inspection.kernel.foreign);
  });
}

serve::HttpResponse Control::answer_service(const serve::HttpRequest& request) {
  const auto name = inspect::parse_service_name(query_of(request, "service").value_or(""));
  if (!name) return mistake(400, "service must be NAMESPACE/NAME");
  return answer_page([name](const sync::Inspection& inspection) {
    return inspection.standing.listed ? service_json(inspection, *name) : std::string();
  });
}

}  // namespace ipvsproxier::cmd
