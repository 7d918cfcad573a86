#pragma once

// What a proxier under test is given: a folder of manifests and a configuration file, written from
// short values. Every change replaces a whole file by rename, so that a follower sees the old or
// the new one. Files that cannot be written throw std::filesystem::filesystem_error or
// std::runtime_error.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {

struct PortManifest {
  std::string name;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::uint16_t port = 80;
  std::uint16_t target = 8080;
  std::uint16_t node_port = 0;
};

struct EndpointManifest {
  netlink::IpAddress address;
  std::string node;
  std::string conditions = "ready: true, serving: true, terminating: false";
  std::string zone = {};
};

// A Service of namespace "default" and one EndpointSlice for each family of its cluster IPs.
struct ServiceManifest {
  std::string name = "web";
  std::string type = "ClusterIP";
  std::vector<std::string> cluster_ips;
  std::vector<PortManifest> ports = {PortManifest{}};
  std::vector<EndpointManifest> endpoints;
  std::string annotations;  // in YAML's flow style: "a: b, c: d"
  std::string slice_annotations = {};
  // More of spec, in YAML's flow style: "externalTrafficPolicy: Local, externalIPs: [192.0.2.1]".
  std::string spec;
  std::vector<std::string> ingress_ips;  // status.loadBalancer.ingress
  // More of it, in flow style: "{hostname: x}".
  std::vector<std::string> more_ingress;
};

std::string service_yaml(const ServiceManifest& service);
std::string slices_yaml(const ServiceManifest& service);

class Manifests {
 public:
  // With the Nodes n1 (10.200.0.2) and n2 (10.200.0.3) and a configuration of mode ipvs for n1 with
  // ClusterCIDR detection of kPodRanges.
  Manifests();

  std::filesystem::path folder() const { return dir_.path() / "objects"; }
  std::filesystem::path config_file() const { return dir_.path() / "config.yaml"; }
  // "--manifests FOLDER --config FILE"
  std::vector<std::string> flags() const;

  // NAME.yaml of the folder.
  void write(const std::string& name, const std::string& text);
  void remove(const std::string& name);
  // Service and slices in one file of the Service's name.
  void put(const ServiceManifest& service);

  // The configuration: mode ipvs for n1, and these lines.
  void configure(const std::string& lines);

 private:
  void replace(const std::filesystem::path& file, const std::string& text);

  TempDir dir_;
};

}  // namespace ipvsproxier::test
