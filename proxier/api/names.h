#pragma once

// Kinds and names of Kubernetes objects: ordered values; any thread.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "netlink/ip_address.h"

namespace ipvsproxier::api {

// The kinds of objects that are decoded. A kind of the same name in another API group is a
// different kind.
enum class ObjectKind : std::uint8_t { service, endpoint_slice, node };

std::string_view to_string(ObjectKind kind);       // "Service"
std::string_view api_version_of(ObjectKind kind);  // "v1", "discovery.k8s.io/v1"

struct NamespacedName {
  std::string ns;
  std::string name;

  friend auto operator<=>(const NamespacedName&, const NamespacedName&) = default;
};

inline std::string to_string(const NamespacedName& name) {
  return name.ns + "/" + name.name;
}

struct ObjectKey {
  ObjectKind kind = ObjectKind::service;
  NamespacedName name;  // a Node has no namespace

  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

// One port of one Service: the key that joins Service ports with EndpointSlice ports.
struct ServicePortName {
  NamespacedName service;
  std::string port;  // may be empty
  netlink::Protocol protocol = netlink::Protocol::tcp;

  friend auto operator<=>(const ServicePortName&, const ServicePortName&) = default;
};

// "ns/name:port/TCP"; an unnamed port is "ns/name/TCP".
inline std::string to_string(const ServicePortName& name) {
  return to_string(name.service) + (name.port.empty() ? "" : ":" + name.port) + "/" +
         std::string(netlink::to_string(name.protocol));
}

}  // namespace ipvsproxier::api
