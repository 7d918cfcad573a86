#pragma once

// ServiceSettings: what the annotations of a Service ask for (docs/services.md). Ours win over
// kube-router's. A value that makes no sense is one problem, and that annotation is ignored. Pure;
// any thread.

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxier/api/objects.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::model {

// The schedulers of the kernel (net/netfilter/ipvs, Linux 6.1). Only these can be asked for: the
// kernel loads a module for each name that it is given.
inline constexpr auto kSchedulers =
    std::to_array<std::string_view>({"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "mh",
                                     "sed", "nq", "fo", "ovf", "twos"});

// Whether the scheduler looks at the weights of real servers other than 0.
bool heeds_weights(std::string_view scheduler);

// The weight of the endpoints that a row matches.
struct WeightRow {
  enum class By : std::uint8_t { zone, node, local };

  By by = By::zone;
  std::string name;  // of the zone or node
  std::uint32_t weight = 1;

  friend auto operator<=>(const WeightRow&, const WeightRow&) = default;
};

// Whose traffic figures are served (--service-metrics).
enum class ServiceMetrics : std::uint8_t { off, annotated, all };

// Whether those of the Service are; `heeds_annotations`: its annotation counts.
bool is_counted(const api::Service& service, ServiceMetrics which, bool heeds_annotations);

// Connections of one real server. Beyond the upper threshold it gets no new ones until it is below
// the lower one; 0: three quarters of the upper one. No upper one: no limit.
struct Thresholds {
  std::uint32_t upper = 0;
  std::uint32_t lower = 0;

  friend auto operator<=>(const Thresholds&, const Thresholds&) = default;
};

// "1000/800", "1000", or "0" for none; what else is refused.
std::optional<Thresholds> parse_max_connections(std::string_view text);
inline constexpr std::string_view kMaxConnectionsMustBe =
    "a number, or two as in 1000/800, the second not above the first";

// The flags of a scheduler by the names of ipvsadm -b, with commas between them: bits of
// netlink::kSchedulerFlag*.
std::optional<std::uint32_t> parse_scheduler_flags(std::string_view text);
inline constexpr std::string_view kSchedulerFlagsMustBe =
    "empty or a list of sh-fallback, sh-port, mh-fallback, mh-port, flag-1, flag-2, flag-3";

struct ServiceSettings {
  std::string scheduler;                      // "": the node's
  std::optional<std::uint32_t> flags;         // netlink::kSchedulerFlag*, of the scheduler
  std::vector<WeightRow> weights;             // the first match counts, else 1
  std::optional<Thresholds> max_connections;  // nullopt: the node's
  bool one_packet = false;                    // of UDP ports
  std::optional<std::chrono::milliseconds> drain_timeout;  // 0: until the last connection ends
  std::optional<std::uint8_t> mask_v4;  // bits of a client that persistence goes by
  std::optional<std::uint8_t> mask_v6;
  std::optional<bool> metrics;  // traffic figures; nullopt: as --service-metrics says
  bool local = false;           // both traffic policies are Local
  bool skips_load_balancer_ips = false;
  std::vector<std::string> notes;  // annotations without effect here, and why: for ipvsctl

  friend bool operator==(const ServiceSettings&, const ServiceSettings&) = default;
};

// The field of an annotation in problems: "metadata.annotations[ipvs-proxier/weights]".
std::string annotation_field(std::string_view key);

// A warning about an annotation of the Service.
api::Problem annotation_problem(const api::Service& service, std::string_view key,
                                std::string message);

// The annotation that a Service's scheduler is asked for with: ours, else kube-router's.
std::string_view scheduler_annotation(const api::Service& service);

struct ParsedSettings {
  ServiceSettings settings;
  api::Problems problems;
};

// What the annotations of the Service ask for. ClusterState keeps it (cluster_state.h).
ParsedSettings parse_settings(const api::Service& service);

// Who asks for the weight of an endpoint: its slice, or a row of that kind.
enum class WeightBy : std::uint8_t { nobody, slice, local, zone, node };

struct Weight {
  std::uint32_t value = 1;
  WeightBy by = WeightBy::nobody;

  friend auto operator<=>(const Weight&, const Weight&) = default;
};

// The weight that the settings and the slice ask for an endpoint. The slice's own counts first.
Weight weight_of(const ServiceSettings& settings, const api::EndpointSlice& slice,
                 const api::EndpointView& endpoint, bool is_local);

}  // namespace ipvsproxier::model
