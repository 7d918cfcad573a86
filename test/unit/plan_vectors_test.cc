// The test vectors of the reference, section 20: node n1, IPv4.

#include <algorithm>
#include <sstream>

#include <catch2/catch.hpp>

#include "ipset/rule_catalog.h"
#include "proxier/plan/planner.h"
#include "test/unit/planned_lines.h"

namespace ipvsproxier::plan {
namespace {

using netlink::Family;
using netlink::Protocol;
using test::e1;
using test::e2;
using test::ip;
using test::Lines;
using test::load_balancer;
using test::local_load_balancer;
using test::node_port_service;
using test::planned;
using test::prefix;
using test::servers_of;
using test::slice_of;
using test::starting;
using test::vector_options;
using test::web_service;

Lines rules_of(const api::Service& service, const std::string& chain,
               const PlannerOptions& options = vector_options()) {
  const auto cluster = test::cluster_of({service, slice_of(service, 8080, {e1(), e2()})});
  const auto result = plan(cluster, test::vector_node(), options);
  Lines lines;
  for (const auto& table : ipset::rules_for(Family::ipv4, result.state.rules.at(Family::ipv4)))
    for (const auto& one : table.chains)
      if (one.name == chain)
        for (const auto& rule : one.rules) lines.push_back(ipset::to_string(rule, Family::ipv4));
  return lines;
}

const Lines kBothServers = {"10.244.0.3:8080", "10.244.1.4:8080"};
const Lines kFirst = {"10.244.0.3:8080"};
const Lines kSecond = {"10.244.1.4:8080"};

TEST_CASE("vector 1: a ClusterIP Service") {
  CHECK(planned(web_service(), {e1(), e2()}) ==
        Lines{"virtual service 10.96.0.9:80/TCP rr (cluster IP of default/web/TCP)",
              "  real server 10.244.0.3:8080 weight 1", "  real server 10.244.1.4:8080 weight 1",
              "address 10.96.0.9", "element KUBE-LOOP-BACK 10.244.0.3,tcp:8080,10.244.0.3",
              "element KUBE-CLUSTER-IP 10.96.0.9,tcp:80", "element KUBE-IPVS-IPS 10.96.0.9"});
}

TEST_CASE("vector 2: without endpoints everything but real servers is there") {
  CHECK(planned(web_service(), {}) ==
        Lines{"virtual service 10.96.0.9:80/TCP rr (cluster IP of default/web/TCP)",
              "address 10.96.0.9", "element KUBE-CLUSTER-IP 10.96.0.9,tcp:80",
              "element KUBE-IPVS-IPS 10.96.0.9"});
}

TEST_CASE("vector 3: node port with affinity on every address") {
  const auto lines = planned(node_port_service(), {e1(), e2()});
  CHECK(starting(lines, "virtual") ==
        Lines{"virtual service 10.0.0.1:30080/TCP rr flags 0x1 timeout 600 (node port of "
              "default/web/TCP)",
              "virtual service 10.96.0.9:80/TCP rr flags 0x1 timeout 600 (cluster IP of "
              "default/web/TCP)",
              "virtual service 10.244.0.1:30080/TCP rr flags 0x1 timeout 600 (node port of "
              "default/web/TCP)"});
  CHECK(starting(lines, "address") == Lines{"address 10.96.0.9"});
  CHECK(starting(lines, "element KUBE-NODE-PORT") == Lines{"element KUBE-NODE-PORT-TCP 30080"});
}

TEST_CASE("vector 4: node ports on the primary address only") {
  auto options = vector_options();
  options.node_port_primary = true;
  const auto services = servers_of(planned(node_port_service(), {e1()}, options));
  CHECK(services.size() == 2);
  CHECK(services.contains("10.0.0.1:30080/TCP"));

  // Without an IPv6 address of the node, IPv6 is still every address.
  options.families = {Family::ipv6};
  auto service = node_port_service();
  service.cluster_ips = {ip("fd00:96::9")};
  service.ip_families = {Family::ipv6};
  auto node = test::vector_node();
  node.addresses.push_back({"eth1", ip("fd00:1::1"), 64});
  const auto result = plan(test::cluster_of({service}), node, options);
  CHECK(result.state.services.contains({ip("fd00:1::1"), Protocol::tcp, 30080}));
  CHECK_FALSE(result.state.services.contains({ip("fe80::1"), Protocol::tcp, 30080}));
}

TEST_CASE("vector 5: SCTP node ports are kept with their addresses") {
  auto service = node_port_service();
  service.ports.front().protocol = Protocol::sctp;
  CHECK(starting(planned(service, {e1()}), "element KUBE-NODE-PORT") ==
        Lines{"element KUBE-NODE-PORT-SCTP-HASH 10.0.0.1,sctp:30080",
              "element KUBE-NODE-PORT-SCTP-HASH 10.244.0.1,sctp:30080"});
}

TEST_CASE("vector 6: a load balancer with source ranges that leave the node out") {
  auto service = load_balancer();
  service.source_ranges = {prefix("203.0.113.0/24"), prefix("198.51.100.7/32")};
  const auto lines = planned(service, {e1(), e2()});
  CHECK(starting(lines, "element KUBE-LOAD") ==
        Lines{"element KUBE-LOAD-BALANCER 192.0.2.10,tcp:443",
              "element KUBE-LOAD-BALANCER-FW 192.0.2.10,tcp:443",
              "element KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.10,tcp:443,198.51.100.7/32",
              "element KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.10,tcp:443,203.0.113.0/24"});
  CHECK(starting(lines, "address") == Lines{"address 10.96.0.9", "address 192.0.2.10"});
  const auto services = servers_of(lines);
  CHECK(services.at("192.0.2.10:443/TCP") == kBothServers);
  CHECK(services.at("10.0.0.1:30443/TCP") == kBothServers);
  CHECK(services.at("10.244.0.1:30443/TCP") == kBothServers);
  CHECK(rules_of(service, "KUBE-IPVS-OUT-FILTER") ==
        Lines{"-s 192.0.2.10/32 -m ipvs --vproto 6 --vaddr 192.0.2.10 --vport 443 -j DROP"});
}

TEST_CASE("vector 7: source ranges that cover the node") {
  auto service = load_balancer();
  service.source_ranges = {prefix("203.0.113.0/24"), prefix("198.51.100.7/32"),
                           prefix("10.0.0.0/8")};
  CHECK(starting(planned(service, {e1()}), "element KUBE-LOAD-BALANCER-SOURCE-IP") ==
        Lines{"element KUBE-LOAD-BALANCER-SOURCE-IP 192.0.2.10,tcp:443,192.0.2.10"});
  CHECK(rules_of(service, "KUBE-IPVS-OUT-FILTER").empty());
  const auto firewall = rules_of(service, "KUBE-SOURCE-RANGES-FIREWALL");
  REQUIRE(firewall.size() == 3);
  CHECK(firewall.back() == "-j DROP");
}

TEST_CASE("vector 8: a range that covers everything lifts all restrictions") {
  auto service = load_balancer();
  service.source_ranges = {prefix("203.0.113.0/24"), prefix("0.0.0.0/0")};
  const auto lines = planned(service, {e1()});
  CHECK(starting(lines, "element KUBE-LOAD") ==
        Lines{"element KUBE-LOAD-BALANCER 192.0.2.10,tcp:443"});
  CHECK(rules_of(service, "KUBE-IPVS-OUT-FILTER").empty());
  CHECK(rules_of(service, "KUBE-PROXY-FIREWALL").empty());
}

TEST_CASE("vector 9: externalTrafficPolicy Local keeps to local endpoints") {
  const auto lines = planned(local_load_balancer(), {e1(), e2()});
  const auto services = servers_of(lines);
  CHECK(services.at("10.96.0.9:443/TCP") == kBothServers);
  CHECK(services.at("192.0.2.10:443/TCP") == kFirst);
  CHECK(services.at("10.0.0.1:30443/TCP") == kFirst);
  CHECK(starting(lines, "element KUBE-LOAD") ==
        Lines{"element KUBE-LOAD-BALANCER 192.0.2.10,tcp:443",
              "element KUBE-LOAD-BALANCER-LOCAL 192.0.2.10,tcp:443"});
  CHECK(starting(lines, "element KUBE-NODE-PORT") ==
        Lines{"element KUBE-NODE-PORT-TCP 30443", "element KUBE-NODE-PORT-LOCAL-TCP 30443"});
  CHECK(starting(lines, "element KUBE-HEALTH") ==
        Lines{"element KUBE-HEALTH-CHECK-NODE-PORT 32000"});
}

TEST_CASE("vector 10: externalTrafficPolicy Local without local endpoints uses the others") {
  const auto services = servers_of(planned(local_load_balancer(), {e2()}));
  CHECK(services.at("192.0.2.10:443/TCP") == kSecond);
  CHECK(services.at("10.0.0.1:30443/TCP") == kSecond);
}

TEST_CASE("vector 11: internalTrafficPolicy Local without local endpoints has no real server") {
  auto service = web_service();
  service.internal_policy_local = true;
  CHECK(servers_of(planned(service, {e2()})).at("10.96.0.9:80/TCP").empty());
}

TEST_CASE("vector 12: internalTrafficPolicy Local of a node-port Service falls back") {
  auto service = node_port_service();
  service.internal_policy_local = true;
  CHECK(servers_of(planned(service, {e2()})).at("10.96.0.9:80/TCP") == kSecond);
}

TEST_CASE("vectors 13 and 14: external IPs elsewhere are bound, those of the node are not") {
  auto service = web_service();
  service.external_ips = {ip("198.51.100.20"), ip("10.0.0.1")};
  const auto lines = planned(service, {e1()});
  CHECK(starting(lines, "address") == Lines{"address 10.96.0.9", "address 198.51.100.20"});
  CHECK(starting(lines, "element KUBE-EXTERNAL-IP ") ==
        Lines{"element KUBE-EXTERNAL-IP 10.0.0.1,tcp:80",
              "element KUBE-EXTERNAL-IP 198.51.100.20,tcp:80"});
  CHECK(starting(lines, "element KUBE-IPVS-IPS") ==
        Lines{"element KUBE-IPVS-IPS 10.96.0.9", "element KUBE-IPVS-IPS 198.51.100.20"});
  const auto services = servers_of(lines);
  CHECK(services.at("10.0.0.1:80/TCP") == kFirst);
  CHECK(services.at("198.51.100.20:80/TCP") == kFirst);
  CHECK(rules_of(service, "KUBE-SERVICES").size() == 7);
}

TEST_CASE("vector 17: serving and terminating endpoints serve when nothing else is ready") {
  auto terminating = e1();
  terminating.ready = false;
  terminating.terminating = true;
  auto unready = e2();
  unready.ready = unready.serving = false;
  CHECK(servers_of(planned(web_service(), {terminating, unready})).at("10.96.0.9:80/TCP") ==
        kFirst);
}

TEST_CASE("vector 18: the scheduler mh hashes ports too") {
  auto options = vector_options();
  options.scheduler = "mh";
  const auto lines = planned(node_port_service(), {e1()}, options);
  for (const auto& line : starting(lines, "virtual"))
    CHECK(line.find(" mh flags 0x11 timeout 600 ") != std::string::npos);
  CHECK(starting(planned(web_service(), {}, options), "virtual") ==
        Lines{"virtual service 10.96.0.9:80/TCP mh flags 0x10 (cluster IP of default/web/TCP)"});
}

}  // namespace
}  // namespace ipvsproxier::plan
