// Ports that are left to other programs of the node, as NodeLocal DNS.

#include "proxier/plan/other_programs.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/plan/planner.h"
#include "proxier/plan/service_report.h"
#include "test/support/cluster_builder.h"
#include "test/unit/plan_options.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::plan {
namespace {

using netlink::Protocol;
using netlink::VirtualServiceKey;
using test::ip;

constexpr const char* kDns = "10.96.0.10";

ipset::UntrackedPorts untracked(const char* address, Protocol protocol) {
  return {ip(address), protocol, 53, 53, "legacy IPv4 table raw"};
}

NodeInfo node_with_cache() {
  auto node = test::vector_node();
  node.addresses.push_back({"nodelocaldns", ip(kDns), 32});
  node.addresses.push_back({"nodelocaldns", ip("169.254.20.10"), 32});
  for (const auto* address : {kDns, "169.254.20.10"})
    for (const auto protocol : {Protocol::tcp, Protocol::udp})
      node.untracked.push_back(untracked(address, protocol));
  return node;
}

api::Service dns_service() {
  auto service = test::web_service();
  service.name = {"kube-system", "kube-dns"};
  service.cluster_ips = {ip(kDns)};
  service.ports = {{.name = "dns", .protocol = Protocol::udp, .port = 53},
                   {.name = "dns-tcp", .protocol = Protocol::tcp, .port = 53},
                   {.name = "metrics", .protocol = Protocol::tcp, .port = 9153}};
  return service;
}

// Names addresses of others.
api::Service tenant_service() {
  auto service = test::web_service();
  service.name = {"tenant", "grabber"};
  service.type = api::ServiceType::node_port;
  service.ports = {{.name = "u", .protocol = Protocol::udp, .port = 53, .node_port = 30053}};
  service.external_ips = {ip(kDns), ip("169.254.20.10"), ip("192.0.2.53")};
  return service;
}

model::ClusterState dns_cluster() {
  auto slice = test::slice_of(dns_service(), 8080, {test::e1()});
  slice.ports = {{"dns", Protocol::udp, 8080},
                 {"dns-tcp", Protocol::tcp, 8080},
                 {"metrics", Protocol::tcp, 8080}};
  return test::cluster_of({dns_service(), slice, tenant_service(),
                           test::slice_of(tenant_service(), 8080, {test::e1()})});
}

std::set<VirtualServiceKey> keys_of(const DesiredState& state) {
  std::set<VirtualServiceKey> keys;
  for (const auto& [key, planned] : state.services) keys.insert(key);
  return keys;
}

VirtualServiceKey tcp(const char* address, std::uint16_t port) {
  return {ip(address), Protocol::tcp, port};
}
VirtualServiceKey udp(const char* address, std::uint16_t port) {
  return {ip(address), Protocol::udp, port};
}

TEST_CASE("other programs: untracked ports of an address on their link are left to them") {
  const auto planned = plan(dns_cluster(), node_with_cache(), test::options_v4());
  // The other port of the address; the same port of others; node ports on addresses of the node.
  CHECK(keys_of(planned.state) == std::set{tcp(kDns, 9153), udp("10.96.0.9", 53),
                                           udp("192.0.2.53", 53), udp("10.0.0.1", 30053),
                                           udp("10.244.0.1", 30053)});
  for (const auto& [set, elements] : planned.state.sets)
    for (const auto& element : elements)
      if (const auto* one = std::get_if<ipset::IpPortElement>(&element))
        CHECK_FALSE((one->ip == ip(kDns) && one->port == 53));
  CHECK(test::lines_of(planned.problems) ==
        std::vector<std::string>{
            "warning: Service kube-system/kube-dns: spec.ports: link nodelocaldns of another "
            "program has "
            "10.96.0.10, and rules (NOTRACK, in legacy IPv4 table raw) keep packets to 53/TCP, "
            "53/UDP there from connection tracking: on this node they are left to that program; "
            "let that program do without the address (NodeLocal DNS: -localip without it), and "
            "remove those rules, where the Service shall have it",
            "warning: Service tenant/grabber: spec.ports: link nodelocaldns of another program has "
            "10.96.0.10, and rules (NOTRACK, in legacy IPv4 table raw) keep packets to 53/UDP "
            "there from connection tracking: on this node they are left to that program; let that "
            "program do without the address (NodeLocal DNS: -localip without it), and remove "
            "those rules, where the Service shall have it"});
}

TEST_CASE("other programs: kube-proxy takes their packets, and it is told") {
  auto options = test::options_v4();
  options.differences = kKubeProxyCompat;
  const auto without = plan(
      dns_cluster(),
      [] {
        auto node = node_with_cache();
        node.untracked.clear();
        return node;
      }(),
      options);
  const auto planned = plan(dns_cluster(), node_with_cache(), options);
  CHECK(planned.state == without.state);
  CHECK(planned.problems.size() == without.problems.size() + 2);
  CHECK(planned.state.services.contains(udp(kDns, 53)));
  CHECK(planned.state.services.contains(udp(kDns, 30053)));
}

TEST_CASE("other programs: an address of the Node, and one that no link has, are none") {
  auto node = node_with_cache();
  SECTION("no link has it") {
    std::erase_if(node.addresses, [](const auto& one) { return one.link == "nodelocaldns"; });
  }
  SECTION("ours has it") {
    for (auto& one : node.addresses)
      if (one.link == "nodelocaldns") one.link = kDummyLink;
  }
  SECTION("it is the Node's") {
    node.untracked = {untracked("10.0.0.1", Protocol::udp)};
  }
  const auto planned = plan(dns_cluster(), node, test::options_v4());
  CHECK(planned.state.services.contains(udp(kDns, 53)));
  CHECK(planned.state.services.contains(udp("10.0.0.1", 30053)));
}

TEST_CASE("other programs: a link in a network has node ports, except at the address itself") {
  auto node = test::vector_node();
  node.addresses.push_back({"eth0", ip(kDns), 32});
  node.addresses.push_back({"eth1", ip("192.0.2.7"), 24});
  node.addresses.push_back({"eth1", ip("192.0.2.8"), 24});
  node.untracked = {untracked(kDns, Protocol::udp), untracked("192.0.2.8", Protocol::udp)};
  const auto planned = plan(dns_cluster(), node, test::options_v4());
  const auto has = [&](const char* address) {
    return planned.state.services.contains(udp(address, 30053));
  };
  CHECK(has("10.0.0.1"));
  CHECK(has("192.0.2.7"));
  CHECK_FALSE(has("192.0.2.8"));
  CHECK_FALSE(has(kDns));
}

TEST_CASE("other programs: what comes and goes is planned again") {
  const auto cluster = dns_cluster();
  auto node = node_with_cache();
  auto bare = test::vector_node();
  Planner planner(test::options_v4());
  planner.set_node(bare);
  planner.update_all(cluster);
  CHECK(planner.desired().services.contains(udp(kDns, 53)));
  planner.set_node(node);
  planner.update_each({}, cluster);
  CHECK_FALSE(planner.desired().services.contains(udp(kDns, 53)));
  CHECK(planner.desired() == plan(cluster, node, test::options_v4()).state);
  const auto reports = planner.report_of({"kube-system", "kube-dns"}, cluster);
  CHECK(reports.at(0).facets.at(0).link == "nodelocaldns");
  planner.set_node(bare);
  planner.update_each({}, cluster);
  CHECK(planner.desired() == plan(cluster, bare, test::options_v4()).state);
}

TEST_CASE("other programs: kube-router's link has no node ports, and ours has its addresses") {
  auto node = test::vector_node();
  node.addresses.push_back({"kube-dummy-if", ip("192.0.2.53"), 32});
  node.addresses.push_back({"kube-dummy-if", ip("10.96.0.9"), 32});
  auto options = test::options_v4();
  auto planned = plan(dns_cluster(), node, options);
  CHECK(planned.state.inherited == std::set{ip("10.96.0.9"), ip("192.0.2.53")});
  CHECK_FALSE(planned.state.services.contains(udp("192.0.2.53", 30053)));
  CHECK_FALSE(planned.state.services.contains(udp("10.96.0.9", 30053)));
  CHECK(planned.state.services.contains(udp("10.0.0.1", 30053)));
  CHECK(planned.state.addresses.contains(ip("192.0.2.53")));
  const auto lines = test::lines_of(planned.problems);
  CHECK(std::ranges::any_of(lines, [](const auto& line) {
    return line.starts_with("warning: link kube-dummy-if: it is of kube-router's service proxy");
  }));
  options.differences = kKubeProxyCompat;
  planned = plan(dns_cluster(), node, options);
  CHECK(planned.state.inherited.empty());
  CHECK(planned.state.services.contains(udp("192.0.2.53", 30053)));
  CHECK_FALSE(planned.state.addresses.contains(ip("192.0.2.53")));
}

}  // namespace
}  // namespace ipvsproxier::plan
