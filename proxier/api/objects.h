#pragma once

// Service, EndpointSlice and Node with only the fields that proxying and inspection read. Default
// values are those of the API, so that a hand-written manifest means what an API server would make
// of it. Values; any thread.

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "netlink/ip_address.h"
#include "proxier/api/endpoint_list.h"
#include "proxier/api/names.h"

namespace ipvsproxier::api {

using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;
using netlink::Protocol;

struct ServicePort {
  std::string name;
  Protocol protocol = Protocol::tcp;
  std::uint16_t port = 0;       // 1..65535
  std::uint16_t node_port = 0;  // 0: none

  friend auto operator<=>(const ServicePort&, const ServicePort&) = default;
};

// An annotation that shapes how a Service is proxied (annotations.h), as written.
struct Annotation {
  std::string key;
  std::string value;

  friend auto operator<=>(const Annotation&, const Annotation&) = default;
};

enum class ServiceType : std::uint8_t { cluster_ip, node_port, load_balancer, external_name };
std::string_view to_string(ServiceType type);  // "ClusterIP", as in the API

struct Service {
  NamespacedName name;
  std::string origin;                         // file of the manifest; "" from an API server
  std::optional<std::int64_t> creation_time;  // seconds since 1970, UTC
  ServiceType type = ServiceType::cluster_ip;
  bool headless = false;               // spec.clusterIP is "None"
  std::vector<IpAddress> cluster_ips;  // spec.clusterIPs, else spec.clusterIP; may be empty
  std::vector<Family> ip_families;     // spec.ipFamilies; may be empty
  std::vector<ServicePort> ports;
  std::vector<IpAddress> external_ips;
  std::vector<IpAddress> load_balancer_ips;  // status ingress with an IP and ipMode VIP or unset
  std::vector<IpPrefix> source_ranges;       // spec.loadBalancerSourceRanges
  std::optional<std::uint32_t> affinity_seconds;  // set with sessionAffinity ClientIP
  bool external_policy_local = false;             // spec.externalTrafficPolicy is Local
  bool internal_policy_local = false;             // spec.internalTrafficPolicy is Local
  std::uint16_t health_check_node_port = 0;
  std::vector<Annotation> annotations;  // those of annotations.h, ordered by key

  friend auto operator<=>(const Service&, const Service&) = default;
};

struct EndpointPort {
  std::string name;
  Protocol protocol = Protocol::tcp;
  std::uint16_t port = 0;

  friend auto operator<=>(const EndpointPort&, const EndpointPort&) = default;
};

// The time of the cluster change behind an object's current state, to measure the delay until it is
// programmed. It is no part of the object's identity: all values compare equal.
struct TriggerTime {
  std::optional<std::chrono::system_clock::time_point> time;

  friend std::strong_ordering operator<=>(const TriggerTime&, const TriggerTime&) {
    return std::strong_ordering::equal;
  }
  friend bool operator==(const TriggerTime&, const TriggerTime&) { return true; }
};

struct EndpointSlice {
  NamespacedName name;
  std::string origin;
  std::string service;                  // label kubernetes.io/service-name; may be empty
  Family family = Family::ipv4;         // addressType
  std::vector<EndpointPort> ports;      // ports without a number are left out
  EndpointList endpoints;               // without endpoints that have no usable address
  std::optional<std::uint32_t> weight;  // annotation ipvs-proxier/weight: of its endpoints
  TriggerTime trigger;  // annotation endpoints.kubernetes.io/last-change-trigger-time

  friend auto operator<=>(const EndpointSlice&, const EndpointSlice&) = default;
};

struct Node {
  std::string name;
  std::string origin;
  std::string zone;  // label topology.kubernetes.io/zone
  std::vector<IpAddress> internal_ips;
  std::vector<IpAddress> external_ips;
  std::vector<IpPrefix> pod_cidrs;  // spec.podCIDRs
  // Has a deletionTimestamp or the cluster autoscaler's taint.
  bool to_be_deleted = false;

  friend auto operator<=>(const Node&, const Node&) = default;
};

using Object = std::variant<Service, EndpointSlice, Node>;

// "Service shop/web", "Node n1".
std::string describe(const Object& object);

}  // namespace ipvsproxier::api
