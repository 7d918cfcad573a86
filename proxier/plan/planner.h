#pragma once

// The planner: cluster objects and this node in, the kernel state that they ask for out. Pure,
// total and deterministic: no I/O, no clock, no chance. One thread at a time.

#include <cstddef>
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

// How traffic of pods on this node is told from other traffic (detectLocalMode).
enum class DetectLocalMode : std::uint8_t {
  cluster_cidr,
  node_cidr,
  bridge_interface,
  interface_name_prefix,
};

struct PlannerOptions {
  std::vector<netlink::Family> families = {netlink::Family::ipv4, netlink::Family::ipv6};
  std::string scheduler = "rr";
  std::uint32_t masquerade_mark = 0x4000;
  bool masquerade_all = false;
  DetectLocalMode detect_local = DetectLocalMode::cluster_cidr;
  std::vector<netlink::IpPrefix> cluster_cidrs;
  std::string bridge_interface;
  std::string interface_prefix;
  std::vector<netlink::IpPrefix> node_port_addresses;  // empty, and not primary: every address
  bool node_port_primary = false;                      // the node's own IPs too
  std::vector<netlink::IpPrefix> exclude_cidrs;
  bool allow_external_ips = true;
  bool drain_deleted_services = false;  // their TCP connections may finish
  bool bind_by_routes = false;          // VIPs are no addresses, local routes lead to them
  Differences differences;
};

// How many Services want endpoints on this node alone and have none here, though elsewhere: those
// whose internal, and those whose external policy it is.
struct LocalLack {
  std::size_t internal = 0;
  std::size_t external = 0;

  friend bool operator==(const LocalLack&, const LocalLack&) = default;
};

class FamilyPlanner;
struct PortReport;

// Keeps the desired state while the cluster changes: the cost of an update follows what changed.
// However the cluster came to be what it is, the state is that of a fresh planner.
class Planner {
 public:
  explicit Planner(PlannerOptions options);
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;
  ~Planner();

  // This node as it is now. Before the first update(); what depends on it changes with the next.
  void set_node(const NodeInfo& node);

  // These Services or their EndpointSlices changed. Answers what they ask for and no longer ask
  // for: of elements what changed, of virtual services and addresses all.
  Scope update(const std::set<api::NamespacedName>& services, const model::ClusterState& cluster);

  // All Services anew, where everything is looked at anyway.
  void update_all(const model::ClusterState& cluster);

  // All that this Service asks for and gets: what to look at to try it again.
  Scope scope_of(const api::NamespacedName& service) const;
  // Its virtual services and addresses alone.
  Scope vips_of(const api::NamespacedName& service) const;

  // The Service that has the virtual service; nullptr: none has. Valid until the next update().
  const api::NamespacedName* owner_of(const netlink::VirtualServiceKey& service) const;

  // The virtual services that this Service has, of all that it asks for.
  std::vector<Claim> claims_held_by(const api::NamespacedName& service) const;

  // What was decided for this Service and why, a port of a family after the other. The result
  // points into `cluster`, which is that of the last update().
  std::vector<PortReport> report_of(const api::NamespacedName& service,
                                    const model::ClusterState& cluster) const;

  const DesiredState& desired() const { return state_; }
  // Whoever knows the kernel says what there is. What a Service asks for from the next update() on
  // is none any more.
  Leftovers& leftovers() { return state_.leftovers; }
  const PlannerOptions& options() const { return options_; }
  LocalLack local_lack(netlink::Family family) const;
  api::Problems problems() const;  // conflicts between Services: what is left out and why

 private:
  const PlannerOptions options_;
  DesiredState state_;
  std::vector<std::unique_ptr<FamilyPlanner>> families_;
};

struct Plan {
  DesiredState state;
  api::Problems problems;
};

// All at once.
Plan plan(const model::ClusterState& cluster, const NodeInfo& node, const PlannerOptions& options);

}  // namespace ipvsproxier::plan
