#pragma once

// What is planned for one Service on the node n1 of the test vectors (docs/kube-proxy.md, section
// 20), IPv4, as lines.

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/plan/planner.h"
#include "test/support/cluster_builder.h"

namespace ipvsproxier::test {

using Lines = std::vector<std::string>;

// kube-proxy's way.
inline plan::PlannerOptions vector_options() {
  plan::PlannerOptions options;
  options.families = {netlink::Family::ipv4};
  options.cluster_cidrs = {prefix("10.244.0.0/16")};
  options.differences = plan::kKubeProxyCompat;
  return options;
}

// What was planned, one line an entry; the fixed rules are left out.
inline Lines planned(const api::Service& service, const std::vector<api::Endpoint>& endpoints,
                     const plan::PlannerOptions& options = vector_options(),
                     const plan::NodeInfo& node = vector_node()) {
  const auto cluster = cluster_of({service, slice_of(service, 8080, endpoints)});
  const auto result = plan::plan(cluster, node, options);
  REQUIRE(result.problems.empty());
  Lines lines;
  std::istringstream text(to_text(result.state));
  for (std::string line; std::getline(text, line);)
    if (line.rfind("rule", 0) != 0) lines.push_back(line);
  return lines;
}

inline Lines starting(const Lines& lines, const std::string& start) {
  Lines result;
  for (const auto& line : lines)
    if (line.rfind(start, 0) == 0) result.push_back(line);
  return result;
}

// The virtual services by their key, with the addresses of their real servers.
inline std::map<std::string, Lines> servers_of(const Lines& lines) {
  std::map<std::string, Lines> result;
  std::string service;
  for (const auto& line : lines) {
    std::istringstream words(line);
    std::string word;
    std::string kind;
    words >> word >> kind;
    if (word == "virtual") {
      words >> service;
      result[service];
    } else if (word == "real") {
      words >> word;
      result[service].push_back(word);
    }
  }
  return result;
}

inline api::Service node_port_service() {
  auto service = web_service();
  service.type = api::ServiceType::node_port;
  service.ports.front().node_port = 30080;
  service.affinity_seconds = 600;
  return service;
}

inline api::Service load_balancer() {
  auto service = web_service();
  service.type = api::ServiceType::load_balancer;
  service.ports.front().port = 443;
  service.ports.front().node_port = 30443;
  service.load_balancer_ips = {ip("192.0.2.10")};
  return service;
}

inline api::Service local_load_balancer() {
  auto service = load_balancer();
  service.external_policy_local = true;
  service.health_check_node_port = 32000;
  return service;
}

}  // namespace ipvsproxier::test
