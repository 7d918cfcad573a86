#pragma once

// Metrics: counts events and exposes them for Prometheus. Every function may be called on any
// thread and costs a few atomic operations (histograms: a short lock); no name is looked up.
//
// kube-proxy's metrics (prefix kubeproxy_, except where a full name is given), and their functions:
//   sync_proxy_rules_duration_seconds{ip_family}                         sync_took()
//   sync_proxy_rules_last_queued_timestamp_seconds{ip_family}            sync_queued()
//   sync_proxy_rules_last_timestamp_seconds{ip_family}                   sync_succeeded()
//   network_programming_duration_seconds{ip_family}                      network_programmed()
//   sync_proxy_rules_endpoint_changes_pending, ..._total                 endpoint_slices_changed()
//   sync_proxy_rules_service_changes_pending, ..._total                  services_changed()
//   sync_proxy_rules_no_local_endpoints_total{traffic_policy,ip_family}  no_local_endpoints()
//   sync_proxy_rules_iptables_restore_failures_total{ip_family}          rules_failed()
//   conntrack_reconciler_sync_duration_seconds{ip_family}                flows_purged()
//   conntrack_reconciler_deleted_entries_total{ip_family}                flows_purged()
//   proxy_healthz_total{code} (full name)                                healthz_answered()
//   proxy_livez_total{code} (full name)                                  livez_answered()
//   kubernetes_feature_enabled{name,stage} (full name)                   feature()
//   kubernetes_build_info, process_* (full names)                        -
// Our own metrics (prefix ipvsproxier_):
//   netlink_messages_total{kind}, netlink_errors_total{kind}             netlink_sent()
//   watch_restarts_total{resource}                                       watch_restarted()
//   relists_total{resource}                                              relisted()
//   watch_age_seconds{resource}                                          Status::watch_heard()
//   objects{resource}                                                    objects_held()
//   objects_unreadable{resource}                                         objects_unreadable()
//   mass_removal_held{resource}                                          removal_held(),
//                                                                        kernel_removal_held()
//   repairs_total                                                        repaired()
//   real_servers_draining                                                servers_draining()
//   udp_flows_unreadable                                                 flows_unreadable()
//   firewall_drops                                                       firewall_drops()
//   refused{ip_family,kind}                                              things_refused()
//   services_meeting_foreign{ip_family}                                  services_meet_foreign()
//   services_lacking                                                     services_lacking()
//   packet_filter_info{filter,reason}                                    packet_filter()
//   node_known                                                           node_known()
//   last_full_agreement_timestamp_seconds                                kernel_agreed()
// Those of service_figures.h are written there.

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
  // The proxied families; values of other families are not counted.
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
  void sync_took(netlink::Family family, Seconds duration);  // failed syncs as well
  void sync_succeeded(netlink::Family family, Time now);
  // Latency from the change of an object, according to its annotation or time stamp, to the kernel.
  void network_programmed(netlink::Family family, Seconds latency);
  void changes_taken();  // no change is pending any more
  // The number of Services whose policy (internal, external) is Local and that have no local
  // endpoint.
  void no_local_endpoints(netlink::Family family, std::size_t internal, std::size_t external);
  void rules_failed(netlink::Family family);
  void flows_purged(netlink::Family family, Seconds duration, std::size_t deleted);
  void netlink_sent(NetlinkKind kind, std::size_t messages, std::size_t errors);
  void repaired(std::size_t operations);  // repairs after a reading of the kernel
  void servers_draining(std::size_t count);
  // Virtual and real servers that are kept although the first lists lack them
  // (--mass-removal-brake).
  void kernel_removal_held(std::size_t count);
  void flows_unreadable(bool are);  // stale flows then stay
  // The number of chains of others that drop packets of Services.
  void firewall_drops(std::size_t chains);
  // Number of entries that the kernel currently refuses because of the objects that ask for them:
  // virtual services (or their real servers), addresses or set elements.
  void things_refused(netlink::Family family, NetlinkKind kind, std::size_t count);
  // Number of Services that ask for what virtual services of other programs have.
  void services_meet_foreign(netlink::Family family, std::size_t count);
  // Number of Services that lack something that they ask for, at each whole reading of the kernel.
  void services_lacking(std::size_t count);
  // The whole kernel was read and is as desired, if necessary after repairs.
  void kernel_agreed(Time now);

  // --- the main thread -------------------------------------------------------------------------
  void sync_queued(netlink::Family family, Time now);
  void services_changed(std::size_t count);
  void endpoint_slices_changed(std::size_t count);
  void watch_restarted(Resource resource);
  void relisted(Resource resource);
  void objects_held(Resource resource, std::size_t count);
  // Of those, objects that are kept although the last list lacks them (--mass-removal-brake).
  void removal_held(Resource resource, std::size_t count);
  // Objects that exist and cannot be read.
  void objects_unreadable(Resource resource, std::size_t count);
  // Whether the cluster has a Node of this node's name.
  void node_known(bool is);
  // Once: "iptables" or "nftables", and why it was chosen.
  void packet_filter(std::string_view filter, const std::string& reason);
  // Once for each feature gate; `stage` is "ALPHA", "BETA", "DEPRECATED", or "" for a final gate.
  void feature(const std::string& name, const std::string& stage, bool enabled);

  // --- the HTTP server -------------------------------------------------------------------------
  void healthz_answered(unsigned code);  // 200 or 503
  void livez_answered(unsigned code);
  // The Prometheus text format, metric families sorted by name. `service_figures`: figures_text().
  std::string exposition(const Status& status, const std::string& service_figures = "") const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ipvsproxier::serve
