#pragma once

// Metrics: counts what happens, and writes it down for Prometheus. Every function may be called on
// any thread and costs some atomic operations (histograms: a short lock); no name is looked up.
//
// With kube-proxy's names (prefix kubeproxy_), labels and buckets; who bumps them:
//   sync_proxy_rules_duration_seconds{ip_family}                       sync_took()
//   sync_proxy_rules_last_queued_timestamp_seconds{ip_family}          sync_queued(), and at start
//   sync_proxy_rules_last_timestamp_seconds{ip_family}                 sync_succeeded()
//   network_programming_duration_seconds{ip_family}                    network_programmed()
//   sync_proxy_rules_endpoint_changes_pending, ..._total               endpoint_slices_changed()
//   sync_proxy_rules_service_changes_pending, ..._total                services_changed()
//   sync_proxy_rules_no_local_endpoints_total{traffic_policy,ip_family}  no_local_endpoints()
//   sync_proxy_rules_iptables_restore_failures_total{ip_family}        rules_failed()
//   conntrack_reconciler_sync_duration_seconds{ip_family}              flows_purged()
//   conntrack_reconciler_deleted_entries_total{ip_family}              flows_purged()
//   proxy_healthz_total{code}, proxy_livez_total{code}                 the handlers
// kubernetes_build_info, kubernetes_feature_enabled{name,stage}, process_*
// Our own (prefix ipvsproxier_):
//   netlink_messages_total{kind}, netlink_errors_total{kind}           netlink_sent()
//   watch_restarts_total{resource}, relists_total{resource}            watch_restarted(),
//   relisted() watch_age_seconds{resource} Status::watch_heard() objects{resource} objects_held()
//   objects_unreadable{resource}                                       objects_unreadable()
//   mass_removal_held{resource}                                        removal_held(),
//   kernel_removal_held()
//   repairs_total                                                      repaired()
//   real_servers_draining                                              servers_draining()
//   udp_flows_unreadable                                               flows_unreadable()
//   refused{ip_family,kind}                                            things_refused()
//   last_full_agreement_timestamp_seconds                              kernel_agreed()

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "proxier/serve/status.h"

namespace ipvsproxier::serve {

enum class NetlinkKind : std::uint8_t { ipvs, link, set, rule, conntrack };

struct MetricsSettings {
  // That are proxied; what is told of others is not counted.
  std::vector<netlink::Family> families{netlink::kFamilies.begin(), netlink::kFamilies.end()};
  std::string version;  // "0.1.0"
};

class Metrics {
 public:
  using Seconds = std::chrono::duration<double>;
  using Time = std::chrono::system_clock::time_point;

  explicit Metrics(const MetricsSettings& settings);
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  // --- the sync thread -------------------------------------------------------------------------
  void sync_took(netlink::Family family, Seconds duration);  // also one that failed
  void sync_succeeded(netlink::Family family, Time now);
  // From the change of an object, as its annotation or time stamp says, to the kernel.
  void network_programmed(netlink::Family family, Seconds latency);
  void changes_taken();  // none is pending any more
  // How many Services have none where their policy (internal, external) wants local ones only.
  void no_local_endpoints(netlink::Family family, std::size_t internal, std::size_t external);
  void rules_failed(netlink::Family family);
  void flows_purged(netlink::Family family, Seconds duration, std::size_t deleted);
  void netlink_sent(NetlinkKind kind, std::size_t messages, std::size_t errors);
  void repaired(std::size_t operations);  // what a reading of the kernel found wrong
  void servers_draining(std::size_t count);
  // Virtual and real servers that stay though the first lists lack them (--mass-removal-brake).
  void kernel_removal_held(std::size_t count);
  void flows_unreadable(bool are);  // stale ones stay then
  // What the kernel refuses now for what it is, a problem of the objects that ask for it: virtual
  // services (or real servers of theirs), addresses or set elements.
  void things_refused(netlink::Family family, NetlinkKind kind, std::size_t count);
  // The whole kernel was read and is what it should be, without or after repairs.
  void kernel_agreed(Time now);

  // --- the main thread -------------------------------------------------------------------------
  void sync_queued(netlink::Family family, Time now);
  void services_changed(std::size_t count);
  void endpoint_slices_changed(std::size_t count);
  void watch_restarted(Resource resource);
  void relisted(Resource resource);
  void objects_held(Resource resource, std::size_t count);
  // Of those, what stays though the last list lacks it (--mass-removal-brake).
  void removal_held(Resource resource, std::size_t count);
  // Of objects that exist and cannot be read.
  void objects_unreadable(Resource resource, std::size_t count);
  // Once for each gate; `stage` is "ALPHA", "BETA", "DEPRECATED" or "" for one that is settled.
  void feature(const std::string& name, const std::string& stage, bool enabled);

  // --- the HTTP server -------------------------------------------------------------------------
  void healthz_answered(unsigned code);  // 200 or 503
  void livez_answered(unsigned code);
  // The Prometheus text format, families sorted by name.
  std::string exposition(const Status& status) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ipvsproxier::serve
