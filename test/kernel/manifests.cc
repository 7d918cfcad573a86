#include "test/kernel/manifests.h"

#include <fstream>
#include <set>
#include <stdexcept>

#include "test/kernel/cluster.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::IpAddress;

std::string joined(const std::vector<std::string>& parts) {
  std::string result;
  for (const auto& part : parts) {
    if (!result.empty()) result += ", ";
    result += part;
  }
  return result;
}

std::string quoted(const std::string& text) {
  return '"' + text + '"';
}

std::vector<std::string> all_quoted(const std::vector<std::string>& texts) {
  std::vector<std::string> result;
  for (const auto& text : texts) result.push_back(quoted(text));
  return result;
}

std::set<Family> families_of(const ServiceManifest& service) {
  std::set<Family> families;
  for (const auto& text : service.cluster_ips) {
    if (const auto address = IpAddress::parse(text)) families.insert(address->family());
  }
  return families;
}

std::string slice_yaml(const ServiceManifest& service, Family family) {
  std::vector<std::string> ports;
  for (const auto& port : service.ports) {
    ports.push_back("{name: " + quoted(port.name) +
                    ", protocol: " + std::string(netlink::to_string(port.protocol)) +
                    ", port: " + std::to_string(port.target) + "}");
  }
  std::vector<std::string> endpoints;
  for (const auto& endpoint : service.endpoints) {
    if (endpoint.address.family() != family) continue;
    endpoints.push_back("{addresses: [" + quoted(endpoint.address.to_string()) +
                        "], conditions: {" + endpoint.conditions + "}, nodeName: " + endpoint.node +
                        (endpoint.zone.empty() ? "" : ", zone: " + endpoint.zone) + "}");
  }
  const std::string type(netlink::to_string(family));
  return "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: " +
         service.name + "-" + (family == Family::ipv4 ? "v4" : "v6") +
         "\n  namespace: default\n  labels: {kubernetes.io/service-name: " + service.name +
         "}\n  annotations: {" + service.slice_annotations + "}\naddressType: " + type +
         "\nports: [" + joined(ports) + "]\nendpoints: [" + joined(endpoints) + "]\n";
}

}  // namespace

std::string service_yaml(const ServiceManifest& service) {
  std::vector<std::string> ports;
  for (const auto& port : service.ports) {
    ports.push_back("{name: " + quoted(port.name) +
                    ", protocol: " + std::string(netlink::to_string(port.protocol)) +
                    ", port: " + std::to_string(port.port) +
                    ", nodePort: " + std::to_string(port.node_port) + "}");
  }
  std::vector<std::string> ingress;
  for (const auto& address : service.ingress_ips)
    ingress.push_back("{ip: " + quoted(address) + "}");
  ingress.insert(ingress.end(), service.more_ingress.begin(), service.more_ingress.end());
  std::vector<std::string> families;
  for (const auto& text : service.cluster_ips) {
    const auto address = IpAddress::parse(text);
    families.emplace_back(netlink::to_string(address.value().family()));
  }
  return "---\napiVersion: v1\nkind: Service\nmetadata: {annotations: {" + service.annotations +
         "}, name: " + service.name + ", namespace: default}\nspec: {type: " + service.type +
         ", clusterIP: " + quoted(service.cluster_ips.at(0)) + ", clusterIPs: [" +
         joined(all_quoted(service.cluster_ips)) + "], ipFamilies: [" + joined(families) +
         "], ports: [" + joined(ports) + "]" + (service.spec.empty() ? "" : ", ") + service.spec +
         "}\nstatus: {loadBalancer: {ingress: [" + joined(ingress) + "]}}\n";
}

std::string slices_yaml(const ServiceManifest& service) {
  std::string result;
  for (const Family family : families_of(service)) result += slice_yaml(service, family);
  return result;
}

Manifests::Manifests() {
  std::filesystem::create_directory(folder());
  configure(std::string("detectLocalMode: ClusterCIDR\nclusterCIDR: \"") + kPodRanges + "\"\n");
  write("nodes",
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
        "spec: {podCIDRs: [\"10.244.0.0/24\", \"fd00:244::/64\"]}\n"
        "status: {addresses: [{type: InternalIP, address: 10.200.0.2},"
        " {type: InternalIP, address: \"fd00:200::2\"}]}\n"
        "---\napiVersion: v1\nkind: Node\nmetadata: {name: n2}\n"
        "spec: {podCIDRs: [\"10.244.1.0/24\", \"fd00:244:0:1::/64\"]}\n"
        "status: {addresses: [{type: InternalIP, address: 10.200.0.3},"
        " {type: InternalIP, address: \"fd00:200::3\"}]}\n");
}

std::vector<std::string> Manifests::flags() const {
  return {"--manifests", folder().string(), "--config", config_file().string()};
}

void Manifests::write(const std::string& name, const std::string& text) {
  replace(folder() / (name + ".yaml"), text);
}

void Manifests::remove(const std::string& name) {
  if (!std::filesystem::remove(folder() / (name + ".yaml"))) {
    throw std::runtime_error("no manifest " + name);
  }
}

void Manifests::put(const ServiceManifest& service) {
  write(service.name, service_yaml(service) + slices_yaml(service));
}

void Manifests::configure(const std::string& lines) {
  replace(config_file(),
          "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\n"
          "hostnameOverride: " +
              std::string(kNodeName) + "\n" + lines);
}

void Manifests::replace(const std::filesystem::path& file, const std::string& text) {
  const auto fresh = dir_.path() / "fresh";
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("write " + fresh.string());
  std::filesystem::rename(fresh, file);
}

}  // namespace ipvsproxier::test
