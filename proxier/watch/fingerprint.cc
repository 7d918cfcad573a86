#include "proxier/watch/fingerprint.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ipvsproxier::watch {

namespace {

// Order and number of values count, so that no two objects look alike because values moved.
class Mixer {
 public:
  template <typename... T>
  Mixer& add(const T&... values) {
    (add_one(values), ...);
    return *this;
  }
  std::uint64_t result() const { return state_; }

 private:
  // The finalizer of SplitMix64: each input bit changes half of the output bits.
  void mix(std::uint64_t value) {
    state_ = (state_ + 0x9e3779b97f4a7c15U) ^ value;
    state_ = (state_ ^ (state_ >> 30U)) * 0xbf58476d1ce4e5b9U;
    state_ = (state_ ^ (state_ >> 27U)) * 0x94d049bb133111ebU;
    state_ ^= state_ >> 31U;
  }

  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void add_one(T value) {
    mix(static_cast<std::uint64_t>(value));
  }
  void add_one(const std::string& text) { mix(std::hash<std::string_view>()(text)); }
  void add_one(const netlink::IpAddress& address) {
    add(address.family());
    mix(std::hash<std::string_view>()(
        {reinterpret_cast<const char*>(address.bytes().data()), address.bytes().size()}));
  }
  void add_one(const netlink::IpPrefix& prefix) { add(prefix.address, prefix.length); }

  template <typename T>
  void add_one(const std::optional<T>& value) {
    add(value.has_value());
    if (value) add(*value);
  }
  template <typename T>
  void add_one(const std::vector<T>& values) {
    add(values.size());
    for (const auto& value : values) add(value);
  }
  // The structured bindings name every field: a new field does not compile until it is added here.
  void add_one(const api::NamespacedName& value) {
    const auto& [ns, name] = value;
    add(ns, name);
  }
  void add_one(const api::ServicePort& port) {
    const auto& [name, protocol, number, node_port] = port;
    add(name, protocol, number, node_port);
  }
  void add_one(const api::Annotation& annotation) {
    const auto& [key, value] = annotation;
    add(key, value);
  }
  void add_one(const api::Service& service) {
    const auto& [name, origin, creation_time, type, headless, cluster_ips, ip_families, ports,
                 external_ips, load_balancer_ips, source_ranges, affinity_seconds,
                 external_policy_local, internal_policy_local, health_check_node_port,
                 annotations] = service;
    add(name, origin, creation_time, type, headless, cluster_ips, ip_families, ports, external_ips,
        load_balancer_ips, source_ranges, affinity_seconds, external_policy_local,
        internal_policy_local, health_check_node_port, annotations);
  }
  void add_one(const api::EndpointList& endpoints) {
    mix(std::hash<std::string_view>()(endpoints.bytes()));
  }
  void add_one(const api::EndpointPort& port) {
    const auto& [name, protocol, number] = port;
    add(name, protocol, number);
  }
  void add_one(const api::EndpointSlice& slice) {
    // The trigger time is not part of the slice's state.
    const auto& [name, origin, service, family, ports, endpoints, weight, trigger] = slice;
    static_cast<void>(trigger);
    add(name, origin, service, family, ports, endpoints, weight);
  }
  void add_one(const api::Node& node) {
    const auto& [name, origin, zone, internal_ips, external_ips, pod_cidrs, to_be_deleted] = node;
    add(name, origin, zone, internal_ips, external_ips, pod_cidrs, to_be_deleted);
  }

  std::uint64_t state_ = 0;
};

}  // namespace

std::uint64_t fingerprint(const api::Object& object) {
  Mixer mixer;
  std::visit([&](const auto& value) { mixer.add(object.index(), value); }, object);
  return mixer.result();
}

}  // namespace ipvsproxier::watch
