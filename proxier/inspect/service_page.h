#pragma once

// ServicePage: all that is known of one Service, for `ipvsctl service`. The daemon makes it from
// its objects and plan and sends it as JSON (/v1/service); ipvsctl reads that, adds what it finds
// in the kernel, and prints the page or writes it as JSON or YAML again. Values; pure, any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "proxier/api/document_writer.h"
#include "proxier/api/json_value.h"
#include "proxier/api/objects.h"
#include "proxier/plan/planner.h"

namespace ipvsproxier::inspect {

// A virtual service that a port of the Service asks for.
struct PageFacet {
  netlink::IpAddress address;
  std::uint16_t port = 0;
  std::string facet;   // "cluster IP"
  bool held = false;   // else another Service has this address and port: the holder
  std::string holder;  // "shop/web"

  friend bool operator==(const PageFacet&, const PageFacet&) = default;
};

// "" for what is not known.
struct PageWhereabouts {
  std::string pod;
  std::string node;
  std::string zone;

  friend bool operator==(const PageWhereabouts&, const PageWhereabouts&) = default;
};

struct PageEndpoint {
  netlink::IpAddress address;
  std::uint16_t port = 0;
  bool local = false;                          // on this node
  bool gets = false;                           // new connections
  std::string use;                             // why, or why not: "other zone"
  std::uint32_t weight = 1;                    // of its real server
  std::string weight_why;                      // "": nobody asks for another
  std::optional<PageWhereabouts> whereabouts;  // added by ipvsctl

  friend bool operator==(const PageEndpoint&, const PageEndpoint&) = default;
};

// The endpoints for one kind of traffic.
struct PageTraffic {
  bool local_only = false;  // the traffic policy is Local
  bool by_local = false;    // the policy is applied
  // Of clients outside the cluster alone.
  bool outside_only = false;
  bool drops = false;  // their packets are dropped: all endpoints are on other nodes
  std::vector<PageEndpoint> endpoints;

  friend bool operator==(const PageTraffic&, const PageTraffic&) = default;
};

// plan::ClientReach, in words.
struct PageReach {
  std::string client;   // "a pod of this node"
  std::string outcome;  // "served"
  bool at_node_port = false;
  std::uint64_t here = 0;  // endpoints
  std::uint64_t elsewhere = 0;
  bool keeps_source = false;

  friend bool operator==(const PageReach&, const PageReach&) = default;
};

// A port in one address family.
struct PagePort {
  netlink::Family family = netlink::Family::ipv4;
  std::string name;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::uint16_t port = 0;
  std::vector<PageFacet> facets;
  PageTraffic internal;                   // to the cluster IP
  std::optional<PageTraffic> external;    // to all other addresses, if there may be such traffic
  std::optional<PageTraffic> in_cluster;  // to the address for clients within the cluster
  std::vector<PageReach> reach;           // of external policy Local
};

// A real server at weight 0 that waits for its connections to end.
struct PageDraining {
  std::string service;  // "10.96.0.9:80/TCP"
  std::string server;   // "10.244.0.9:8080"
  std::int64_t for_ms = 0;
  std::optional<std::int64_t> left_ms;  // nullopt: as long as the connections last
};

// An annotation of ours or of kube-router.
struct PageAnnotation {
  std::string key;
  std::string value;
  std::string remark;  // why it has no effect; "": it has
};

struct PageChange {
  std::string when;  // in RFC 3339
  double took_ms = 0;
};

// What the daemon knows and has decided.
struct PageDecisions {
  api::Service service;
  std::vector<PageAnnotation> annotations;
  std::vector<PagePort> ports;
  std::vector<PageDraining> draining;
  std::vector<std::string> refused;       // the kernel's refusals of its entries, in words
  std::optional<PageChange> last_change;  // nullopt: no longer known
};

struct PageElement {
  std::string set;
  std::string element;
  std::optional<bool> in_kernel;  // nullopt: not compared
};

// A rule that consults one of the sets.
struct PageRule {
  std::string set;
  std::string family;
  std::string table;
  std::string chain;
  std::string rule;
};

// What ipvsctl finds out on the node.
struct PageNodeFacts {
  std::vector<PageRule> rules;
  std::vector<std::string> unknown;  // what could not be read, and why
};

struct ServicePage {
  std::string address;  // of a page about an address that no Service has, else ""
  std::optional<PageDecisions> decisions;  // nullopt: such a page
  std::vector<PageElement> elements;       // in IP sets
  std::optional<PageNodeFacts> node;       // nullopt: as the daemon sends it
};

// Without `draining`, `refused` and `last_change`, which the sync thread knows. nullopt: there is
// no such Service.
std::optional<ServicePage> service_page(const api::NamespacedName& name,
                                        const model::ClusterState& cluster,
                                        const plan::Planner& planner);

// Writes the members of the page, by name, into an open object:
//
//   "address", or "annotations": [{"key","remark","value"},...],
//   "draining": [{"forMilliseconds","leftMilliseconds","server","service"},...]
//   "elements": [{"element","inKernel","set"},...]
//   "lastChange": {"tookMilliseconds","when"} or null
//   "ports": [{"external": as "internal", or absent,"family",
//              "inCluster": as "internal", or absent,
//              "internal": {"byLocal","drops",
//                           "endpoints":
//                           [{"address","endpoint","gets","local","port","use","weight"[,"weightWhy"]},...],
//                           "outsideOnly","policy"},
//              "name","port","protocol",
//              "reach": [{"atNodePort","client","elsewhere","here","keepsSource","outcome"},...],
//              "virtual": [{"address","facet","held","holder","port"},...]},...]
//   "refused": [...], "rules": [{"chain","family","rule","set","table"},...],
//   "service": the object, "unknown": [...]
void write_members(api::DocumentWriter& out, const ServicePage& page);

// Reads a page as the daemon sends it. nullopt: it is none.
std::optional<ServicePage> read_service_page(const api::JsonValue& json);

}  // namespace ipvsproxier::inspect
