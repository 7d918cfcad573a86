// What is decided for one Service, and the page of it.

#include "cmd/ipvsctl/service/service_page.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxier/inspect/service_page.h"
#include "test/support/cluster_builder.h"
#include "test/unit/plan_options.h"

namespace ipvsproxier::ctl {
namespace {

using Json = nlohmann::json;
using test::ip;

// The options of a node with nf_tables, where clients within the cluster are sent on.
plan::PlannerOptions nftables_options() {
  auto options = test::options_v4();
  options.packet_filter = ipset::PacketFilter::nftables;
  return options;
}

std::optional<inspect::ServicePage> facts_of(
    const model::ClusterState& cluster, const std::string& name = "web",
    const plan::PlannerOptions& options = test::options_v4()) {
  plan::Planner planner(options);
  planner.set_node(test::vector_node());
  std::set<api::NamespacedName> names;
  for (const auto& [service, value] : cluster.services) names.insert(service);
  planner.update(names, cluster);
  return inspect::service_page({"default", name}, cluster, planner);
}

std::string json_text_of(const inspect::ServicePage& page) {
  api::JsonWriter out;
  out.object([&] { inspect::write_members(out, page); });
  return out.take();
}

Json document_of(const model::ClusterState& cluster) {
  return Json::parse(json_text_of(*facts_of(cluster)));
}

// As ipvsctl has it from the daemon.
NodePage page_of(const model::ClusterState& cluster,
                 const plan::PlannerOptions& options = test::options_v4()) {
  const auto document = api::JsonDocument::parse(json_text_of(*facts_of(cluster, "web", options)));
  REQUIRE(document);
  auto facts = inspect::read_service_page(document->root());
  REQUIRE(facts);
  return NodePage{.facts = *std::move(facts), .names = {}, .virtuals = {}};
}

PageVirtual virtual_of(const std::string& address) {
  const netlink::VirtualServiceKey key{ip(address), netlink::Protocol::tcp, 80};
  PageVirtual one{.key = key, .reading = netlink::ServiceReading{}, .servers = {}};
  one.reading->service.key = key;
  one.reading->service.scheduler = "rr";
  return one;
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
  CHECK_FALSE(facts_of(balanced(), "none"));
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
  const auto page = page_text(page_of(cluster));
  INFO(page);
  CHECK(page.find("cluster IP; not programmed: default/a has it\n") != std::string::npos);
}

TEST_CASE("who reaches what is told where policy Local is for clients outside") {
  auto options = test::options_v4();
  options.packet_filter = ipset::PacketFilter::nftables;
  options.cluster_cidrs = {test::prefix("10.244.0.0/16")};
  const auto text_with = [&](const model::ClusterState& cluster) {
    return page_text(page_of(cluster, options));
  };
  auto page = text_with(balanced());
  INFO(page);
  const auto has = [&](const std::string& line) { return page.find(line) != std::string::npos; };
  CHECK(
      has("  Who is served within the source ranges, and which source the pod sees\n"
          "    a client outside       at external addresses  served, 1 here and 0 elsewhere, which "
          "see the client\n"
          "    this node              at external addresses  served, 1 here and 1 elsewhere, which "
          "see an address of this node\n"
          "    a pod of this node     at external addresses  served, 1 here and 1 elsewhere, which "
          "see the client\n"));
  auto web = balanced().services.begin()->second;
  page = text_with(test::cluster_of({web, test::slice_of(web, 8080, {test::e2()})}));
  CHECK(page.find("  Endpoints of external traffic (from outside it is dropped: none is on this "
                  "node)\n") != std::string::npos);
  CHECK(has("    a client outside       at external addresses  dropped\n"));
  // Where nothing tells pods they are clients as any.
  options.cluster_cidrs.clear();
  page = text_with(balanced());
  CHECK(has("    a pod of this node     at external addresses  served, 1 here and 0 elsewhere"));
}

TEST_CASE("who reaches what is told of kube-proxy's way, too") {
  auto options = test::options_v4();
  options.differences.in_cluster_clients = false;
  const auto web = balanced().services.begin()->second;
  const auto page =
      page_text(page_of(test::cluster_of({web, test::slice_of(web, 8080, {test::e2()})}), options));
  INFO(page);
  const auto has = [&](const std::string& line) { return page.find(line) != std::string::npos; };
  const std::string seen = ", 0 here and 1 elsewhere, which see ";
  CHECK(has("    a client outside       at external addresses  no answer comes back" + seen));
  CHECK(has("    this node              at external addresses  no answer comes back" + seen));
  CHECK(has("    a pod of this node     at external addresses  served" + seen + "the client\n"));
}

TEST_CASE("an address for clients within the cluster is told with its endpoints") {
  auto options = nftables_options();
  options.in_cluster_ranges = {test::prefix("240.0.0.0/4")};
  auto web = balanced().services.begin()->second;
  web.internal_policy_local = true;
  const auto page = page_text(page_of(
      test::cluster_of({web, test::slice_of(web, 8080, {test::e1(), test::e2()})}), options));
  INFO(page);
  const auto has = [&](const std::string& line) { return page.find(line) != std::string::npos; };
  CHECK(has("  250.96.0.9:80                                  for clients within the cluster\n"));
  CHECK(
      has("  Endpoints of clients within the cluster\n"
          "  + 10.244.0.3:8080                              used, on this node\n"
          "  + 10.244.1.4:8080                              used\n"));
}

TEST_CASE("the page of a Service tells its spec, its endpoints and what came of them") {
  auto whole = page_of(balanced(), nftables_options());
  auto served = virtual_of("10.96.0.9");
  served.reading->traffic = {
      .connections = 7, .connection_rate = 1, .byte_rate_in = 2, .byte_rate_out = 3};
  netlink::ServerReading server;
  server.listed.server.key = {ip("10.244.0.3"), 8080};
  server.listed.server.weight = 1;
  server.listed.active_connections = 4;
  server.listed.inactive_connections = 5;
  served.servers.push_back(server);
  auto lacking = virtual_of("198.51.100.7");
  lacking.reading.reset();
  whole.virtuals = {served, lacking};
  whole.names.emplace();
  REQUIRE(whole.names->take_page(R"({"services":[{"namespace":"default","name":"web",
    "virtual":[["10.96.0.9",80,"TCP","","cluster IP"]],
    "slices":[{"ports":[8080],
               "endpoints":[["10.244.0.3","web-1","n1","",true,true,false]]}]}],
    "continue":""})"));
  whole.facts.elements = {
      {.set = "KUBE-CLUSTER-IP", .element = "10.96.0.9,tcp:80", .in_kernel = false}};
  whole.facts.node = {.rules = {{.set = "KUBE-CLUSTER-IP",
                                 .family = "IPv4",
                                 .table = "nat",
                                 .chain = "KUBE-SERVICES",
                                 .rule = "-j ACCEPT"}},
                      .unknown = {"what the moon does"}};
  auto& decisions = *whole.facts.decisions;
  decisions.draining = {{.service = "10.96.0.9:80/TCP",
                         .server = "10.244.0.9:8080",
                         .for_ms = 5200,
                         .left_ms = 294800}};
  decisions.refused = {"Service default/web: add real server 239.1.1.1:8080"};
  decisions.last_change = {.when = "2026-01-01T00:00:00Z", .took_ms = 2.5};
  const std::string page = page_text(whole);
  INFO(page);
  CHECK(
      page ==
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
      "  Who is served within the source ranges, and which source the pod sees\n"
      "    a client outside       at external addresses  served, 1 here and 0 elsewhere, which see "
      "the client\n"
      "    this node              at external addresses  served, 1 here and 1 elsewhere, which see "
      "an address of this node\n"
      "    a pod of this node     at external addresses  served, 1 here and 0 elsewhere, which see "
      "the client\n"
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

TEST_CASE("the page of a Service says of weights why they are so") {
  auto cluster = balanced();
  auto web = cluster.services.begin()->second;
  web.external_policy_local = false;
  web.annotations = {{"ipvs-proxier/scheduler", "wrr"}, {"ipvs-proxier/weights", "local:4"}};
  cluster.put(web);
  auto whole = page_of(cluster);
  auto served = virtual_of("10.96.0.9");
  const auto add = [&](const char* address, std::uint32_t weight, std::uint32_t most = 0) {
    netlink::ServerReading server;
    server.listed.server = {.key = {ip(address), 8080}, .weight = weight, .upper_threshold = most};
    served.servers.push_back(server);
  };
  add("10.244.0.3", 4, 1000);
  add("10.244.1.4", 9);
  add("10.244.1.5", 0);
  add("10.244.0.9", 0);
  add("10.244.0.10", 0);
  whole.virtuals = {served};
  whole.facts.decisions->draining = {
      {.service = "10.96.0.9:80/TCP", .server = "10.244.0.9:8080", .for_ms = 5, .left_ms = {}}};
  const auto page = page_text(whole);
  INFO(page);
  const auto has = [&](const std::string& text) {
    INFO(text);
    CHECK(page.find(text) != std::string::npos);
  };
  has("used, on this node, weight 4 by ipvs-proxier/weights, local\n");
  has("weight 4 (by ipvs-proxier/weights, local), 0 active, 0 inactive, at most 1000\n");
  has("weight 9 (planned: 1), 0 active");
  has("weight 0 (not ready), 0 active");
  has("weight 0 (draining), 0 active");
  has("weight 0 (no endpoint of it), 0 active");
}

TEST_CASE("the page of a Service says which weights are scaled down, and why") {
  auto cluster = balanced();
  auto web = cluster.services.begin()->second;
  web.external_policy_local = false;
  web.annotations = {{"ipvs-proxier/max-connections", "5"},
                     {"ipvs-proxier/scheduler", "wrr"},
                     {"ipvs-proxier/weights", "local:65535,node=n2:1"}};
  cluster.put(web);
  const auto page = page_text(page_of(cluster));
  INFO(page);
  CHECK(page.find("used, on this node, weight 5000 by ipvs-proxier/weights, local: 65535, scaled "
                  "down, as wrr has a limit of connections\n") != std::string::npos);
  CHECK(page.find("weight 1 by ipvs-proxier/weights, its node\n") != std::string::npos);
}

TEST_CASE("the page of an address without a daemon shows what the kernel has") {
  NodePage whole;
  whole.facts.address = "10.96.0.9";
  whole.facts.node = {.rules = {}, .unknown = {"whose it is"}};
  whole.virtuals = {virtual_of("10.96.0.9")};
  const auto page = page_text(whole);
  CHECK(page ==
        "Address                 10.96.0.9\n\n"
        "Virtual service 10.96.0.9:80/TCP, rr\n"
        "  no real server: new connections are refused\n\n"
        "Not known: whose it is.\n");
}

TEST_CASE("the daemon's page is read as it was written, and any other answer is none") {
  auto facts = *facts_of(balanced());
  facts.decisions->draining = {{.service = "a", .server = "b", .for_ms = 5, .left_ms = {}},
                               {.service = "c", .server = "d", .for_ms = 5, .left_ms = 7}};
  facts.decisions->refused = {"one"};
  for (const auto& change : {std::optional<inspect::PageChange>(),
                             std::optional(inspect::PageChange{.when = "now", .took_ms = 0.25})}) {
    facts.decisions->last_change = change;
    const auto text = json_text_of(facts);
    const auto read = inspect::read_service_page(api::JsonDocument::parse(text)->root());
    REQUIRE(read);
    CHECK(json_text_of(*read) == text);
  }
  auto wrong = Json::parse(json_text_of(facts));
  wrong["ports"][0]["virtual"][0]["address"] = "nowhere";
  for (const auto& text : {std::string("{}"), std::string("[]"), std::string("7"),
                           std::string(R"({"service":{"kind":"Node"}})"), wrong.dump()}) {
    CAPTURE(text);
    CHECK_FALSE(inspect::read_service_page(api::JsonDocument::parse(text)->root()));
  }
}

TEST_CASE("the page as a document: what is missing in the kernel is marked") {
  NodePage whole;
  whole.facts.address = "10.96.0.9";
  whole.facts.node = {.rules = {}, .unknown = {"whose it is"}};
  whole.facts.elements = {{.set = "S", .element = "e", .in_kernel = false}};
  auto lacking = virtual_of("10.96.0.9");
  lacking.reading.reset();
  whole.virtuals = {lacking, virtual_of("10.96.0.10")};
  api::JsonWriter out;
  write_page(out, whole);
  const auto text = out.take();
  const std::string begin =
      R"({"address":"10.96.0.9","elements":[{"element":"e","inKernel":false,"set":"S"}],)"
      R"("rules":[],"unknown":["whose it is"],"virtualServices":[{"address":"10.96.0.9",)"
      R"("inKernel":false,"port":80,"protocol":"TCP"},{"address":"10.96.0.10","family":"IPv4",)";
  CHECK(text.substr(0, begin.size()) == begin);
}

TEST_CASE("a virtual service by firewall mark, which has no address, is named by its mark") {
  NodePage whole;
  auto marked = virtual_of("0.0.0.0");
  marked.key.fwmark = marked.reading->service.key.fwmark = 7;
  whole.virtuals = {marked};
  CHECK(page_text(whole).find("\nVirtual service fwmark 7 (IPv4), rr\n") != std::string::npos);
}

TEST_CASE("a policy Local that is not kept for want of endpoints is told") {
  auto web = test::web_service();
  web.type = api::ServiceType::node_port;
  web.ports[0].node_port = 30080;
  web.external_policy_local = true;
  auto cluster = test::cluster_of({web, test::slice_of(web, 8080, {test::e2()})});
  auto options = test::options_v4();
  options.differences.in_cluster_clients = false;
  const auto page = page_text(page_of(cluster, options));
  INFO(page);
  CHECK(page.find("(policy Local, but none is on this node: Cluster)") != std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::ctl
