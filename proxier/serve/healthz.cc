#include "proxier/serve/healthz.h"

#include <ctime>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "proxier/api/document_writer.h"

namespace ipvsproxier::serve {

namespace {

void write_family(api::DocumentWriter& out, std::string_view name, const FamilyHealth& family) {
  out.object(name, [&] {
    out.member("lastUpdated", go_time(family.last_updated));
    out.member("healthy", family.healthy);
  });
}

// Keys in kube-proxy's order; "nodeEligible" and "status" are optional.
HttpResponse response(bool ok, bool healthy, std::optional<bool> node_eligible,
                      const Health& health) {
  const auto updated = ok ? std::optional(health.now) : health.last_updated();
  api::JsonWriter out;
  out.object([&] {
    out.member("lastUpdated", go_time(updated));
    out.member("currentTime", go_time(health.now));
    if (node_eligible) out.member("nodeEligible", *node_eligible);
    out.member("healthy", healthy);
    if (!health.ipv4 && !health.ipv6) return;
    out.object("status", [&] {
      if (health.ipv4) write_family(out, "IPv4", *health.ipv4);
      if (health.ipv6) write_family(out, "IPv6", *health.ipv6);
    });
  });
  return json_text(ok ? 200 : 503, out.take());
}

}  // namespace

std::string go_time(std::optional<std::chrono::system_clock::time_point> time) {
  using std::chrono::nanoseconds;
  using std::chrono::seconds;
  if (!time) return "0001-01-01T00:00:00Z";
  const auto since_epoch = std::chrono::duration_cast<nanoseconds>(time->time_since_epoch());
  const auto whole = std::chrono::floor<seconds>(since_epoch);
  const std::time_t epoch = whole.count();
  std::tm local{};
  localtime_r(&epoch, &local);
  auto result =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", local.tm_year + 1900, local.tm_mon + 1,
                  local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec);
  if (const auto fraction = (since_epoch - whole).count(); fraction != 0) {
    auto digits = fmt::format("{:09}", fraction);
    digits.erase(digits.find_last_not_of('0') + 1);
    result += '.' + digits;
  }
  const long minutes = local.tm_gmtoff / 60;
  if (minutes == 0) return result + 'Z';
  return result + fmt::format("{}{:02}:{:02}", minutes < 0 ? '-' : '+', std::labs(minutes) / 60,
                              std::labs(minutes) % 60);
}

HttpResponse healthz(const Health& health) {
  return response(health.ready(), health.families_healthy, health.node_eligible, health);
}

std::vector<std::string> reasons_not_ready(const Health& health) {
  std::vector<std::string> reasons;
  if (!health.node_seen)
    reasons.emplace_back("this node's Node object was not seen yet");
  else if (!health.node_eligible)
    reasons.emplace_back("this node is about to be deleted");
  if (!health.watches_fresh)
    reasons.emplace_back("a watch has been silent for longer than --healthz-max-watch-age");
  if (!health.ipv4 && !health.ipv6) reasons.emplace_back("the sync thread has not begun");
  for (const auto& [name, family] :
       {std::pair("IPv4", &health.ipv4), std::pair("IPv6", &health.ipv6)}) {
    if (!*family || (*family)->healthy || !(*family)->counts) continue;
    reasons.push_back((*family)->complete
                          ? fmt::format("{}: what was asked for has not been in the kernel for 2 x "
                                        "ipvs.syncPeriod",
                                        name)
                          : fmt::format("{}: the first sync is not complete", name));
  }
  return reasons;
}

HttpResponse livez(const Health& health, const Liveness& liveness) {
  auto shown = health;
  for (auto* family : {&shown.ipv4, &shown.ipv6})
    if (*family) (*family)->healthy = liveness.sync;
  const bool alive = liveness.main && liveness.sync;
  return response(alive, alive, std::nullopt, shown);
}

HttpHandler health_routes(const Status& status, Metrics& metrics) {
  return routes({{"/healthz",
                  [&](const HttpRequest&) {
                    auto answer = healthz(status.health());
                    metrics.healthz_answered(answer.status);
                    return answer;
                  }},
                 {"/livez", [&](const HttpRequest&) {
                    auto answer = livez(status.health(), status.liveness());
                    metrics.livez_answered(answer.status);
                    return answer;
                  }}});
}

}  // namespace ipvsproxier::serve
