#pragma once

// JSON -> Service, EndpointSlice, Node. Missing and odd fields are handled here and nowhere else.
// Pure; any thread; never throws on account of its input.
//
// What is wrong is a Problem with the origin, the object and the field's path:
// - a wrong type, a number out of range or an unknown enumeration value: error, object left out;
// - a bad address in a list (externalIPs, load-balancer ingress, an endpoint, a node address, a
//   pod CIDR): error, only that entry is left out; a bad cluster address costs the Service;
// - a bad entry of spec.loadBalancerSourceRanges: error, and the Service gets no load-balancer
//   address at all, since whom it was to keep out is not known;
// - a Service with a cluster address and no ports, or two ports of one name and protocol: error;
// - a Service without any cluster address (nobody here allocates one): warning;
// - a slice of addressType FQDN: warning, ignored (a cluster may hold it, no proxy serves it);
// - a slice port without a number or with 0: warning, left out (the API allows it);
// - an unreadable creationTimestamp: warning, treated as missing.
// Silent: hostname-only and ipMode Proxy ingress; an unreadable trigger time of a slice, which is
// treated as missing; everything that proxying does not read.
//
// What the API server would default is defaulted: namespace "default", type ClusterIP, protocol
// TCP, policies Cluster, affinity timeout 10800, a Node's podCIDRs its podCIDR, an absent slice
// port name is "" (so the "null name" of kube-proxy's cache cannot occur), absent conditions ready
// and serving are true.

#include <optional>
#include <string>
#include <string_view>

#include "proxier/api/json_value.h"
#include "proxier/api/object_kind.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::api {

inline constexpr std::string_view kServiceNameLabel = "kubernetes.io/service-name";
inline constexpr std::string_view kProxyNameLabel = "service.kubernetes.io/service-proxy-name";
inline constexpr std::string_view kHeadlessLabel = "service.kubernetes.io/headless";
inline constexpr std::string_view kTriggerTimeAnnotation =
    "endpoints.kubernetes.io/last-change-trigger-time";
inline constexpr std::string_view kZoneLabel = "topology.kubernetes.io/zone";
inline constexpr std::string_view kToBeDeletedTaint = "ToBeDeletedByClusterAutoscaler";

// `implied`: what an item of a list is, as far as it does not say so itself.

// What it says of itself; "" unless that is text.
std::string_view kind_text(const JsonValue& object,
                           std::optional<ObjectKind> implied = std::nullopt);
std::string_view version_text(const JsonValue& object,
                              std::optional<ObjectKind> implied = std::nullopt);

// By kind and API group, any version.
std::optional<ObjectKind> find_kind(const JsonValue& object,
                                    std::optional<ObjectKind> implied = std::nullopt);

// As far as the names are there; a Node has no namespace, others without are in "default".
NamespacedName name_of(const JsonValue& object, ObjectKind kind);

// "Service shop/web", as far as the names are there; "" when the value is no object.
std::string describe_json(const JsonValue& object,
                          std::optional<ObjectKind> implied = std::nullopt);

// Problems are appended. nullopt: the object is left out and a problem says why.
std::optional<Object> decode_object(const JsonValue& json, const std::string& origin,
                                    Problems& problems,
                                    std::optional<ObjectKind> implied = std::nullopt);

}  // namespace ipvsproxier::api
