#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "netlink/text.h"
#include "proxier/api/decode_parts.h"

namespace ipvsproxier::api {

namespace {

// A value from a later version of the API does not cost the Service: it counts as the value that
// serves all clients from all endpoints.

constexpr std::int64_t kDefaultAffinitySeconds = 10800;
constexpr std::int64_t kLongestAffinitySeconds = 86400;  // limit of the API
constexpr std::string_view kHeadless = "None";

ServiceType type_of(const Fields& spec) {
  const auto text = spec.text("type", "ClusterIP");
  if (text == "NodePort") return ServiceType::node_port;
  if (text == "LoadBalancer") return ServiceType::load_balancer;
  if (text == "ExternalName") return ServiceType::external_name;
  if (text != "ClusterIP" && !text.empty())
    spec.note(Severity::warning, "type",
              fmt::format("must be ClusterIP, NodePort, LoadBalancer or ExternalName, not {}; it "
                          "counts as ClusterIP",
                          show(text)));
  return ServiceType::cluster_ip;
}

bool is_local(const Fields& spec, std::string_view key) {
  const auto text = spec.text(key, "Cluster");
  if (text != "Local" && text != "Cluster" && !text.empty())
    spec.note(Severity::warning, key,
              fmt::format("must be Cluster or Local, not {}; it counts as Cluster", show(text)));
  return text == "Local";
}

void decode_cluster_ips(const Fields& spec, Service& service) {
  const auto single = spec.text("clusterIP");
  auto texts = spec.texts("clusterIPs").value_or(std::vector<std::string>());
  const bool from_list = !texts.empty();
  if (from_list && !single.empty() && texts[0] != single)
    spec.refuse("clusterIPs",
                fmt::format("{} differs from spec.clusterIP, {}", show(texts[0]), show(single)), 0);
  if (!from_list && !single.empty()) texts.push_back(single);
  service.headless = !texts.empty() && texts[0] == kHeadless;
  if (service.headless || service.type == ServiceType::external_name) return;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) continue;
    const std::string_view key = from_list ? "clusterIPs" : "clusterIP";
    const std::size_t index = from_list ? i : Fields::kNoIndex;
    const auto address = IpAddress::parse(texts[i]);
    if (!address) {
      spec.refuse(key, fmt::format("{} is no IP address", show(texts[i])), index);
      continue;
    }
    const auto same_family = [&](const IpAddress& other) {
      return other.family() == address->family();
    };
    if (std::any_of(service.cluster_ips.begin(), service.cluster_ips.end(), same_family))
      spec.refuse(key, fmt::format("{} is a second address of its family", show(texts[i])), index);
    service.cluster_ips.push_back(*address);
  }
}

// Families follow from the addresses, in their order, as an API server fills them in and requires.
void decode_families(const Fields& spec, Service& service) {
  spec.each("ipFamilies", [&](std::size_t index, const JsonValue& element) {
    const auto text = element.text();
    if (text != "IPv4" && text != "IPv6")
      return spec.wrong_type("ipFamilies", "IPv4 or IPv6", element, index);
    const Family family = text == "IPv4" ? Family::ipv4 : Family::ipv6;
    if (index < service.cluster_ips.size() && service.cluster_ips[index].family() != family)
      spec.refuse("ipFamilies",
                  fmt::format("{} is not the family of {}", show(element),
                              service.cluster_ips[index].to_string()),
                  index);
    service.ip_families.push_back(family);
  });
  if (!service.ip_families.empty()) return;
  for (const auto& address : service.cluster_ips) service.ip_families.push_back(address.family());
}

void decode_ports(const Fields& spec, Service& service) {
  std::set<std::pair<std::string, Protocol>> keys;
  spec.each_object("ports", [&](const Fields& entry) {
    ServicePort port;
    port.name = entry.text("name");
    port.protocol = protocol_of(entry);
    port.port = port_number(entry, "port", 1).value_or(0);
    port.node_port = port_number(entry, "nodePort", 0).value_or(0);
    if (!entry.find("port")) entry.refuse("port", "is missing");
    if (!keys.emplace(port.name, port.protocol).second)
      entry.refuse("name", fmt::format("{} is another {} port's name too", show(port.name),
                                       netlink::to_string(port.protocol)));
    service.ports.push_back(std::move(port));
  });
}

void decode_affinity(const Fields& spec, Service& service) {
  const auto affinity = spec.text("sessionAffinity", "None");
  if (affinity == "ClientIP") {
    const Fields config(spec, "sessionAffinityConfig");
    const Fields client_ip(config, "clientIP");
    service.affinity_seconds =
        static_cast<std::uint32_t>(client_ip.integer("timeoutSeconds", 1, kLongestAffinitySeconds)
                                       .value_or(kDefaultAffinitySeconds));
  } else if (affinity != "None" && !affinity.empty()) {
    spec.note(Severity::warning, "sessionAffinity",
              fmt::format("must be None or ClientIP, not {}; it counts as None", show(affinity)));
  }
}

void decode_ingress(const Fields& root, Service& service) {
  const Fields status(root, "status");
  const Fields balancer(status, "loadBalancer");
  balancer.each_object("ingress", [&](const Fields& entry) {
    const auto mode = entry.text("ipMode", "VIP");
    const auto text = entry.text("ip");
    if (text.empty() || mode == "Proxy") return;
    if (mode != "VIP")
      return entry.note(
          Severity::warning, "ipMode",
          fmt::format("must be VIP or Proxy, not {}; this entry is left out", show(mode)));
    if (const auto address = IpAddress::parse(text))
      return service.load_balancer_ips.push_back(*address);
    entry.note(Severity::error, "ip",
               fmt::format("{} is no IP address; this entry is left out", show(text)));
  });
}

// Fails closed: an unreadable range may be the one that was meant to protect the Service.
void decode_source_ranges(const Fields& spec, Service& service) {
  constexpr std::string_view kKey = "loadBalancerSourceRanges";
  constexpr std::string_view kClosed =
      "the Service's load-balancer addresses are not proxied, since whom to admit is not known";
  bool sound = true;
  spec.each(kKey, [&](std::size_t index, const JsonValue& element) {
    const auto text = text_entry(spec, kKey, index, element, kClosed);
    const auto prefix = !text ? std::nullopt : IpPrefix::parse(netlink::trimmed(*text));
    if (prefix) return service.source_ranges.push_back(*prefix);
    sound = false;
    if (!text) return;
    spec.note(Severity::error, kKey, fmt::format("{} is no CIDR; {}", show(*text), kClosed), index);
  });
  if (!sound) service.load_balancer_ips.clear();
}

// Whether a cluster address is given, valid or not.
bool names_address(const Fields& spec) {
  const auto is_given = [](const JsonValue& value) {
    return !value.is_null() && !is_empty_text(value);
  };
  const auto single = spec.find("clusterIP");
  if (single && is_given(*single)) return true;
  const auto list = spec.find("clusterIPs");
  if (!list) return false;
  if (!list->is_list()) return true;
  for (const auto& element : list->elements())
    if (is_given(element)) return true;
  return false;
}

void check_completeness(const Fields& spec, const Service& service) {
  if (service.headless || service.type == ServiceType::external_name) return;
  if (service.cluster_ips.empty()) {
    if (!names_address(spec))
      spec.note(Severity::warning, "clusterIP",
                "is missing, and nobody here allocates one; the Service is not proxied");
    return;
  }
  const auto ports = spec.find("ports");
  if (!ports || (ports->is_list() && ports->elements().empty()))
    spec.refuse("ports", "a Service with a cluster address needs at least one port");
}

}  // namespace

Service decode_service(const Fields& root, Metadata metadata) {
  Service service;
  service.name = std::move(metadata.name);
  service.creation_time = metadata.creation_time;
  service.annotations = std::move(metadata.annotations);
  const Fields spec(root, "spec");
  service.type = type_of(spec);
  decode_cluster_ips(spec, service);
  decode_families(spec, service);
  decode_ports(spec, service);
  service.external_ips = address_list(spec, "externalIPs");
  decode_ingress(root, service);
  decode_source_ranges(spec, service);
  decode_affinity(spec, service);
  service.external_policy_local = is_local(spec, "externalTrafficPolicy");
  service.internal_policy_local = is_local(spec, "internalTrafficPolicy");
  service.health_check_node_port = port_number(spec, "healthCheckNodePort", 0).value_or(0);
  check_completeness(spec, service);
  return service;
}

}  // namespace ipvsproxier::api
