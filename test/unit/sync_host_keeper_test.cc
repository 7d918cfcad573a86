// Settings of the node that are not the daemon's: what it says of them, and node ports that it
// reserves.

#include "proxier/sync/host_keeper.h"

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"
#include "test/support/fake_host.h"

namespace ipvsproxier::sync {
namespace {

constexpr auto kRange = "sys/net/ipv4/ip_local_port_range";
constexpr auto kReserved = "sys/net/ipv4/ip_local_reserved_ports";

test::FakeDaemon daemon_on(const test::FakeHost& host, bool reserve = false) {
  auto setup = host.setup();
  setup.reserve_node_ports = reserve;
  return test::FakeDaemon({.host = setup});
}

// default/web with node port 30443.
model::ClusterState with_node_port() {
  auto web = test::web_service();
  web.ports.at(0).node_port = 30443;
  return test::cluster_of({web, test::slice_of(web, 8080, {test::e1()})});
}

bool is_wrong(test::FakeDaemon& daemon, const std::string& text) {
  bool found = false;
  daemon.ask([&](const Inspection& inspection) {
    for (const auto& line : inspection.standing.wrong)
      found = found || line.find(text) != std::string::npos;
  });
  return found;
}

TEST_CASE("a range of local ports with node ports is reported until it is right") {
  test::FakeHost host;
  host.put(kRange, "1024 65535");
  host.put(kReserved, "8080");
  auto daemon = daemon_on(host);
  daemon.see(with_node_port());
  CHECK(daemon.says("(30443)"));
  CHECK(is_wrong(daemon, "ip_local_port_range"));
  CHECK(host.get(kReserved) == "8080");
  host.put(kReserved, "30000-32767");
  daemon.wait(std::chrono::minutes(2));
  CHECK_FALSE(is_wrong(daemon, "ip_local_port_range"));
}

TEST_CASE(
    "node ports are reserved if that is asked for, and nothing that others reserved is lost") {
  test::FakeHost host;
  host.put(kRange, "1024 65535");
  host.put(kReserved, "8080");
  auto daemon = daemon_on(host, true);
  daemon.see(with_node_port());
  CHECK(host.get(kReserved) == "8080,30443");
  CHECK_FALSE(is_wrong(daemon, "ip_local_port_range"));
  host.put(kReserved, "9090");
  daemon.wait(std::chrono::minutes(2));
  CHECK(host.get(kReserved) == "9090,30443");
}

TEST_CASE("a Service reserves no ports by naming this node's address as an external IP") {
  test::FakeHost host;
  host.put(kReserved, "8080");
  auto daemon = daemon_on(host, true);
  auto web = test::web_service();
  web.ports.at(0).port = 40000;
  web.external_ips = {test::ip("10.0.0.1")};
  daemon.see(test::cluster_of({web, test::slice_of(web, 8080, {test::e1()})}));
  CHECK(host.get(kReserved) == "8080");
}

TEST_CASE("a list of reserved ports that the kernel takes in no single write is left alone") {
  test::FakeHost host;
  host.put(kReserved, "8080");
  auto daemon = daemon_on(host, true);
  auto web = test::web_service();
  web.ports.clear();
  for (std::uint16_t port = 30000; port < 32000; port += 2)
    web.ports.push_back({.name = "p" + std::to_string(port),
                         .protocol = netlink::Protocol::tcp,
                         .port = port,
                         .node_port = port});
  daemon.see(test::cluster_of({web}));
  CHECK(host.get(kReserved) == "8080");
  CHECK(is_wrong(daemon, "too long for one write"));
}

TEST_CASE("a bridge of pods that iptables does not see is reported") {
  test::FakeHost host;
  host.put("links/cni0/brif/veth1", "");
  host.put("links/cni0/brif/veth2", "");
  host.put("links/eth0/mtu", "1500");
  auto daemon = daemon_on(host);
  daemon.links.add_link("cni0", "bridge");
  daemon.links.add_address({"cni0", test::ip("10.244.0.1"), 24});
  auto cluster = with_node_port();
  cluster.node = api::Node{.name = "n1", .pod_cidrs = {test::prefix("10.244.0.0/24")}};
  daemon.see(cluster);
  CHECK(is_wrong(daemon, "br_netfilter"));
  host.put("sys/net/bridge/bridge-nf-call-iptables", "1");
  daemon.wait(std::chrono::minutes(2));
  CHECK_FALSE(is_wrong(daemon, "bridge"));
}

// A CNI with pools of its own: no podCIDRs, and no range of the cluster.
TEST_CASE("a bridge is one of pods when an endpoint of this node is behind it") {
  test::FakeHost host;
  host.put("links/br0/brif/veth1", "");
  host.put("links/br0/brif/veth2", "");
  auto daemon = daemon_on(host);
  daemon.links.add_link("br0", "bridge");
  daemon.links.add_address({"br0", test::ip("172.20.0.1"), 16});
  auto endpoint = test::e1();
  endpoint.address = test::ip("172.20.0.7");
  const auto web = test::web_service();
  endpoint.node_name = "elsewhere";
  daemon.see(test::cluster_of({web, test::slice_of(web, 8080, {endpoint})}));
  CHECK_FALSE(is_wrong(daemon, "br_netfilter"));
  endpoint.node_name = "n1";
  daemon.see(test::cluster_of({web, test::slice_of(web, 8080, {endpoint})}));
  daemon.wait(std::chrono::minutes(2));
  CHECK(is_wrong(daemon, "br_netfilter"));
  host.put("links/br0/bridge/nf_call_iptables", "1");
  daemon.wait(std::chrono::minutes(2));
  CHECK_FALSE(is_wrong(daemon, "br_netfilter"));
}

}  // namespace
}  // namespace ipvsproxier::sync
