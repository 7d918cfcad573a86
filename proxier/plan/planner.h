#pragma once

// The planner: turns cluster objects and facts about this node into the desired kernel state. Pure,
// total and deterministic: no I/O, no clock, no randomness. One thread at a time.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxier/api/problem.h"
#include "proxier/model/cluster_state.h"
#include "proxier/plan/claims.h"
#include "proxier/plan/desired_state.h"
#include "proxier/plan/differences.h"
#include "proxier/plan/node_info.h"
#include "proxier/plan/scope.h"

namespace ipvsproxier::plan {

// How traffic of pods on this node is recognized (detectLocalMode).
enum class DetectLocalMode : std::uint8_t {
  cluster_cidr,
  node_cidr,
  bridge_interface,
  interface_name_prefix,
};

struct PlannerOptions {
  std::vector<netlink::Family> families = {netlink::Family::ipv4, netlink::Family::ipv6};
  std::string scheduler = "rr";
  std::optional<std::uint32_t> scheduler_flags;  // of that scheduler; nullopt: ours
  model::Thresholds max_connections;             // of each real server
  std::uint32_t masquerade_mark = 0x4000;
  bool masquerade_all = false;
  DetectLocalMode detect_local = DetectLocalMode::cluster_cidr;
  std::vector<netlink::IpPrefix> cluster_cidrs;
  std::string bridge_interface;
  std::string interface_prefix;
  // Empty, and neither of the next two: all addresses.
  std::vector<netlink::IpPrefix> node_port_addresses;
  bool node_port_primary = false;    // the node's own IPs as well
  bool node_port_localhost = false;  // 127.0.0.1 and ::1 as well (ipset/rules/localhost_rules.h)
  std::vector<netlink::IpPrefix> exclude_cidrs;
  bool allow_external_ips = true;
  std::uint16_t healthz_port = 0;       // of our health server, if it is on all addresses
  bool drain_deleted_services = false;  // their connections may finish
  bool bind_by_routes = false;          // VIPs are bound by local routes instead of addresses
  ipset::PacketFilter packet_filter = ipset::PacketFilter::iptables;
  // One of a family at most: of in_cluster_address.h.
  std::vector<netlink::IpPrefix> in_cluster_ranges;
  Differences differences;

  // What only nf_tables has rules for: clients within the cluster reach endpoints of policy Local
  // on other nodes, and node ports are on localhost.
  bool sends_clients_on() const {
    return packet_filter == ipset::PacketFilter::nftables && differences.in_cluster_clients;
  }
  bool serves_localhost() const {
    return packet_filter == ipset::PacketFilter::nftables && node_port_localhost;
  }
};

// Whether the local detector recognizes pods by this link.
inline bool detects_link(const PlannerOptions& options, std::string_view link) {
  using enum DetectLocalMode;
  return (options.detect_local == bridge_interface && link == options.bridge_interface) ||
         (options.detect_local == interface_name_prefix &&
          link.starts_with(options.interface_prefix));
}

// Number of Services with policy Local that have endpoints, but none on this node: by internal and
// by external traffic policy.
struct LocalLack {
  std::size_t internal = 0;
  std::size_t external = 0;

  friend bool operator==(const LocalLack&, const LocalLack&) = default;
};

class FamilyPlanner;
struct PortReport;

// Keeps the desired state up to date: the cost of an update is proportional to the change. The
// result equals that of a new planner, whatever the history.
class Planner {
 public:
  explicit Planner(PlannerOptions options);
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;
  ~Planner();

  // Sets the facts about this node. Call before the first update(); takes effect with the next one.
  void set_node(const NodeInfo& node);

  // Sets the virtual services of other programs: what they have no Service gets. Call before the
  // first update(), or pass the Services that are returned to the next one.
  std::set<api::NamespacedName> set_foreign(const std::set<netlink::VirtualServiceKey>& foreign,
                                            const model::ClusterState& cluster);

  // Sets the schedulers that this kernel lacks: Services that ask for them have the node's. Pass
  // the Services that are returned to the next update().
  std::set<api::NamespacedName> set_absent_schedulers(
      const std::set<std::string, std::less<>>& absent, const model::ClusterState& cluster);

  // Sets the addresses by which this node reaches the API server: no Service gets them
  // (api_server.h). Pass the Services that are returned to the next update().
  std::set<api::NamespacedName> set_api_server(const std::set<netlink::IpAddress>& reached,
                                               const model::ClusterState& cluster);

  // Plans again the given Services: all that changed, or whose EndpointSlices changed. Returns the
  // keys to compare: the elements that changed, and all virtual services and addresses that the
  // Services ask for or no longer ask for.
  Scope update(const std::set<api::NamespacedName>& services, const model::ClusterState& cluster);

  // The same, with the keys of each Service that was planned: also of those whose plan changed
  // because of the given ones.
  ScopesByService update_each(const std::set<api::NamespacedName>& services,
                              const model::ClusterState& cluster);

  // Plans all Services again, for callers that compare everything anyway.
  void update_all(const model::ClusterState& cluster);

  // All keys that this Service asks for and gets: the scope to try it again.
  Scope scope_of(const api::NamespacedName& service) const;
  // Only its virtual services and addresses.
  Scope vips_of(const api::NamespacedName& service) const;

  // The Service that owns the virtual service; nullptr: none. Valid until the next update().
  const api::NamespacedName* owner_of(const netlink::VirtualServiceKey& service) const;

  // The claims of this Service that it owns.
  std::vector<Claim> claims_held_by(const api::NamespacedName& service) const;

  // What the annotations of this Service ask for, as far as they count here.
  model::ParsedSettings settings_of(const api::NamespacedName& service,
                                    const model::ClusterState& cluster) const;

  // The decisions for this Service with their reasons, one port and family after the other. The
  // result points into `cluster`, which must be that of the last update().
  std::vector<PortReport> report_of(const api::NamespacedName& service,
                                    const model::ClusterState& cluster) const;

  // Whether the rules of a planned family settle destinations (RuleParameters::keep_destinations).
  void keep_destinations(netlink::Family family, bool keep) {
    state_.rules.at(family).keep_destinations = keep;
  }

  // Whether they keep connections out of flowtables (RuleParameters::unaccelerated).
  void unaccelerated(netlink::Family family, bool keep) {
    state_.rules.at(family).unaccelerated = keep;
  }

  const DesiredState& desired() const { return state_; }
  // Set by the caller, who knows the kernel's state. An entry that a Service asks for in a later
  // update() stops being a leftover.
  Leftovers& leftovers() { return state_.leftovers; }
  const PlannerOptions& options() const { return options_; }
  LocalLack local_lack(netlink::Family family) const;
  // The number of Services that ask for what foreign virtual services of the family have.
  std::size_t meet_foreign(netlink::Family family) const;
  // Conflicts between Services: what is left out, and why.
  api::Problems problems() const;

 private:
  const PlannerOptions options_;
  DesiredState state_;
  std::vector<std::unique_ptr<FamilyPlanner>> families_;
};

struct Plan {
  DesiredState state;
  api::Problems problems;
};

// Plans everything at once.
Plan plan(const model::ClusterState& cluster, const NodeInfo& node, const PlannerOptions& options);

}  // namespace ipvsproxier::plan
