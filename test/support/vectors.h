#pragma once

// The test vectors (docs/kube-proxy.md, section 20) as values: what is given, and what the kernel
// is to hold. For the planner (test/unit/plan_vectors_test.cc) and for the daemon in the kernel
// (test/kernel/vectors_kernel_test.cc).
//
// The node is n1 with 10.0.0.1/24 and fd00:1::1/64 on eth0 and 10.244.0.1/24 on cni0; its Node has
// the address 10.0.0.1 alone. Pods are 10.244.0.0/16. Everything is kube-proxy's way. Vector 16,
// whose point are connections, is in sync_following_test.cc and drain_kernel_test.cc.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "test/kernel/manifests.h"

namespace ipvsproxier::test {

inline constexpr const char* kVectorPods = "10.244.0.0/16";

struct VectorHealth {
  std::uint16_t port = 0;
  int status = 0;
  std::uint32_t weight = 0;  // ready endpoints on this node
};

struct Vector {
  std::string name;
  ServiceManifest service;
  bool node_port_primary = false;  // nodePortAddresses: [primary]
  std::string scheduler;           // "": as it is by default

  // All virtual services and real servers as ipvsadm-save prints them, all elements as ipset save
  // does, and the addresses of kube-ipvs0 ("inet 10.96.0.9/32"); of both families, sorted.
  std::vector<std::string> state;
  // All IPv4 rules of these chains as iptables-save prints them, without "-A CHAIN".
  std::map<std::string, std::vector<std::string>> rules;
  std::optional<VectorHealth> health;
  // The gauges of Services without local endpoints.
  std::size_t internal_lack = 0;
  std::size_t external_lack = 0;
};

// In an order in which each asks for another state of the kernel than the one before.
const std::vector<Vector>& vectors();

}  // namespace ipvsproxier::test
