// What is decided for one Service, and the page of it.

#include "cmd/ipvsctl/service/service_page.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxier/inspect/service_document.h"
#include "test/support/cluster_builder.h"

namespace ipvsproxier::ctl {
namespace {

using Json = nlohmann::json;
using test::ip;

Json document_of(const model::ClusterState& cluster, const std::string& name = "web") {
  plan::Planner planner({.families = {netlink::Family::ipv4}});
  planner.set_node(test::vector_node());
  std::set<api::NamespacedName> names;
  for (const auto& [service, value] : cluster.services) names.insert(service);
  planner.update(names, cluster);
  return inspect::service_document({"default", name}, cluster, planner);
}

// A load balancer with policy Local, an endpoint on each of two nodes, and one that is not ready.
model::ClusterState balanced() {
  auto web = test::web_service();
  web.type = api::ServiceType::load_balancer;
  web.external_policy_local = true;
  web.load_balancer_ips = {ip("198.51.100.7")};
  web.source_ranges = {test::prefix("203.0.113.0/24")};
  web.affinity_seconds = 600;
  auto unready = test::endpoint("10.244.1.5", "n2");
  unready.ready = false;
  unready.serving = false;
  return test::cluster_of({web, test::slice_of(web, 8080, {test::e1(), test::e2(), unready})});
}

TEST_CASE("the document of a Service says what is decided for each kind of traffic") {
  const auto document = document_of(balanced());
  REQUIRE(document["ports"].size() == 1);
  const auto& port = document["ports"][0];
  CHECK(port["virtual"].size() == 2);
  CHECK(port["internal"]["policy"] == "Cluster");
  CHECK(port["external"]["policy"] == "Local");
  const auto uses = [](const Json& traffic) {
    std::vector<std::string> texts;
    for (const auto& one : traffic["endpoints"])
      texts.push_back(one["address"].get<std::string>() + " " + one["use"].get<std::string>());
    return texts;
  };
  CHECK(uses(port["internal"]) ==
        std::vector<std::string>{"10.244.0.3 used", "10.244.1.4 used", "10.244.1.5 not ready"});
  CHECK(uses(port["external"]) ==
        std::vector<std::string>{"10.244.0.3 used",
                                 "10.244.1.4 not on this node (traffic policy Local)",
                                 "10.244.1.5 not on this node (traffic policy Local)"});
  CHECK(std::ranges::count(document["elements"],
                           Json{{"set", "KUBE-CLUSTER-IP"}, {"element", "10.96.0.9,tcp:80"}}) == 1);
  CHECK(document_of(balanced(), "none").is_null());
}

TEST_CASE("a virtual service that another Service has is said to be its") {
  auto cluster = balanced();
  auto rival = test::web_service();
  rival.name.name = "a";
  cluster.put(rival);
  const auto document = document_of(cluster);
  const auto& facet = document["ports"][0]["virtual"][0];
  CHECK(facet["address"] == "10.96.0.9");
  CHECK(facet["held"] == false);
  CHECK(facet["holder"] == "default/a");
  const auto page = service_page(document);
  INFO(page);
  CHECK(page.find("cluster IP; not programmed, default/a has it\n") != std::string::npos);
}

TEST_CASE("the page of a Service tells its spec, its endpoints and what came of them") {
  auto document = document_of(balanced());
  document["virtualServices"] = Json::parse(R"([{"address":"10.96.0.9","port":80,"protocol":"TCP",
    "scheduler":"rr","service":{"facet":"cluster IP"},
    "traffic":{"connections":7,"connectionsPerSecond":1,"bytesInPerSecond":2,"bytesOutPerSecond":3},
    "realServers":[{"address":"10.244.0.3","port":8080,"weight":1,"activeConnections":4,
                    "inactiveConnections":5,"endpoint":{"pod":"web-1","node":"n1"}}]},
    {"address":"198.51.100.7","port":80,"protocol":"TCP","inKernel":false}])");
  document["elements"] =
      Json::parse(R"([{"set":"KUBE-CLUSTER-IP","element":"10.96.0.9,tcp:80","inKernel":false}])");
  document["rules"] = Json::parse(
      R"([{"set":"KUBE-CLUSTER-IP","family":"IPv4","table":"nat","chain":"KUBE-SERVICES",)"
      R"("rule":"-j ACCEPT"}])");
  document["draining"] = Json::parse(
      R"([{"service":"10.96.0.9:80/TCP","server":"10.244.0.9:8080","forMilliseconds":5200,
           "leftMilliseconds":294800}])");
  document["refused"] = Json::array({"Service default/web: add real server 239.1.1.1:8080"});
  document["lastChange"] = {{"when", "2026-01-01T00:00:00Z"}, {"tookMilliseconds", 2.5}};
  document["unknown"] = Json::array({"what the moon does"});
  const std::string page = service_page(document);
  INFO(page);
  CHECK(page ==
        "Service                 default/web\n"
        "Type                    LoadBalancer\n"
        "Cluster IPs             10.96.0.9\n"
        "Load balancers          198.51.100.7\n"
        "Source ranges           203.0.113.0/24\n"
        "Internal policy         Cluster\n"
        "External policy         Local\n"
        "Session affinity        client IP, 600 s\n"
        "\n"
        "Port 80/TCP, IPv4\n"
        "  10.96.0.9:80                                   cluster IP\n"
        "  198.51.100.7:80                                load balancer\n"
        "  Endpoints of internal traffic\n"
        "  + 10.244.0.3:8080                              used, on this node\n"
        "  + 10.244.1.4:8080                              used\n"
        "  - 10.244.1.5:8080                              not ready\n"
        "  Endpoints of external traffic\n"
        "  + 10.244.0.3:8080                              used, on this node\n"
        "  - 10.244.1.4:8080                              not on this node (traffic policy Local)\n"
        "  - 10.244.1.5:8080                              not on this node (traffic policy Local)\n"
        "\n"
        "Virtual service 10.96.0.9:80/TCP, cluster IP, rr\n"
        "  7 connections so far; now 1/s, 2 and 3 B/s in and out\n"
        "  -> 10.244.0.3:8080                             weight 1, 4 active, 5 inactive  pod web-1"
        "  node n1\n"
        "\n"
        "Virtual service 198.51.100.7:80/TCP: NOT IN THE KERNEL\n"
        "\n"
        "The kernel refuses\n"
        "  Service default/web: add real server 239.1.1.1:8080\n"
        "\n"
        "Draining (weight 0, until its connections are gone)\n"
        "  10.96.0.9:80/TCP -> 10.244.0.9:8080  for 5.2 s, 4 min 54 s left\n"
        "\n"
        "Set KUBE-CLUSTER-IP\n"
        "  10.96.0.9,tcp:80  NOT IN THE KERNEL\n"
        "  asked by IPv4 nat KUBE-SERVICES: -j ACCEPT\n"
        "\n"
        "Last change  2026-01-01T00:00:00Z, programmed in 2.5 ms\n"
        "\n"
        "Not known: what the moon does.\n");
}

TEST_CASE("the page of an address without a daemon shows what the kernel has") {
  const auto page = service_page(Json::parse(R"({"address":"10.96.0.9","virtualServices":[
    {"address":"10.96.0.9","port":80,"protocol":"TCP","scheduler":"rr","realServers":[]}],
    "elements":[],"rules":[],"unknown":["whose it is"]})"));
  CHECK(page ==
        "Address                 10.96.0.9\n\n"
        "Virtual service 10.96.0.9:80/TCP, rr\n"
        "  no real server: new connections are refused\n\n"
        "Not known: whose it is.\n");
}

TEST_CASE("a policy Local that is not kept for want of endpoints is told") {
  auto web = test::web_service();
  web.type = api::ServiceType::node_port;
  web.ports[0].node_port = 30080;
  web.external_policy_local = true;
  auto cluster = test::cluster_of({web, test::slice_of(web, 8080, {test::e2()})});
  const auto page = service_page(document_of(cluster));
  INFO(page);
  CHECK(page.find("(policy Local, but none is on this node: Cluster)") != std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::ctl
