// Addresses of the API server are no Service's external addresses (proxier/plan/api_server.h).

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/plan/planner.h"
#include "test/support/cluster_builder.h"
#include "test/unit/plan_options.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::plan {
namespace {

using netlink::Family;
using netlink::IpAddress;
using test::ip;

const api::NamespacedName kKubernetes{"default", "kubernetes"};

api::Service kubernetes() {
  auto service = test::web_service();
  service.name = kKubernetes;
  service.cluster_ips = {ip("10.96.0.1")};
  service.ports.front() = {
      .name = "https", .protocol = netlink::Protocol::tcp, .port = 443, .node_port = 0};
  return service;
}

api::EndpointSlice servers(const std::vector<std::string>& addresses) {
  std::vector<api::Endpoint> endpoints;
  for (const auto& address : addresses) endpoints.push_back(test::endpoint(address, ""));
  auto slice = test::slice_of(kubernetes(), 6443, endpoints);
  slice.name = kKubernetes;
  return slice;
}

// With external addresses that are the API server's, and one that is not.
api::Service thief(const std::string& name = "thief") {
  auto service = test::web_service();
  service.name = {"tenant", name};
  service.type = api::ServiceType::load_balancer;
  service.external_ips = {ip("192.0.2.10"), ip("198.51.100.7")};
  service.load_balancer_ips = {ip("192.0.2.11")};
  return service;
}

model::ClusterState cluster_with(const std::vector<std::string>& addresses) {
  const auto service = thief();
  return test::cluster_of({kubernetes(), servers(addresses), service,
                           test::slice_of(service, 8080, {test::e1(), test::e2()})});
}

std::set<std::string> bound(const DesiredState& state) {
  std::set<std::string> addresses;
  for (const auto& address : state.addresses) addresses.insert(address.to_string());
  return addresses;
}

// Addresses of virtual services and of elements.
std::set<std::string> exposed(const DesiredState& state) {
  std::set<std::string> addresses;
  for (const auto& [key, planned] : state.services) addresses.insert(key.address.to_string());
  return addresses;
}

using Addresses = std::set<std::string>;

TEST_CASE("API server: no Service gets an address of its endpoints, with one problem") {
  const auto result =
      plan(cluster_with({"192.0.2.10", "192.0.2.11"}), test::vector_node(), test::options_v4());
  const Addresses left = {"10.96.0.1", "10.96.0.9", "198.51.100.7"};
  CHECK(bound(result.state) == left);
  CHECK(exposed(result.state) == left);
  CHECK(test::lines_of(result.problems) ==
        std::vector<std::string>{
            "error: Service tenant/thief: spec.externalIPs: 192.0.2.10 is an address of the API "
            "server, which this node could not reach any more: it is not proxied; all else of the "
            "Service is"});
}

TEST_CASE("API server: kube-proxy binds its address like any other") {
  auto options = test::options_v4();
  options.differences = kKubeProxyCompat;
  const auto result =
      plan(cluster_with({"192.0.2.10", "192.0.2.11"}), test::vector_node(), options);
  CHECK(bound(result.state) ==
        Addresses{"10.96.0.1", "10.96.0.9", "192.0.2.10", "192.0.2.11", "198.51.100.7"});
  CHECK(result.problems.empty());
}

TEST_CASE("API server: Services follow its endpoints, and others are not planned again") {
  Planner planner(test::options_v4());
  planner.set_node(test::vector_node());
  auto cluster = cluster_with({"192.0.2.10"});
  auto other = test::web_service();
  other.name = {"tenant", "other"};
  other.cluster_ips = {ip("10.96.0.77")};
  other.external_ips = {ip("198.51.100.77")};
  cluster.put(other);
  planner.update_all(cluster);
  const auto see = [&](const std::vector<std::string>& addresses) {
    cluster.put(servers(addresses));
    return planner.update({kKubernetes}, cluster);
  };
  const auto agrees = [&] {
    return planner.desired() == plan(cluster, test::vector_node(), test::options_v4()).state;
  };
  CHECK(bound(planner.desired()).contains("192.0.2.11"));
  auto scope = see({"192.0.2.10", "192.0.2.11"});
  CHECK_FALSE(bound(planner.desired()).contains("192.0.2.11"));
  CHECK(scope.addresses.contains(ip("192.0.2.11")));
  CHECK_FALSE(scope.addresses.contains(ip("198.51.100.77")));
  CHECK(agrees());
  scope = see({"192.0.2.11"});
  CHECK(bound(planner.desired()).contains("192.0.2.10"));
  CHECK(scope.addresses.contains(ip("192.0.2.10")));
  CHECK(agrees());
  // Nobody has such an address.
  see({"192.0.2.11", "203.0.113.99"});
  CHECK(see({"192.0.2.11"}).services.size() == 1);
  // The Service goes, and is made anew.
  model::Changes changes;
  changes.services[{"tenant", "thief"}] = std::nullopt;
  planner.update(cluster.take(std::move(changes)).services, cluster);
  CHECK(planner.problems().empty());
  CHECK(agrees());
}

TEST_CASE(
    "API server: who writes the slices of default/kubernetes keeps some addresses from "
    "Services, of each family") {
  std::vector<std::string> many;
  for (int i = 1; i < 250; ++i) many.push_back("198.51.100." + std::to_string(i));
  auto cluster = cluster_with(many);
  auto last = thief("last");
  last.cluster_ips = {ip("10.96.0.10")};
  last.external_ips = {ip("198.51.100.249")};
  last.load_balancer_ips = {};
  cluster.put(last);
  const auto state = plan(cluster, test::vector_node(), test::options_v4()).state;
  CHECK_FALSE(bound(state).contains("198.51.100.7"));
  CHECK(bound(state).contains("198.51.100.249"));
  // Slices of other Services of that name say nothing.
  auto elsewhere = servers({"192.0.2.10"});
  elsewhere.name.ns = "tenant";
  cluster = cluster_with({});
  cluster.put(elsewhere);
  CHECK(bound(plan(cluster, test::vector_node(), test::options_v4()).state).contains("192.0.2.10"));
}

TEST_CASE("API server: cluster IPs and node ports are as ever") {
  // A cluster IP that is an endpoint, as of an API server in a pod of the same cluster.
  auto service = test::web_service();
  service.type = api::ServiceType::node_port;
  service.ports.front().node_port = 30080;
  const auto cluster = test::cluster_of({kubernetes(), servers({"10.96.0.9", "10.0.0.1"}), service,
                                         test::slice_of(service, 8080, {test::e1()})});
  const auto result = plan(cluster, test::vector_node(), test::options_v4());
  CHECK(exposed(result.state) == Addresses{"10.0.0.1", "10.244.0.1", "10.96.0.1", "10.96.0.9"});
  CHECK(result.problems.empty());
}

}  // namespace
}  // namespace ipvsproxier::plan
