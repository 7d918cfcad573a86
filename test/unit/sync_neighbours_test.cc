// Virtual services of other programs beside ours: what stays, what a Service gets that claims them,
// and what a new process takes for ours.

#include <catch2/catch.hpp>

#include "test/support/fake_daemon.h"

namespace ipvsproxier::test {
namespace {

using namespace std::chrono_literals;
using netlink::Family;
using netlink::IpvsOp;
using netlink::Protocol;
using netlink::VirtualServiceKey;

const VirtualServiceKey kTheirs{ip("192.0.2.10"), Protocol::tcp, 80};
const netlink::RealServer kTheirServer{
    .key = {ip("10.9.9.9"), 8080}, .weight = 7, .method = netlink::ForwardMethod::route};

struct Neighbours : FakeDaemon {
  explicit Neighbours(FakeDaemonSettings settings = {}) : FakeDaemon(std::move(settings)) {}

  void by_them(const std::vector<IpvsOp>& ops) {
    auto watched = std::exchange(ipvs.after, nullptr);
    for (const auto& status : ipvs.apply(ops)) REQUIRE(status);
    ipvs.after = std::move(watched);
  }
  void they_serve(const VirtualServiceKey& key) {
    by_them({netlink::AddService{{.key = key, .scheduler = "wlc"}},
             netlink::AddServer{key, kTheirServer}});
  }
  // Whether it is as they made it.
  bool is_theirs(const VirtualServiceKey& key) {
    const auto* server = ipvs.server(key, kTheirServer.key);
    if (server == nullptr || *server != kTheirServer || ipvs.servers(key).size() != 1) return false;
    for (const auto& service : ipvs.services())
      if (service.key == key) return service.scheduler == "wlc";
    return false;
  }
  bool has_element(const std::string& set, const ipset::Element& element) {
    return sets.contains(set, element);
  }
};

model::ClusterState web_at(const std::string& external_ip, std::uint16_t port = 80,
                           std::uint16_t node_port = 0) {
  auto web = web_service();
  web.external_ips = {ip(external_ip)};
  web.ports[0].port = port;
  web.ports[0].node_port = node_port;
  return cluster_of({web, slice_of(web, 8080, {e1(), e2()})});
}

VirtualServiceKey at(const std::string& address, std::uint16_t port = 80) {
  return {ip(address), Protocol::tcp, port};
}

TEST_CASE("neighbours: what other programs serve stays through starts, readings and changes") {
  Neighbours node;
  const std::vector<VirtualServiceKey> all = {
      kTheirs, at("10.0.0.1", 8443), {ip("192.0.2.10"), Protocol::udp, 53}};
  for (const auto& key : all) node.they_serve(key);
  REQUIRE(node.see(web_with({e1()})).complete());
  const auto before = node.writes();
  node.wait(70s);
  CHECK(node.writes() == before);
  node.they_serve(at("192.0.2.11"));
  node.wait(70s);
  node.restart();
  REQUIRE(node.see(model::ClusterState{}).complete());
  CHECK_FALSE(node.ipvs.contains(kWeb));
  for (const auto& key : all) CHECK(node.is_theirs(key));
  CHECK(node.is_theirs(at("192.0.2.11")));
  CHECK_FALSE(node.says("others changed"));
}

TEST_CASE(
    "neighbours: a Service gets no address that they serve, with one problem, until they go") {
  Neighbours node;
  node.they_serve(kTheirs);
  const std::uint16_t port = GENERATE(std::uint16_t{80}, std::uint16_t{443});
  const auto cluster = web_at("192.0.2.10", port);
  auto report = node.see(cluster);
  CHECK(report.failures == 0);
  CHECK(report.problems == 1);
  CHECK(report.refusals.at(Family::ipv4).by_foreign == 1);
  CHECK(
      node.says("Service default/web: spec.externalIPs: another program of this node has the "
                "virtual service 192.0.2.10:80/TCP, and keeps it: 192.0.2.10:"));
  CHECK(node.weights(at("10.96.0.9", port)).size() == 2);
  const auto is_refused = [&] {
    return node.is_theirs(kTheirs) && !node.is_bound("192.0.2.10") &&
           (port == 80 || !node.ipvs.contains(at("192.0.2.10", port))) &&
           !node.has_element("KUBE-IPVS-IPS", ipset::IpElement{ip("192.0.2.10")}) &&
           !node.has_element("KUBE-EXTERNAL-IP",
                             ipset::IpPortElement{ip("192.0.2.10"), Protocol::tcp, port});
  };
  CHECK(is_refused());
  node.wait(70s);
  CHECK(is_refused());
  // Nothing of the claim is left that a new process could take for a trace of ours.
  node.restart();
  CHECK(node.see(cluster).problems == 1);
  CHECK(is_refused());

  node.by_them({netlink::DeleteService{kTheirs}});
  node.wait(70s);
  CHECK(node.see(cluster).refusals.at(Family::ipv4).by_foreign == 0);
  CHECK(node.weights(at("192.0.2.10", port)).size() == 2);
  CHECK(node.is_bound("192.0.2.10"));
  CHECK(node.differences().empty());
}

TEST_CASE("neighbours: a node port that they serve on some address is none of ours") {
  Neighbours node;
  node.they_serve(at("192.0.2.10", 30080));
  auto cluster = web_at("198.51.100.7", 80, 30080);
  CHECK(node.see(cluster).problems == 1);
  CHECK_FALSE(node.ipvs.contains(at("10.0.0.1", 30080)));
  CHECK(node.weights(at("198.51.100.7")).size() == 2);
  node.restart();
  CHECK(node.see(cluster).problems == 1);
  CHECK(node.is_theirs(at("192.0.2.10", 30080)));
  node.by_them({netlink::DeleteService{at("192.0.2.10", 30080)}});
  node.wait(70s);
  CHECK(node.weights(at("10.0.0.1", 30080)).size() == 2);
}

TEST_CASE("neighbours: what they made since the last reading is met, and stays") {
  Neighbours node;
  node.see(web_with({e1()}));
  const bool as_node_port = GENERATE(false, true);
  const auto key = as_node_port ? at("10.0.0.1", 30080) : kTheirs;
  node.they_serve(key);
  node.see(as_node_port ? web_at("198.51.100.7", 80, 30080) : web_at("192.0.2.10"));
  CHECK(node.is_theirs(key));
  node.wait(2s);
  CHECK(node.is_theirs(key));
  CHECK(node.says("another program of this node has the virtual service " + to_string(key)));
  CHECK_FALSE(node.is_bound("192.0.2.10"));
  CHECK_FALSE(node.has_element("KUBE-NODE-PORT-TCP", ipset::PortElement{30080}));
  node.wait(70s);
  CHECK(node.is_theirs(key));
  CHECK(node.see(web_with({e1()})).settled);
}

TEST_CASE("neighbours: on an address that a Service has, all ports are ours") {
  Neighbours node;
  node.see(web_at("198.51.100.7"));
  const auto other = GENERATE(at("198.51.100.7", 81), at("10.96.0.9", 81));
  node.they_serve(other);
  node.wait(70s);
  CHECK_FALSE(node.ipvs.contains(other));
}

TEST_CASE("neighbours: what a predecessor left is known by addresses, routes and elements") {
  const bool by_routes = GENERATE(false, true);
  plan::PlannerOptions options{.families = {Family::ipv4}, .bind_by_routes = by_routes};
  Neighbours node({.options = options});
  node.see(web_at("198.51.100.7", 80, 30080));
  const auto left = GENERATE(at("198.51.100.7"), at("10.0.0.1", 30080), at("10.96.0.9"));
  node.they_serve(kTheirs);
  SECTION("it goes with its Service") {
    node.restart();
    REQUIRE(node.see(model::ClusterState{}).complete());
    CHECK_FALSE(node.ipvs.contains(left));
  }
  SECTION("it is put right with its Service") {
    node.by_them({netlink::EditService{{.key = left, .scheduler = "wrr"}},
                  netlink::DeleteServer{left, kE1}});
    node.restart();
    REQUIRE(node.see(web_at("198.51.100.7", 80, 30080)).complete());
    CHECK(node.weights(left).size() == 2);
    CHECK((by_routes || node.missing().empty()));
  }
  CHECK(node.is_theirs(kTheirs));
}

TEST_CASE(
    "neighbours: sets flushed by hand and a new process: an address tells it, a port does not") {
  Neighbours node;
  const auto cluster = web_at("198.51.100.7", 80, 30080);
  node.see(cluster);
  node.sets.vanish(false);
  node.restart();
  auto report = node.see(cluster);
  CHECK(report.problems == 1);
  CHECK(
      node.says("spec.ports[0].nodePort: another program of this node has the virtual service "
                "10.0.0.1:30080/TCP"));
  CHECK(node.weights(at("198.51.100.7")).size() == 2);
  CHECK(node.weights(kWeb).size() == 2);
  // As the manual says.
  node.by_them({netlink::DeleteService{at("10.0.0.1", 30080)}});
  node.wait(70s);
  CHECK(node.differences().empty());
}

TEST_CASE("neighbours: sets flushed by hand under the same process change nobody's ownership") {
  Neighbours node;
  const auto cluster = web_at("198.51.100.7", 80, 30080);
  node.see(cluster);
  node.they_serve(kTheirs);
  node.sets.vanish(false);
  node.wait(70s);
  CHECK(node.missing().empty());
  CHECK(node.is_theirs(kTheirs));
  node.see(model::ClusterState{});
  CHECK_FALSE(node.ipvs.contains(at("10.0.0.1", 30080)));
}

TEST_CASE("neighbours: sets that cannot be read decide nothing") {
  Neighbours node;
  const auto cluster = web_at("198.51.100.7", 80, 30080);
  node.see(cluster);
  node.they_serve(kTheirs);
  node.restart();
  node.sets.faults.fail("list set KUBE-NODE-PORT-TCP", {netlink::ErrorKind::io, ENOMEM, ""}, 1);
  CHECK(node.see(cluster).problems == 0);
  CHECK(node.weights(at("10.0.0.1", 30080)).size() == 2);
  node.wait(70s);
  CHECK(node.missing().empty());
  CHECK(node.is_theirs(kTheirs));
  node.see(model::ClusterState{});
  CHECK_FALSE(node.ipvs.contains(at("10.0.0.1", 30080)));
}

TEST_CASE("neighbours: a lost answer to our own addition does not make it foreign") {
  Neighbours node;
  node.see(web_with({e1()}));
  node.ipvs.faults.lose("add virtual service 198.51.100.7:80", 1);
  node.see(web_at("198.51.100.7"));
  node.wait(70s);
  CHECK(node.missing().empty());
  CHECK_FALSE(node.says("another program"));
}

TEST_CASE("neighbours: a node port that drains is still ours to a new process") {
  plan::PlannerOptions options{.families = {Family::ipv4}, .drain_deleted_services = true};
  Neighbours node({.options = options});
  node.see(web_at("198.51.100.7", 80, 30080));
  const auto port = at("10.0.0.1", 30080);
  node.ipvs.set_connections(port, kE1, 1, 0);
  node.see(model::ClusterState{});
  node.wait(20s);
  REQUIRE(node.ipvs.contains(port));
  CHECK(node.has_element("KUBE-NODE-PORT-TCP", ipset::PortElement{30080}));
  node.restart();
  node.see(model::ClusterState{});
  node.wait(20s);
  REQUIRE(node.ipvs.contains(port));
  node.ipvs.set_connections(port, kE1, 0, 0);
  node.wait(20s);
  CHECK_FALSE(node.ipvs.contains(port));
  CHECK_FALSE(node.has_element("KUBE-NODE-PORT-TCP", ipset::PortElement{30080}));
}

TEST_CASE("neighbours: as in kube-proxy, all virtual services are ours", "[compat]") {
  plan::PlannerOptions options{.families = {Family::ipv4}, .differences = plan::kKubeProxyCompat};
  Neighbours node({.options = options});
  node.they_serve(kTheirs);
  node.they_serve(at("203.0.113.5"));
  CHECK(node.see(web_at("192.0.2.10")).problems == 0);
  CHECK(node.weights(kTheirs) ==
        std::map<netlink::RealServerKey, std::uint32_t>{{kTheirServer.key, 0}, {kE1, 1}, {kE2, 1}});
  CHECK_FALSE(node.ipvs.contains(at("203.0.113.5")));
  // Made since the last reading: edited by the same operation.
  node.they_serve(at("203.0.113.5"));
  CHECK(node.see(web_at("203.0.113.5")).failures == 0);
  CHECK(node.ipvs.server(at("203.0.113.5"), kE1) != nullptr);
}

TEST_CASE("neighbours: ten thousand of theirs cost no replanning and no question each", "[slow]") {
  Neighbours node;
  std::vector<IpvsOp> ops;
  for (std::uint32_t i = 0; i < 10'000; ++i)
    ops.emplace_back(netlink::AddService{
        {.key = {netlink::IpAddress::v4(0xc0a80000U + i), Protocol::tcp, 80}, .scheduler = "rr"}});
  node.by_them(ops);
  node.see(web_with({e1()}));
  const auto listings = node.ipvs.server_listings();
  node.wait(31s);
  CHECK(node.ipvs.server_listings() - listings < 10);
  ops.clear();
  for (std::uint32_t i = 0; i < 5'000; ++i)
    ops.emplace_back(
        netlink::DeleteService{{netlink::IpAddress::v4(0xc0a80000U + i), Protocol::tcp, 80}});
  node.by_them(ops);
  node.wait(31s);
  CHECK(node.ipvs.server_listings() - listings < 40);
  CHECK(node.ipvs.services().size() == 5'001);
}

}  // namespace
}  // namespace ipvsproxier::test
