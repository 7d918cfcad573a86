#include "proxier/model/service_settings.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "netlink/ipvs/ipvs_types.h"
#include "netlink/text.h"
#include "proxier/api/annotations.h"
#include "proxier/api/go_duration.h"

namespace ipvsproxier::model {

namespace {

// Why a value is refused, as the end of "must be ...".
using Refused = std::optional<std::string>;
using Read = Refused (*)(std::string_view text, ServiceSettings& settings);

constexpr std::size_t kMostWeightRows = 256;

// Calls visit(part) for the parts between commas, without spaces around them, while it returns
// true. False: one was refused.
template <typename Visit>
bool each_part(std::string_view text, Visit visit) {
  for (;;) {
    const auto comma = text.find(',');
    if (!visit(netlink::trimmed(text.substr(0, comma), " "))) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

Refused read_scheduler(std::string_view text, ServiceSettings& settings) {
  if (std::ranges::find(kSchedulers, text) == kSchedulers.end()) {
    std::string names;
    for (const auto name : kSchedulers) names += (names.empty() ? "" : ", ") + std::string(name);
    return "one of " + names;
  }
  settings.scheduler = text;
  return std::nullopt;
}

// The names of ipvsadm -b.
std::optional<std::uint32_t> flag_of(std::string_view name) {
  if (name == "flag-1" || name == "sh-fallback" || name == "mh-fallback")
    return netlink::kSchedulerFlag1;
  if (name == "flag-2" || name == "sh-port" || name == "mh-port") return netlink::kSchedulerFlag2;
  if (name == "flag-3") return netlink::kSchedulerFlag3;
  return std::nullopt;
}

Refused read_flags(std::string_view text, ServiceSettings& settings) {
  const auto flags = parse_scheduler_flags(text);
  if (!flags) return std::string(kSchedulerFlagsMustBe);
  settings.flags = flags;
  return std::nullopt;
}

std::optional<WeightRow> weight_row(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto weight = api::parse_weight(text.substr(colon + 1));
  if (!weight) return std::nullopt;
  const auto what = text.substr(0, colon);
  if (what == "local") return WeightRow{WeightRow::By::local, "", *weight};
  for (const auto& [prefix, by] : {std::pair(std::string_view("zone="), WeightRow::By::zone),
                                   std::pair(std::string_view("node="), WeightRow::By::node)})
    if (what.starts_with(prefix) && what.size() > prefix.size())
      return WeightRow{by, std::string(what.substr(prefix.size())), *weight};
  return std::nullopt;
}

Refused read_weights(std::string_view text, ServiceSettings& settings) {
  std::vector<WeightRow> rows;
  const bool sound = each_part(text, [&](std::string_view part) {
    auto row = weight_row(part);
    if (!row || rows.size() == kMostWeightRows) return false;
    rows.push_back(*std::move(row));
    return true;
  });
  if (!sound)
    return fmt::format(
        "up to {} of zone=NAME:WEIGHT, node=NAME:WEIGHT or local:WEIGHT with commas "
        "between them, weights from 0 to {}",
        kMostWeightRows, api::kLargestWeight);
  settings.weights = std::move(rows);
  return std::nullopt;
}

Refused read_max_connections(std::string_view text, ServiceSettings& settings) {
  const auto thresholds = parse_max_connections(text);
  if (!thresholds) return std::string(kMaxConnectionsMustBe);
  settings.max_connections = thresholds;
  return std::nullopt;
}

Refused read_one_packet(std::string_view text, ServiceSettings& settings) {
  if (text != "true" && text != "false") return "true or false";
  settings.one_packet = text == "true";
  return std::nullopt;
}

Refused read_drain_timeout(std::string_view text, ServiceSettings& settings) {
  const auto duration = api::parse_go_duration(text);
  if (!duration || duration->count() < 0) return "a duration such as 30s or 5m";
  settings.drain_timeout = std::chrono::ceil<std::chrono::milliseconds>(*duration);
  return std::nullopt;
}

Refused read_mask(std::string_view text, ServiceSettings& settings) {
  const auto comma = text.find(',');
  const bool both = comma != std::string_view::npos;
  const auto v4 = api::parse_number(netlink::trimmed(text.substr(0, comma), " "), 32);
  const auto v6 =
      both ? api::parse_number(netlink::trimmed(text.substr(comma + 1)), 128) : std::optional(128U);
  if (!v4 || !v6 || *v4 == 0 || *v6 == 0)
    return "a number of bits from 1 to 32 for IPv4, or as in 24,64 with one from 1 to 128 for IPv6";
  settings.mask_v4 = static_cast<std::uint8_t>(*v4);
  if (both) settings.mask_v6 = static_cast<std::uint8_t>(*v6);
  return std::nullopt;
}

Refused read_metrics(std::string_view text, ServiceSettings& settings) {
  if (text != "true" && text != "false") return "true or false";
  settings.metrics = text == "true";
  return std::nullopt;
}

constexpr std::string_view kMetrics = "ipvs-proxier/metrics";

struct Row {
  std::string_view key;
  Read read;
};

// kube-router's come first, so that ours win.
constexpr auto kRows = std::to_array<Row>({
    {"kube-router.io/service.scheduler", read_scheduler},
    {"kube-router.io/service.schedflags", read_flags},
    {"ipvs-proxier/scheduler", read_scheduler},
    {"ipvs-proxier/scheduler-flags", read_flags},
    {"ipvs-proxier/weights", read_weights},
    {"ipvs-proxier/max-connections", read_max_connections},
    {"ipvs-proxier/one-packet", read_one_packet},
    {"ipvs-proxier/drain-timeout", read_drain_timeout},
    {"ipvs-proxier/affinity-mask", read_mask},
    {kMetrics, read_metrics},
});

// kube-router's annotations whose presence counts, and why some of them change nothing.
struct Presence {
  std::string_view key;
  bool ServiceSettings::*setting;  // nullptr: none
  std::string_view note;
};

constexpr auto kPresences = std::to_array<Presence>({
    {"kube-router.io/service.local", &ServiceSettings::local, ""},
    {"kube-router.io/service.skiplbips", &ServiceSettings::skips_load_balancer_ips, ""},
    {"kube-router.io/service.hairpin", nullptr,
     "a pod reaches itself through every Service here; nothing needs to be asked for"},
    {"kube-router.io/service.hairpin.externalips", nullptr,
     "a pod reaches itself through every address of a Service here; nothing needs to be asked for"},
    {"kube-router.io/service.dsr", nullptr,
     "direct server return needs a tunnel device in each pod, which only the network plugin can "
     "make; connections go through this node both ways"},
    {"kube-router.io/service.advertise.clusterip", nullptr,
     "addresses are advertised by a BGP speaker, not by a proxy"},
    {"kube-router.io/service.advertise.externalip", nullptr,
     "addresses are advertised by a BGP speaker, not by a proxy"},
    {"kube-router.io/service.advertise.loadbalancerip", nullptr,
     "addresses are advertised by a BGP speaker, not by a proxy"},
});

const std::string* find(const api::Service& service, std::string_view key) {
  const auto it =
      std::ranges::lower_bound(service.annotations, key, std::less<>(), &api::Annotation::key);
  return it != service.annotations.end() && it->key == key ? &it->value : nullptr;
}

bool is_known(std::string_view key) {
  return std::ranges::find(kRows, key, &Row::key) != kRows.end() ||
         std::ranges::find(kPresences, key, &Presence::key) != kPresences.end();
}

// A value of a stranger in a message: enough to find it.
std::string shown(std::string_view value) {
  constexpr std::size_t kMost = 60;
  if (value.size() <= kMost) return fmt::format("\"{}\"", value);
  return fmt::format("\"{}...\"", value.substr(0, kMost));
}

// What only has an effect together with something else.
void check_combinations(const api::Service& service, const ServiceSettings& settings,
                        api::Problems& problems) {
  const auto is_udp = [](const api::ServicePort& port) {
    return port.protocol == netlink::Protocol::udp;
  };
  if (settings.one_packet && std::ranges::none_of(service.ports, is_udp))
    problems.push_back(annotation_problem(service, "ipvs-proxier/one-packet",
                                          "has no effect: the Service has no UDP port"));
  // ip_vs_out() finds no connection to translate an answer by (ip_vs_core.c, 6.1).
  const auto is_dns = [&](const api::ServicePort& port) { return is_udp(port) && port.port == 53; };
  if (settings.one_packet && std::ranges::any_of(service.ports, is_dns))
    problems.push_back(annotation_problem(
        service, "ipvs-proxier/one-packet",
        "is not for DNS: answers come from the endpoint's own address, so that clients drop them"));
  if (settings.mask_v4 && !service.affinity_seconds)
    problems.push_back(annotation_problem(service, "ipvs-proxier/affinity-mask",
                                          "has no effect without sessionAffinity: ClientIP"));
}

}  // namespace

std::string annotation_field(std::string_view key) {
  return fmt::format("metadata.annotations[{}]", key);
}

api::Problem annotation_problem(const api::Service& service, std::string_view key,
                                std::string message) {
  return {.severity = api::Severity::warning,
          .origin = service.origin,
          .object = "Service " + api::to_string(service.name),
          .field = annotation_field(key),
          .message = std::move(message)};
}

// The kernel keeps a real server free between the upper threshold and the lower one, so the lower
// one must not be larger (ip_vs_dest.flags, ip_vs_bind_dest).
std::optional<Thresholds> parse_max_connections(std::string_view text) {
  constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();
  const auto slash = text.find('/');
  const auto upper = api::parse_number(text.substr(0, slash), kMost);
  const auto lower = slash == std::string_view::npos
                         ? std::optional<std::uint32_t>(0)
                         : api::parse_number(text.substr(slash + 1), kMost);
  if (!upper || !lower || *lower > *upper) return std::nullopt;
  return Thresholds{*upper, *lower};
}

std::optional<std::uint32_t> parse_scheduler_flags(std::string_view text) {
  std::uint32_t flags = 0;
  const bool known = netlink::trimmed(text).empty() || each_part(text, [&](std::string_view name) {
                       const auto flag = flag_of(name);
                       flags |= flag.value_or(0);
                       return flag.has_value();
                     });
  return known ? std::optional(flags) : std::nullopt;
}

bool is_counted(const api::Service& service, ServiceMetrics which, bool heeds_annotations) {
  if (which == ServiceMetrics::off) return false;
  if (heeds_annotations && !service.annotations.empty())
    if (const auto* value = find(service, kMetrics); value != nullptr) {
      if (*value == "true") return true;
      if (*value == "false") return false;
    }
  return which == ServiceMetrics::all;
}

// rr, lc and dh do not read a weight but for 0 (ip_vs_rr.c, ip_vs_lc.c, ip_vs_dh.c; 6.1).
bool heeds_weights(std::string_view scheduler) {
  return scheduler != "rr" && scheduler != "lc" && scheduler != "dh";
}

std::string_view scheduler_annotation(const api::Service& service) {
  constexpr std::string_view kOurs = "ipvs-proxier/scheduler";
  ServiceSettings settings;
  const auto* value = find(service, kOurs);
  return value != nullptr && !read_scheduler(*value, settings) ? kOurs
                                                               : "kube-router.io/service.scheduler";
}

namespace {

// One problem, however many there are.
void tell_unknown(const api::Service& service, api::Problems& problems) {
  const std::string* first = nullptr;
  std::size_t more = 0;
  for (const auto& annotation : service.annotations) {
    if (!annotation.key.starts_with(api::kOurPrefix) || is_known(annotation.key)) continue;
    if (first == nullptr)
      first = &annotation.key;
    else
      ++more;
  }
  if (first == nullptr) return;
  problems.push_back(annotation_problem(
      service, *first,
      more == 0 ? "is no annotation of a Service; it is ignored"
                : fmt::format("is no annotation of a Service, nor are {} others; they are ignored",
                              more)));
}

}  // namespace

ParsedSettings parse_settings(const api::Service& service) {
  ParsedSettings parsed;
  auto& [settings, problems] = parsed;
  if (service.annotations.empty()) return parsed;
  for (const auto& [key, read] : kRows) {
    const auto* value = find(service, key);
    if (value == nullptr) continue;
    if (const auto refused = read(*value, settings))
      problems.push_back(annotation_problem(
          service, key, fmt::format("must be {}, not {}; it is ignored", *refused, shown(*value))));
  }
  // As in kube-router; flags that are ours count under every scheduler.
  ServiceSettings ours;
  const auto* flags = find(service, "ipvs-proxier/scheduler-flags");
  if (settings.scheduler != "mh" && (flags == nullptr || read_flags(*flags, ours)))
    settings.flags.reset();
  for (const auto& [key, setting, note] : kPresences) {
    if (find(service, key) == nullptr) continue;
    if (setting != nullptr)
      settings.*setting = true;
    else
      settings.notes.push_back(fmt::format("{}: {}", key, note));
  }
  tell_unknown(service, problems);
  check_combinations(service, settings, problems);
  return parsed;
}

Weight weight_of(const ServiceSettings& settings, const api::EndpointSlice& slice,
                 const api::EndpointView& endpoint, bool is_local) {
  if (slice.weight) return {*slice.weight, WeightBy::slice};
  for (const auto& row : settings.weights) {
    const bool matches = row.by == WeightRow::By::local  ? is_local
                         : row.by == WeightRow::By::zone ? endpoint.zone == row.name
                                                         : endpoint.node_name == row.name;
    if (!matches) continue;
    return {row.weight, row.by == WeightRow::By::local  ? WeightBy::local
                        : row.by == WeightRow::By::zone ? WeightBy::zone
                                                        : WeightBy::node};
  }
  return {};
}

}  // namespace ipvsproxier::model
