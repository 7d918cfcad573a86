// The test vectors (docs/kube-proxy.md, section 20) as planned; in the kernel:
// vectors_kernel_test.cc.

#include <algorithm>
#include <sstream>

#include <catch2/catch.hpp>

#include "ipset/rules/rule_catalog.h"
#include "proxier/api/decode.h"
#include "proxier/api/documents.h"
#include "proxier/plan/planner.h"
#include "proxier/plan/service_health.h"
#include "test/support/cluster_builder.h"
#include "test/support/saved_table.h"
#include "test/support/vectors.h"

namespace ipvsproxier::plan {
namespace {

using netlink::Family;
using Lines = std::vector<std::string>;

model::ClusterState cluster_of_vector(const test::ServiceManifest& service) {
  model::ClusterState cluster;
  auto documents =
      api::parse_documents(test::service_yaml(service) + test::slices_yaml(service), "vector");
  REQUIRE(documents.problems.empty());
  for (const auto& document : documents.documents) {
    api::Problems problems;
    auto object = api::decode_object(document.json.root(), document.origin, problems);
    REQUIRE(object);
    CHECK(problems.empty());
    cluster.put(*std::move(object));
  }
  return cluster;
}

NodeInfo node_of_vectors() {
  auto node = test::vector_node();
  node.addresses.push_back({"eth0", test::ip("fd00:1::1"), 64});
  return node;
}

PlannerOptions options_of(const test::Vector& vector) {
  PlannerOptions options;
  options.cluster_cidrs = {test::prefix(test::kVectorPods)};
  options.differences = kKubeProxyCompat;
  options.node_port_primary = vector.node_port_primary;
  if (!vector.scheduler.empty()) options.scheduler = vector.scheduler;
  return options;
}

// As ipset prints it: a network of one address is an address.
std::string printed(const ipset::Element& element) {
  auto text = ipset::to_string(element);
  if (const auto* with_net = std::get_if<ipset::IpPortNetElement>(&element);
      with_net && with_net->net.length == netlink::address_bits(with_net->net.family()))
    text.erase(text.rfind('/'));
  return text;
}

// As Vector::state.
Lines printed(const DesiredState& state) {
  Lines lines;
  for (const auto& [key, planned] : state.services) {
    test::ServiceTable table{.service = planned.service, .servers = {}};
    for (const auto& server : planned.servers) table.servers.push_back({.server = {.key = server}});
    std::istringstream text(test::format_save({table}));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
  }
  for (const auto& [set, elements] : state.sets)
    for (const auto& element : elements)
      lines.push_back("add " + ipset::set_name(set.id, set.family) + " " + printed(element));
  for (const auto& address : state.addresses)
    lines.push_back((address.family() == Family::ipv4 ? "inet " : "inet6 ") + address.to_string() +
                    (address.family() == Family::ipv4 ? "/32" : "/128"));
  std::sort(lines.begin(), lines.end());
  return lines;
}

Lines rules_of(const DesiredState& state, const std::string& chain) {
  Lines lines;
  for (const auto& table : ipset::rules_for(Family::ipv4, state.rules.at(Family::ipv4)))
    for (const auto& one : table.chains)
      if (one.name == chain)
        for (const auto& rule : one.rules) lines.push_back(ipset::to_string(rule, Family::ipv4));
  return lines;
}

TEST_CASE("the planner makes of the reference's vectors what they say") {
  for (const auto& vector : test::vectors()) {
    INFO("vector " << vector.name);
    const auto cluster = cluster_of_vector(vector.service);
    Planner planner(options_of(vector));
    planner.set_node(node_of_vectors());
    const api::NamespacedName web{"default", "web"};
    planner.update({web}, cluster);
    CHECK(planner.problems().empty());
    CHECK(printed(planner.desired()) == vector.state);
    for (const auto& [chain, rules] : vector.rules) {
      INFO(chain);
      CHECK(rules_of(planner.desired(), chain) == rules);
    }
    CHECK(planner.local_lack(Family::ipv4) ==
          LocalLack{.internal = vector.internal_lack, .external = vector.external_lack});
    const auto health = service_health(web, cluster, planner.options().families, "n1");
    REQUIRE(health.has_value() == vector.health.has_value());
    if (health) {
      CHECK(health->port == vector.health->port);
      CHECK(health->local_endpoints ==
            std::map<Family, std::uint32_t>{{Family::ipv4, vector.health->weight}});
    }
  }
}

}  // namespace
}  // namespace ipvsproxier::plan
