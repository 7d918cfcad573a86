#pragma once

// JSON -> Service, EndpointSlice, Node. All missing and unusual fields are handled here. Pure; any
// thread; never throws because of its input.
//
// An invalid field becomes a Problem with the origin, the object and the field's path:
// - a wrong type, a number out of range or an unknown enumeration value: error, object left out;
// - a bad address in a list (externalIPs, load-balancer ingress, an endpoint, a node address, a
//   pod CIDR): error, only that entry is left out; a bad cluster address costs the Service;
// - a load-balancer ingress of an unknown ipMode: warning, that entry is left out;
// - a bad entry of spec.loadBalancerSourceRanges: error, and the Service gets no load-balancer
//   address at all, because the clients to keep out are unknown;
// - a Service with a cluster address and no ports, or two ports of one name and protocol: error;
// - a Service without any cluster address (this program does not allocate one): warning;
// - a slice of addressType FQDN: warning, ignored (valid in a cluster, but no proxy serves it);
// - a slice port without a number or with 0: warning, left out (the API allows it);
// - an unreadable creationTimestamp: warning, treated as missing.
// No Problem for: hostname-only and ipMode Proxy ingress; an unreadable trigger time of a slice
// (treated as missing); all fields that proxying does not read.
//
// Defaults are those of the API server: namespace "default", type ClusterIP, protocol TCP, policies
// Cluster, affinity timeout 10800, a Node's podCIDRs is its podCIDR, an absent slice port name is
// "" (so the "null name" of kube-proxy's cache cannot occur), absent conditions ready and serving
// are true.

#include <optional>
#include <string>
#include <string_view>

#include "proxier/api/json_value.h"
#include "proxier/api/names.h"
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

// `implied`: the kind of a list's items, for items that do not name their kind or version.

// The object's own kind or apiVersion; "" if it is not text.
std::string_view kind_text(const JsonValue& object,
                           std::optional<ObjectKind> implied = std::nullopt);
std::string_view version_text(const JsonValue& object,
                              std::optional<ObjectKind> implied = std::nullopt);

// Finds the kind by name and API group, in any version.
std::optional<ObjectKind> find_kind(const JsonValue& object,
                                    std::optional<ObjectKind> implied = std::nullopt);

// The parts of the name that are present; a Node has no namespace, the namespace of others defaults
// to "default".
NamespacedName name_of(const JsonValue& object, ObjectKind kind);

// "Service shop/web" with the parts that are present; "" if the value is no object.
std::string describe_json(const JsonValue& object,
                          std::optional<ObjectKind> implied = std::nullopt);

// Appends problems. nullopt: the object is left out, and a problem says why.
std::optional<Object> decode_object(const JsonValue& json, const std::string& origin,
                                    Problems& problems,
                                    std::optional<ObjectKind> implied = std::nullopt);

// Why an object that was decoded so cannot be read; nullopt: it can, or it does not matter.
std::optional<std::string> why_unreadable(const std::optional<Object>& object,
                                          const Problems& problems);

}  // namespace ipvsproxier::api
