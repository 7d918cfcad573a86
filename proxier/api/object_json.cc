#include "proxier/api/object_json.h"

#include <array>
#include <string>
#include <string_view>

#include "netlink/ip_address.h"
#include "proxier/api/annotations.h"
#include "proxier/api/decode.h"
#include "proxier/api/document_writer.h"
#include "proxier/api/timestamp.h"

namespace ipvsproxier::api {
namespace {

template <typename Values>
void write_texts(DocumentWriter& out, std::string_view name, const Values& values) {
  out.list(name, values, [&](const auto& value) { out.value(value.to_string()); });
}

void write_port(DocumentWriter& out, std::string_view name, netlink::Protocol protocol,
                std::uint16_t port, std::uint16_t node_port = 0) {
  out.object([&] {
    out.member("name", name);
    if (node_port != 0) out.member("nodePort", node_port);
    out.member("port", port);
    out.member("protocol", to_string(protocol));
  });
}

void write_cluster_ips(DocumentWriter& out, const Service& service) {
  if (service.headless) {
    out.member("clusterIP", "None");
    out.member("clusterIPs", std::array{"None"});
  } else if (!service.cluster_ips.empty()) {
    out.member("clusterIP", service.cluster_ips.front().to_string());
    write_texts(out, "clusterIPs", service.cluster_ips);
  }
}

void write_spec(DocumentWriter& out, const Service& service) {
  const auto policy = [](bool local) { return local ? "Local" : "Cluster"; };
  write_cluster_ips(out, service);
  if (!service.external_ips.empty()) write_texts(out, "externalIPs", service.external_ips);
  out.member("externalTrafficPolicy", policy(service.external_policy_local));
  if (service.health_check_node_port != 0)
    out.member("healthCheckNodePort", service.health_check_node_port);
  out.member("internalTrafficPolicy", policy(service.internal_policy_local));
  if (!service.ip_families.empty())
    out.list("ipFamilies", service.ip_families,
             [&](const auto family) { out.value(to_string(family)); });
  if (!service.source_ranges.empty())
    write_texts(out, "loadBalancerSourceRanges", service.source_ranges);
  out.list("ports", service.ports, [&](const auto& port) {
    write_port(out, port.name, port.protocol, port.port, port.node_port);
  });
  out.member("sessionAffinity", service.affinity_seconds ? "ClientIP" : "None");
  if (service.affinity_seconds)
    out.object("sessionAffinityConfig", [&] {
      out.object("clientIP", [&] { out.member("timeoutSeconds", *service.affinity_seconds); });
    });
  out.member("type", to_string(service.type));
}

// Members are in the order of their names.
void write(DocumentWriter& out, const Service& service) {
  out.member("apiVersion", "v1");
  out.member("kind", "Service");
  out.object("metadata", [&] {
    if (!service.annotations.empty())
      out.object("annotations", [&] {
        for (const auto& annotation : service.annotations)
          out.member(annotation.key, annotation.value);
      });
    if (service.creation_time) out.member("creationTimestamp", to_rfc3339(*service.creation_time));
    out.object("labels", [] {});
    out.member("name", service.name.name);
    out.member("namespace", service.name.ns);
  });
  out.object("spec", [&] { write_spec(out, service); });
  if (!service.load_balancer_ips.empty())
    out.object("status", [&] {
      out.object("loadBalancer", [&] {
        out.list("ingress", service.load_balancer_ips, [&](const auto& address) {
          out.object([&] { out.member("ip", address.to_string()); });
        });
      });
    });
}

void write_hints(DocumentWriter& out, const EndpointView& endpoint) {
  const auto write_names = [&](std::string_view name, const auto& names) {
    if (names.empty()) return;
    out.list(name, names, [&](const auto& one) { out.object([&] { out.member("name", one); }); });
  };
  out.object("hints", [&] {
    write_names("forNodes", endpoint.node_hints);
    write_names("forZones", endpoint.zone_hints);
  });
}

void write_endpoint(DocumentWriter& out, const EndpointView& endpoint) {
  out.member("addresses", std::array{endpoint.address.to_string()});
  out.object("conditions", [&] {
    out.member("ready", endpoint.ready);
    out.member("serving", endpoint.serving);
    out.member("terminating", endpoint.terminating);
  });
  if (!endpoint.zone_hints.empty() || !endpoint.node_hints.empty()) write_hints(out, endpoint);
  if (!endpoint.node_name.empty()) out.member("nodeName", endpoint.node_name);
  if (!endpoint.target_name.empty())
    out.object("targetRef", [&] {
      out.member("kind", "Pod");
      out.member("name", endpoint.target_name);
    });
  if (!endpoint.zone.empty()) out.member("zone", endpoint.zone);
}

void write(DocumentWriter& out, const EndpointSlice& slice) {
  out.member("addressType", to_string(slice.family));
  out.member("apiVersion", "discovery.k8s.io/v1");
  out.list("endpoints", slice.endpoints,
           [&](const auto& endpoint) { out.object([&] { write_endpoint(out, endpoint); }); });
  out.member("kind", "EndpointSlice");
  out.object("metadata", [&] {
    if (slice.weight)
      out.object("annotations",
                 [&] { out.member(kWeightAnnotation, std::to_string(*slice.weight)); });
    out.object("labels", [&] {
      if (!slice.service.empty()) out.member(kServiceNameLabel, slice.service);
    });
    out.member("name", slice.name.name);
    out.member("namespace", slice.name.ns);
  });
  out.list("ports", slice.ports,
           [&](const auto& port) { write_port(out, port.name, port.protocol, port.port); });
}

void write(DocumentWriter& out, const Node& node) {
  const auto write_addresses = [&](std::string_view type, const auto& addresses) {
    for (const auto& address : addresses)
      out.object([&] {
        out.member("address", address.to_string());
        out.member("type", type);
      });
  };
  out.member("apiVersion", "v1");
  out.member("kind", "Node");
  out.object("metadata", [&] {
    if (node.to_be_deleted) out.member("deletionTimestamp", to_rfc3339(1));
    if (!node.zone.empty())
      out.object("labels", [&] { out.member("topology.kubernetes.io/zone", node.zone); });
    out.member("name", node.name);
  });
  out.object("spec", [&] {
    if (!node.pod_cidrs.empty()) write_texts(out, "podCIDRs", node.pod_cidrs);
  });
  out.object("status", [&] {
    out.key("addresses");
    out.open_list();
    write_addresses("InternalIP", node.internal_ips);
    write_addresses("ExternalIP", node.external_ips);
    out.close();
  });
}

}  // namespace

void write_object(DocumentWriter& out, const Object& object) {
  out.object([&] { std::visit([&](const auto& typed) { write(out, typed); }, object); });
}

std::string to_json(const Object& object) {
  JsonWriter out;
  write_object(out, object);
  return out.take();
}

}  // namespace ipvsproxier::api
