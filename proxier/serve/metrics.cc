#include "proxier/serve/metrics.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "proxier/serve/process_stats.h"

namespace ipvsproxier::serve {

namespace {

using netlink::Family;
using prometheus::ClientMetric;
using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = prometheus::Labels;
using Buckets = Histogram::BucketBoundaries;

constexpr std::array<NetlinkKind, 5> kNetlinkKinds = {NetlinkKind::ipvs, NetlinkKind::link,
                                                      NetlinkKind::set, NetlinkKind::rule,
                                                      NetlinkKind::conntrack};

const char* label(NetlinkKind kind) {
  switch (kind) {
    case NetlinkKind::ipvs:
      return "ipvs";
    case NetlinkKind::link:
      return "link";
    case NetlinkKind::set:
      return "set";
    case NetlinkKind::rule:
      return "rule";
    case NetlinkKind::conntrack:
      return "conntrack";
  }
  return "";
}

// 1 ms to 16 s, doubling.
Buckets sync_buckets() {
  Buckets buckets;
  for (double bound = 0.001; buckets.size() < 15; bound *= 2) buckets.push_back(bound);
  return buckets;
}

// 80 buckets: fine in the usual range, coarse up to five minutes.
Buckets programming_buckets() {
  Buckets buckets{0.25, 0.5};
  for (int bound = 1; bound < 60; bound += 1) buckets.push_back(bound);
  for (int bound = 60; bound < 120; bound += 5) buckets.push_back(bound);
  for (int bound = 120; bound <= 300; bound += 30) buckets.push_back(bound);
  return buckets;
}

std::string kube(const char* name) {
  return std::string("kubeproxy_") + name;
}

std::string alpha(const char* help) {
  return std::string("[ALPHA] ") + help;
}

double since_epoch(Metrics::Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

double as_double(std::size_t count) {
  return static_cast<double>(count);
}

// Registering an existing name returns its metric family.
class Registrar {
 public:
  explicit Registrar(prometheus::Registry& registry) : registry_(registry) {}

  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {}) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels);
  }
  Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {}) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels);
  }
  Histogram& histogram(const std::string& name, const std::string& help, const Labels& labels,
                       const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(labels,
                                                                                      buckets);
  }

 private:
  prometheus::Registry& registry_;
};

struct FamilyMetrics {
  FamilyMetrics(Registrar in, const Labels& family)
      : sync_duration(in.histogram(kube("sync_proxy_rules_duration_seconds"),
                                   alpha("How long a sync took"), family, sync_buckets())),
        last_queued(in.gauge(kube("sync_proxy_rules_last_queued_timestamp_seconds"),
                             alpha("When a sync was last asked for"), family)),
        last_synced(in.gauge(kube("sync_proxy_rules_last_timestamp_seconds"),
                             alpha("When a sync last succeeded"), family)),
        programming(in.histogram(kube("network_programming_duration_seconds"),
                                 alpha("From the change of a Service's endpoints to the kernel"),
                                 family, programming_buckets())),
        no_local_internal(no_local(in, family, "internal")),
        no_local_external(no_local(in, family, "external")),
        rule_failures(in.counter(kube("sync_proxy_rules_iptables_restore_failures_total"),
                                 alpha("How often iptables rules could not be written"), family)),
        purge_duration(in.histogram(kube("conntrack_reconciler_sync_duration_seconds"),
                                    alpha("How long removing stale flows took"), family,
                                    sync_buckets())),
        purged_flows(in.counter(kube("conntrack_reconciler_deleted_entries_total"),
                                alpha("Stale flows that were removed"), family)),
        meet_foreign(in.gauge("ipvsproxier_services_meeting_foreign",
                              "Services that ask for what virtual services of other programs have",
                              family)) {
    for (const auto kind : {NetlinkKind::ipvs, NetlinkKind::link, NetlinkKind::set})
      refused.emplace(kind, refused_of(in, family, kind));
  }

  static Gauge& no_local(Registrar in, Labels family, const char* policy) {
    family["traffic_policy"] = policy;
    return in.gauge(kube("sync_proxy_rules_no_local_endpoints_total"),
                    alpha("Services without an endpoint here whose policy wants local ones only"),
                    family);
  }

  static Gauge& refused_of(Registrar in, Labels family, NetlinkKind kind) {
    family["kind"] = label(kind);
    return in.gauge("ipvsproxier_refused",
                    "What the kernel refuses for what it is: virtual services with what is of "
                    "them, addresses, elements of sets",
                    family);
  }

  Histogram& sync_duration;
  Gauge& last_queued;
  Gauge& last_synced;
  Histogram& programming;
  Gauge& no_local_internal;
  Gauge& no_local_external;
  Counter& rule_failures;
  Histogram& purge_duration;
  Counter& purged_flows;
  Gauge& meet_foreign;
  std::map<NetlinkKind, std::reference_wrapper<Gauge>> refused;
};

struct KindMetrics {
  KindMetrics(Registrar in, NetlinkKind kind)
      : messages(in.counter("ipvsproxier_netlink_messages_total",
                            "Requests to the kernel, by what they are about; each element of a set "
                            "and each table of rules that is written is one",
                            {{"kind", label(kind)}})),
        errors(in.counter("ipvsproxier_netlink_errors_total",
                          "Requests that the kernel refused or did not answer",
                          {{"kind", label(kind)}})) {}

  Counter& messages;
  Counter& errors;
};

struct ResourceMetrics {
  ResourceMetrics(Registrar in, Resource resource)
      : restarts(in.counter("ipvsproxier_watch_restarts_total",
                            "Watches that were opened again after their end", labels(resource))),
        relists(in.counter("ipvsproxier_relists_total", "Complete lists after the first",
                           labels(resource))),
        objects(in.gauge("ipvsproxier_objects", "Objects of the cluster that are held",
                         labels(resource))),
        unreadable(in.gauge("ipvsproxier_objects_unreadable",
                            "Objects of the cluster that exist and cannot be read",
                            labels(resource))),
        held(held_of(in, std::string(to_string(resource)))) {}

  static Gauge& held_of(Registrar in, const std::string& resource) {
    return in.gauge("ipvsproxier_mass_removal_held",
                    "What stays though lists lack it, because they lack most of what there was: "
                    "objects; after a start virtual and real servers of the kernel",
                    {{"resource", resource}});
  }

  static Labels labels(Resource resource) {
    return {{"resource", std::string(to_string(resource))}};
  }

  Counter& restarts;
  Counter& relists;
  Gauge& objects;
  Gauge& unreadable;
  Gauge& held;
};

struct CodeMetrics {
  CodeMetrics(Registrar in, const char* name, const char* help)
      : ok(in.counter(kube(name), alpha(help), {{"code", "200"}})),
        unavailable(in.counter(kube(name), alpha(help), {{"code", "503"}})) {}

  void count(unsigned code) { (code == 200 ? ok : unavailable).Increment(); }

  Counter& ok;
  Counter& unavailable;
};

MetricFamily single(const char* name, const char* help, MetricType type, double value) {
  ClientMetric metric;
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return {name, help, type, {metric}};
}

void append_process(std::vector<MetricFamily>& families) {
  const auto stats = read_process_stats();
  const auto gauge = [&](const char* name, const char* help, auto value) {
    families.push_back(single(name, help, MetricType::Gauge, static_cast<double>(value)));
  };
  families.push_back(single("process_cpu_seconds_total", "Processor time used, user and system",
                            MetricType::Counter, stats.cpu_seconds));
  gauge("process_open_fds", "Open file descriptors", stats.open_fds);
  gauge("process_max_fds", "File descriptors that may be open", stats.max_fds);
  gauge("process_resident_memory_bytes", "Memory in use, in bytes", stats.resident_bytes);
  gauge("process_virtual_memory_bytes", "Address space in use, in bytes", stats.virtual_bytes);
  gauge("process_virtual_memory_max_bytes", "Address space that may be used, in bytes",
        stats.max_virtual_bytes);
  gauge("process_start_time_seconds", "When the process started, since the epoch",
        stats.start_time_seconds);
}

void append_watch_ages(std::vector<MetricFamily>& families, const Status& status) {
  MetricFamily ages{"ipvsproxier_watch_age_seconds",
                    "Time since the API server last said something on this watch",
                    MetricType::Gauge,
                    {}};
  for (const auto resource : kResources) {
    const auto age = status.watch_age(resource);
    if (!age) continue;
    ClientMetric metric;
    metric.label = {{"resource", std::string(to_string(resource))}};
    metric.gauge.value = Metrics::Seconds(*age).count();
    ages.metric.push_back(std::move(metric));
  }
  if (!ages.metric.empty()) families.push_back(std::move(ages));
}

// The labels of Kubernetes components; those that only a Go build has are empty.
Labels build_labels(const std::string& version) {
  const auto first = version.find('.');
  const auto second = first == std::string::npos ? first : version.find('.', first + 1);
  const auto minor =
      first == std::string::npos ? std::string() : version.substr(first + 1, second - first - 1);
  return {{"major", version.substr(0, first)},
          {"minor", minor},
          {"git_version", "v" + version},
          {"git_commit", ""},
          {"git_tree_state", ""},
          {"build_date", ""},
          {"go_version", ""},
#ifdef __clang__
          {"compiler", "clang++ " __clang_version__},
#else
          {"compiler", "g++ " __VERSION__},
#endif
          {"platform", "linux"}};
}

}  // namespace

struct Metrics::State {
  explicit State(const MetricsSettings& settings) {
    for (const auto family : settings.families)
      families.try_emplace(family, in, Labels{{"ip_family", std::string(to_string(family))}});
    for (const auto kind : kNetlinkKinds) kinds.emplace_back(in, kind);
    for (const auto resource : kResources) resources.emplace_back(in, resource);
    in.gauge("kubernetes_build_info", alpha("1, labelled with the version of this program"),
             build_labels(settings.version))
        .Set(1);
  }

  FamilyMetrics* of(Family family) {
    const auto it = families.find(family);
    return it == families.end() ? nullptr : &it->second;
  }
  KindMetrics& of(NetlinkKind kind) { return kinds.at(static_cast<std::size_t>(kind)); }
  ResourceMetrics& of(Resource resource) {
    return resources.at(static_cast<std::size_t>(resource));
  }

  prometheus::Registry registry;
  Registrar in{registry};
  std::map<Family, FamilyMetrics> families;
  std::vector<KindMetrics> kinds;  // indexed by NetlinkKind
  std::vector<ResourceMetrics> resources;

  Gauge& services_pending = in.gauge(kube("sync_proxy_rules_service_changes_pending"),
                                     alpha("Changed Services that no sync has taken up"));
  Counter& services_total =
      in.counter(kube("sync_proxy_rules_service_changes_total"), alpha("Changes of Services"));
  Gauge& slices_pending = in.gauge(kube("sync_proxy_rules_endpoint_changes_pending"),
                                   alpha("Changed EndpointSlices that no sync has taken up"));
  Counter& slices_total = in.counter(kube("sync_proxy_rules_endpoint_changes_total"),
                                     alpha("Changes of EndpointSlices"));
  CodeMetrics healthz{in, "proxy_healthz_total", "Answers of /healthz, by status"};
  CodeMetrics livez{in, "proxy_livez_total", "Answers of /livez, by status"};
  Counter& repairs = in.counter("ipvsproxier_repairs_total",
                                "Operations to undo what others changed in the kernel");
  Gauge& draining = in.gauge("ipvsproxier_real_servers_draining",
                             "Real servers at weight 0 that wait for their connections to end");
  Gauge& kernel_held = ResourceMetrics::held_of(in, "kernel");
  Gauge& unreadable_flows =
      in.gauge("ipvsproxier_udp_flows_unreadable",
               "1 while stale flows stay because the kernel does not list its flows");
  Gauge& firewall =
      in.gauge("ipvsproxier_firewall_drops",
               "Chains of others in a packet filter that drop packets of Services, or give "
               "them another destination");
  Gauge& lacking = in.gauge("ipvsproxier_services_lacking",
                            "Services that lack something that they ask for on this node");
  Gauge& agreement =
      in.gauge("ipvsproxier_last_full_agreement_timestamp_seconds",
               "When the whole kernel was last read and held, or then got, what it should hold");
};

Metrics::Metrics(const MetricsSettings& settings) : state_(std::make_unique<State>(settings)) {}
Metrics::~Metrics() = default;

void Metrics::sync_took(Family family, Seconds duration) {
  if (auto* of = state_->of(family)) of->sync_duration.Observe(duration.count());
}

void Metrics::sync_succeeded(Family family, Time now) {
  if (auto* of = state_->of(family)) of->last_synced.Set(since_epoch(now));
}

void Metrics::network_programmed(Family family, Seconds latency) {
  if (auto* of = state_->of(family)) of->programming.Observe(latency.count());
}

void Metrics::changes_taken() {
  state_->services_pending.Set(0);
  state_->slices_pending.Set(0);
}

void Metrics::no_local_endpoints(Family family, std::size_t internal, std::size_t external) {
  auto* of = state_->of(family);
  if (!of) return;
  of->no_local_internal.Set(as_double(internal));
  of->no_local_external.Set(as_double(external));
}

void Metrics::rules_failed(Family family) {
  if (auto* of = state_->of(family)) of->rule_failures.Increment();
}

void Metrics::flows_purged(Family family, Seconds duration, std::size_t deleted) {
  auto* of = state_->of(family);
  if (!of) return;
  of->purge_duration.Observe(duration.count());
  of->purged_flows.Increment(as_double(deleted));
}

void Metrics::netlink_sent(NetlinkKind kind, std::size_t messages, std::size_t errors) {
  auto& of = state_->of(kind);
  of.messages.Increment(as_double(messages));
  of.errors.Increment(as_double(errors));
}

void Metrics::repaired(std::size_t operations) {
  state_->repairs.Increment(as_double(operations));
}

void Metrics::servers_draining(std::size_t count) {
  state_->draining.Set(as_double(count));
}

void Metrics::kernel_removal_held(std::size_t count) {
  state_->kernel_held.Set(as_double(count));
}

void Metrics::flows_unreadable(bool are) {
  state_->unreadable_flows.Set(are ? 1 : 0);
}

void Metrics::firewall_drops(std::size_t chains) {
  state_->firewall.Set(as_double(chains));
}

void Metrics::services_meet_foreign(Family family, std::size_t count) {
  if (auto* of = state_->of(family)) of->meet_foreign.Set(as_double(count));
}

void Metrics::services_lacking(std::size_t count) {
  state_->lacking.Set(as_double(count));
}

void Metrics::things_refused(Family family, NetlinkKind kind, std::size_t count) {
  auto* of = state_->of(family);
  if (!of) return;
  const auto gauge = of->refused.find(kind);
  if (gauge != of->refused.end()) gauge->second.get().Set(as_double(count));
}

void Metrics::kernel_agreed(Time now) {
  state_->agreement.Set(since_epoch(now));
}

void Metrics::sync_queued(Family family, Time now) {
  if (auto* of = state_->of(family)) of->last_queued.Set(since_epoch(now));
}

void Metrics::services_changed(std::size_t count) {
  state_->services_total.Increment(as_double(count));
  state_->services_pending.Increment(as_double(count));
}

void Metrics::endpoint_slices_changed(std::size_t count) {
  state_->slices_total.Increment(as_double(count));
  state_->slices_pending.Increment(as_double(count));
}

void Metrics::watch_restarted(Resource resource) {
  state_->of(resource).restarts.Increment();
}

void Metrics::relisted(Resource resource) {
  state_->of(resource).relists.Increment();
}

void Metrics::objects_held(Resource resource, std::size_t count) {
  state_->of(resource).objects.Set(as_double(count));
}

void Metrics::removal_held(Resource resource, std::size_t count) {
  state_->of(resource).held.Set(as_double(count));
}

void Metrics::objects_unreadable(Resource resource, std::size_t count) {
  state_->of(resource).unreadable.Set(as_double(count));
}

void Metrics::node_known(bool is) {
  state_->in.gauge("ipvsproxier_node_known", "1 while the cluster has a Node of this node's name")
      .Set(is ? 1 : 0);
}

void Metrics::packet_filter(std::string_view filter, const std::string& reason) {
  state_->in
      .gauge("ipvsproxier_packet_filter_info", "1, labelled with the packet filter and why it is",
             {{"filter", std::string(filter)}, {"reason", reason}})
      .Set(1);
}

void Metrics::feature(const std::string& name, const std::string& stage, bool enabled) {
  state_->in
      .gauge("kubernetes_feature_enabled", "[BETA] 1 for a feature gate that is on",
             {{"name", name}, {"stage", stage}})
      .Set(enabled ? 1 : 0);
}

void Metrics::healthz_answered(unsigned code) {
  state_->healthz.count(code);
}

void Metrics::livez_answered(unsigned code) {
  state_->livez.count(code);
}

std::string Metrics::exposition(const Status& status, const std::string& service_figures) const {
  auto families = state_->registry.Collect();
  append_process(families);
  append_watch_ages(families, status);
  std::sort(families.begin(), families.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto later = std::find_if(families.begin(), families.end(), [](const auto& family) {
    return family.name > "ipvsproxier_service_";
  });
  const prometheus::TextSerializer serializer;
  using Families = std::vector<MetricFamily>;
  return serializer.Serialize(Families(families.begin(), later)) + service_figures +
         serializer.Serialize(Families(later, families.end()));
}

}  // namespace ipvsproxier::serve
