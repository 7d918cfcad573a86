// Stale UDP flows, as a daemon clears them.

#include <cerrno>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::ErrorKind;
using netlink::Family;
using netlink::FlowEnd;
using netlink::Protocol;
using test::end_of;
using test::ip;
using test::web_with;

using Daemon = test::FakeDaemon;

const netlink::VirtualServiceKey kDns{ip("10.96.0.9"), Protocol::udp, 80};

std::set<netlink::Flow> flows_of(Daemon& daemon, Protocol protocol = Protocol::udp) {
  const auto flows = daemon.conntrack.list({.family = Family::ipv4, .protocol = protocol}).value();
  return {flows.begin(), flows.end()};
}

TEST_CASE("UDP flows to a real server that left are removed, nothing else is", "[item-19]") {
  Daemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}, Protocol::udp));
  auto& table = daemon.conntrack;
  const auto vip = end_of("10.96.0.9", 80);
  const auto stays = table.track(end_of("10.1.0.1", 4000), vip, end_of("10.244.0.3", 8080));
  table.track(end_of("10.1.0.1", 4001), vip, end_of("10.244.1.4", 8080));
  const auto elsewhere =
      table.track(end_of("10.1.0.1", 4002), end_of("10.96.0.8", 80), end_of("10.244.1.4", 8080));
  const auto report = daemon.see(web_with({test::e1()}, Protocol::udp));
  CHECK(report.flows == 1);
  CHECK(flows_of(daemon) == std::set<netlink::Flow>{stays, elsewhere});

  SECTION("scaled to zero, and none that something else answers") {
    const auto other = table.track(end_of("10.1.0.1", 4003), vip, end_of("10.96.0.9", 80));
    CHECK(daemon.see(web_with({}, Protocol::udp)).flows == 1);
    CHECK(flows_of(daemon) == std::set<netlink::Flow>{elsewhere, other});
    // As soon as there is a real server, everything else to this VIP is stale.
    CHECK(daemon.see(web_with({test::e2()}, Protocol::udp)).flows == 1);
  }
  SECTION("with its Service") {
    CHECK(daemon.see(model::ClusterState{}).flows == 1);
    CHECK(flows_of(daemon) == std::set<netlink::Flow>{elsewhere});
  }
  SECTION("a restart removes none that is valid") {
    daemon.restart();
    CHECK(daemon.see(web_with({test::e1()}, Protocol::udp)).empty());
    CHECK(flows_of(daemon) == std::set<netlink::Flow>{stays, elsewhere});
  }
  SECTION("what became stale between two processes is found") {
    const auto stale = table.track(end_of("10.1.0.1", 4009), vip, end_of("10.244.9.9", 8080));
    daemon.restart();
    CHECK(daemon.see(web_with({test::e1()}, Protocol::udp)).flows == 1);
    CHECK_FALSE(flows_of(daemon).contains(stale));
  }
}

test::FakeDaemonSettings in_cluster_settings() {
  test::FakeDaemonSettings settings;
  settings.options.packet_filter = ipset::PacketFilter::nftables;
  return settings;
}

model::ClusterState local_policy_with(Protocol protocol,
                                      const std::vector<api::Endpoint>& endpoints) {
  auto service = test::web_service();
  service.type = api::ServiceType::load_balancer;
  service.ports.front().protocol = protocol;
  service.load_balancer_ips = {ip("192.0.2.10")};
  service.external_policy_local = true;
  return test::cluster_of({service, test::slice_of(service, 8080, endpoints)});
}

// Clients of the node reach such an address by way of the cluster IP, whose endpoints may be
// anywhere; the address itself has those of this node.
TEST_CASE("UDP flows of in-cluster clients of policy Local go with the endpoint that answers") {
  const auto settings = in_cluster_settings();
  Daemon daemon(settings);
  const auto see = [&](const std::vector<api::Endpoint>& endpoints) {
    return daemon.see(local_policy_with(Protocol::udp, endpoints)).flows;
  };
  CHECK(see({test::e1(), test::e2()}) == 0);
  auto& table = daemon.conntrack;
  const auto vip = end_of("192.0.2.10", 80);
  const auto here = table.track(end_of("10.244.0.9", 4000), vip, end_of("10.244.0.3", 8080));
  const auto far = table.track(end_of("10.244.0.9", 4001), vip, end_of("10.244.1.4", 8080));
  SECTION("the endpoint of this node") {
    CHECK(see({test::e2()}) == 1);
    CHECK(flows_of(daemon) == std::set<netlink::Flow>{far});
  }
  SECTION("one elsewhere, which the address itself never had") {
    CHECK(see({test::e1()}) == 1);
    CHECK(flows_of(daemon) == std::set<netlink::Flow>{here});
  }
  SECTION("a restart takes none") {
    daemon.restart(settings.options);
    CHECK(see({test::e1(), test::e2()}) == 0);
    CHECK(flows_of(daemon) == std::set<netlink::Flow>{here, far});
  }
}

// Neither virtual service of the address changes, as there is no endpoint on this node.
TEST_CASE("UDP flows of in-cluster clients go when their address is another Service's") {
  Daemon daemon(in_cluster_settings());
  auto cluster = local_policy_with(Protocol::udp, {test::e2()});
  auto other = test::web_service();
  other.name.name = "other";
  other.cluster_ips = {ip("10.96.0.8")};
  other.type = api::ServiceType::load_balancer;
  other.ports.front().protocol = Protocol::udp;
  other.external_policy_local = true;
  auto its_endpoint = test::e2();
  its_endpoint.address = ip("10.244.1.5");
  cluster.put(other);
  cluster.put(test::slice_of(other, 8080, {its_endpoint}));
  daemon.see(cluster);
  auto& table = daemon.conntrack;
  const auto vip = end_of("192.0.2.10", 80);
  table.track(end_of("10.244.0.9", 4000), vip, end_of("10.244.1.4", 8080));
  const auto new_one = table.track(end_of("10.244.0.9", 4001), vip, end_of("10.244.1.5", 8080));
  auto web = cluster.services.at(test::web_service().name);
  REQUIRE(web.load_balancer_ips == std::vector{ip("192.0.2.10")});
  web.load_balancer_ips.clear();
  cluster.put(web);
  other.load_balancer_ips = {ip("192.0.2.10")};
  cluster.put(other);
  CHECK(daemon.see(cluster).flows == 1);
  CHECK(flows_of(daemon) == std::set<netlink::Flow>{new_one});
}

TEST_CASE("TCP flows of in-cluster clients of policy Local are cut with the drained endpoint") {
  auto settings = in_cluster_settings();
  settings.drain.timeout = 60s;
  Daemon daemon(settings);
  daemon.see(local_policy_with(Protocol::tcp, {test::e1(), test::e2()}));
  auto& table = daemon.conntrack;
  const auto vip = end_of("192.0.2.10", 80);
  const auto track = [&](const netlink::FlowEnd& to, std::uint16_t port, const char* server) {
    return table.track(end_of("10.244.0.9", port), to, end_of(server, 8080), Protocol::tcp);
  };
  const auto here = track(vip, 4000, "10.244.0.3");
  track(vip, 4001, "10.244.1.4");
  // IPVS itself cuts those to the cluster IP.
  const auto to_cluster_ip = track(end_of("10.96.0.9", 80), 4002, "10.244.1.4");
  const auto tcp_flows = [&] { return flows_of(daemon, Protocol::tcp); };
  daemon.ipvs.set_connections(test::kWeb, test::kE2, 1, 0);
  daemon.see(local_policy_with(Protocol::tcp, {test::e1()}));
  daemon.wait(40s);
  CHECK(tcp_flows().size() == 3);
  SECTION("when its time is over") {
    daemon.wait(40s);
  }
  SECTION("or IPVS has no connection to it any more") {
    daemon.ipvs.set_connections(test::kWeb, test::kE2, 0, 0);
    daemon.wait(10s);
  }
  CHECK(tcp_flows() == std::set<netlink::Flow>{here, to_cluster_ip});
  // As without in-cluster clients, the connections of a Service end with it.
  daemon.see(model::ClusterState{});
  CHECK(tcp_flows() == std::set<netlink::Flow>{to_cluster_ip});
}

TEST_CASE(
    "TCP flows of in-cluster clients are cut with the endpoint after the policy changed too") {
  auto settings = in_cluster_settings();
  settings.drain.timeout = 60s;
  Daemon daemon(settings);
  daemon.see(local_policy_with(Protocol::tcp, {test::e1(), test::e2()}));
  auto& table = daemon.conntrack;
  const auto track = [&](std::uint16_t port, const char* server) {
    return table.track(end_of("10.244.0.9", port), end_of("192.0.2.10", 80), end_of(server, 8080),
                       Protocol::tcp);
  };
  const auto here = track(4000, "10.244.0.3");
  track(4001, "10.244.1.4");
  const auto flows = [&] { return flows_of(daemon, Protocol::tcp); };
  const auto see = [&](const std::vector<api::Endpoint>& endpoints) {
    auto cluster = local_policy_with(Protocol::tcp, endpoints);
    cluster.services.begin()->second.external_policy_local = false;
    daemon.see(cluster);
  };
  see({test::e1(), test::e2()});
  CHECK(flows().size() == 2);
  daemon.ipvs.set_connections(test::kWeb, test::kE2, 1, 0);
  see({test::e1()});
  daemon.wait(40s);
  CHECK(flows().size() == 2);
  daemon.wait(40s);
  CHECK(flows() == std::set<netlink::Flow>{here});
}

// What connection tracking carries goes on behind the way, and must not outlive its endpoint.
TEST_CASE("TCP flows of in-cluster clients are cut with the endpoint, though the way went before") {
  auto settings = in_cluster_settings();
  settings.options.in_cluster_ranges = {test::prefix("240.0.0.0/4")};
  Daemon daemon(settings);
  daemon.see(local_policy_with(Protocol::tcp, {test::e1(), test::e2()}));
  auto& table = daemon.conntrack;
  const auto vip = end_of("192.0.2.10", 80);
  const auto track = [&](std::uint16_t port, const char* server) {
    return table.track(end_of("10.244.0.9", port), vip, end_of(server, 8080), Protocol::tcp);
  };
  const auto here = track(4000, "10.244.0.3");
  track(4001, "10.244.1.4");
  const auto tcp_flows = [&] {
    const auto flows = table.list({.family = Family::ipv4, .protocol = Protocol::tcp}).value();
    return std::set<netlink::Flow>(flows.begin(), flows.end());
  };
  const auto leave = [&](bool local, bool both) {
    const auto state = [&](const std::vector<api::Endpoint>& endpoints) {
      auto cluster = local_policy_with(Protocol::tcp, endpoints);
      auto& service = cluster.services.begin()->second;
      service.external_policy_local = local;
      service.internal_policy_local = both;
      return cluster;
    };
    daemon.see(state({test::e1(), test::e2()}));
    daemon.wait(60s);
    CHECK(tcp_flows().size() == 2);
    daemon.see(state({test::e1()}));
    daemon.wait(60s);
    CHECK(tcp_flows() == std::set<netlink::Flow>{here});
  };
  SECTION("the policy became Cluster") {
    leave(false, false);
  }
  SECTION("the way leads elsewhere") {
    leave(true, true);
  }
  SECTION("the option is off") {
    settings.options.differences.in_cluster_clients = false;
    daemon.restart(settings.options);
    leave(true, false);
  }
}

TEST_CASE("many real servers that go leave room to remember those of others") {
  Daemon daemon;
  model::ClusterState cluster;
  const auto add = [&](const std::string& name, const std::string& address, int endpoints) {
    auto service = test::web_service();
    service.name.name = name;
    service.cluster_ips = {ip(address)};
    service.ports.front().protocol = Protocol::udp;
    std::vector<api::Endpoint> all;
    for (int i = 0; i < endpoints; ++i) {
      auto endpoint = test::e2();
      endpoint.address = netlink::IpAddress::v4(0x0af50000U + static_cast<std::uint32_t>(i));
      all.push_back(endpoint);
    }
    cluster.put(service);
    cluster.put(test::slice_of(service, 8080, all));
  };
  for (int i = 0; i < 20; ++i) add("a" + std::to_string(i), "10.96.1." + std::to_string(i), 1000);
  add("other", "10.96.2.1", 1);
  daemon.see(cluster);
  daemon.conntrack.track(end_of("10.1.0.1", 4000), end_of("10.96.2.1", 80),
                         end_of("10.245.0.0", 8080));
  cluster.slices.clear();
  CHECK(daemon.see(cluster).flows == 1);
}

TEST_CASE("a flow that could not be removed is tried again", "[item-3]") {
  Daemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}, Protocol::udp));
  daemon.conntrack.track(end_of("10.1.0.1", 4001), end_of("10.96.0.9", 80),
                         end_of("10.244.1.4", 8080));
  daemon.conntrack.faults.fail("remove UDP flow", {ErrorKind::overrun, ENOBUFS, ""}, 1);
  CHECK(daemon.see(web_with({test::e1()}, Protocol::udp)).failures == 1);
  CHECK(flows_of(daemon).size() == 1);
  daemon.wait(2s);
  CHECK(flows_of(daemon).empty());
}

TEST_CASE("one refused real server keeps no other stale flow", "[item-19]") {
  Daemon daemon;
  auto& table = daemon.conntrack;
  const auto vip = end_of("10.96.0.9", 80);
  const auto e1 = end_of("10.244.0.3", 8080);
  const auto e2 = end_of("10.244.1.4", 8080);
  const auto left = end_of("10.244.9.9", 8080);
  daemon.see(web_with({test::e1()}, Protocol::udp));
  const bool lost = GENERATE(false, true);
  if (lost)
    daemon.ipvs.faults.lose("add real server 10.244.1.4");
  else
    daemon.ipvs.faults.fail("add real server 10.244.1.4", {ErrorKind::malformed, EINVAL, ""});
  const auto stays = table.track(end_of("10.1.0.1", 4000), vip, e1);
  const auto unsure = table.track(end_of("10.1.0.1", 4001), vip, e2);
  table.track(end_of("10.1.0.1", 4002), vip, left);
  CHECK(daemon.see(web_with({test::e1(), test::e2()}, Protocol::udp)).flows == 1);
  CHECK(flows_of(daemon) == std::set<netlink::Flow>{stays, unsure});

  SECTION("nothing is listed again for its sake") {
    const auto listings = table.listings();
    if (!lost) daemon.wait(120s);
    CHECK(table.listings() == listings);
  }
  SECTION("what becomes stale later is removed at once") {
    table.track(end_of("10.1.0.1", 4003), vip, e1);
    CHECK(daemon.see(web_with({test::e2()}, Protocol::udp)).flows == 2);
    CHECK(flows_of(daemon) == std::set<netlink::Flow>{unsure});
  }
  SECTION("its own flows stay when it gets there, and go when it is not wanted any more") {
    daemon.clear_faults();
    daemon.wait(60s);
    CHECK(daemon.weights(kDns).size() == 2);
    CHECK(flows_of(daemon) == std::set<netlink::Flow>{stays, unsure});
    daemon.see(web_with({test::e1()}, Protocol::udp));
    CHECK(flows_of(daemon) == std::set<netlink::Flow>{stays});
  }
  SECTION("its own flows go when it is not wanted any more, though it never got there") {
    daemon.see(web_with({test::e1()}, Protocol::udp));
    daemon.wait(60s);
    CHECK(flows_of(daemon) == std::set<netlink::Flow>{stays});
  }
}

TEST_CASE("one refused real server delays no other virtual service's flows") {
  Daemon daemon;
  auto other = test::web_service();
  other.name.name = "other";
  other.cluster_ips = {ip("10.96.0.8")};
  other.ports[0].protocol = Protocol::udp;
  const auto with = [&](std::vector<api::Endpoint> endpoints) {
    auto cluster = web_with({test::e1(), test::e2()}, Protocol::udp);
    cluster.put(other);
    cluster.put(test::slice_of(other, 8080, std::move(endpoints)));
    return cluster;
  };
  daemon.ipvs.faults.fail("add real server 10.244.1.4:8080 weight 1 to virtual service 10.96.0.9",
                          {ErrorKind::malformed, EINVAL, ""});
  daemon.see(with({test::e1(), test::e2()}));
  daemon.wait(60s);
  daemon.conntrack.track(end_of("10.1.0.1", 4000), end_of("10.96.0.8", 80),
                         end_of("10.244.1.4", 8080));
  CHECK(daemon.see(with({test::e1()})).flows == 1);
}

TEST_CASE("flows of virtual services that are not ours are left alone at start", "[item-19]") {
  const netlink::VirtualServiceKey excluded{ip("172.20.0.1"), Protocol::udp, 53};
  const netlink::VirtualServiceKey other_family{ip("fd00::a"), Protocol::udp, 53};
  test::FakeDaemonSettings settings;
  settings.options.families = {Family::ipv4, Family::ipv6};
  Daemon daemon(settings);
  daemon.see(web_with({test::e1()}, Protocol::udp));
  for (const auto& key : {excluded, other_family}) {
    const bool v4 = key.address.family() == Family::ipv4;
    const netlink::RealServerKey server{ip(v4 ? "10.244.7.7" : "fd01::7"), 53};
    const std::vector<netlink::IpvsOp> ops = {netlink::AddService{{.key = key, .scheduler = "rr"}},
                                              netlink::AddServer{key, {.key = server}}};
    for (const auto& status : daemon.ipvs.apply(ops)) REQUIRE(status);
    daemon.conntrack.track({ip(v4 ? "10.1.0.1" : "fd02::1"), 4000}, {key.address, key.port},
                           {ip(v4 ? "10.244.9.9" : "fd01::9"), 53});
  }
  daemon.conntrack.track(end_of("10.1.0.1", 4001), end_of("10.96.0.9", 80),
                         end_of("10.244.9.9", 8080));
  settings.options.families = {Family::ipv4};
  settings.options.exclude_cidrs = {test::prefix("172.20.0.0/16")};
  daemon.restart(settings.options);
  CHECK(daemon.see(web_with({test::e1()}, Protocol::udp)).flows == 1);
  CHECK(flows_of(daemon).size() == 1);
  CHECK(daemon.conntrack.list({.family = Family::ipv6}).value().size() == 1);
}

TEST_CASE("where flows cannot be listed one warning says so, and later they are cleared") {
  const auto kind = GENERATE(ErrorKind::missing, ErrorKind::denied, ErrorKind::unsupported);
  Daemon daemon;
  auto& table = daemon.conntrack;
  const auto vip = end_of("10.96.0.9", 80);
  daemon.see(web_with({test::e1(), test::e2()}, Protocol::udp));
  const auto stays = table.track(end_of("10.1.0.1", 4000), vip, end_of("10.244.0.3", 8080));
  table.track(end_of("10.1.0.1", 4001), vip, end_of("10.244.1.4", 8080));
  table.faults.fail("list UDP flows", {kind, EOPNOTSUPP, "no listing"});
  auto report = daemon.see(web_with({test::e1()}, Protocol::udp));
  CHECK(report.flows_unreadable);
  CHECK(report.complete());
  CHECK(report.settled);
  CHECK(report.purges.at(Family::ipv4).failed == 1);
  daemon.wait(9min);
  const auto log = daemon.log();
  const std::string line = "clear stale flows: ";
  CHECK(log.find(line) != std::string::npos);
  CHECK(log.find(line) == log.rfind(line));
  const auto looks = table.listings();
  CHECK(looks < 15);
  // Changes meanwhile ask no more often, and nothing of them is forgotten.
  daemon.see(web_with({}, Protocol::udp));
  daemon.see(web_with({test::e2()}, Protocol::udp));
  daemon.see(web_with({test::e1()}, Protocol::udp));
  CHECK(table.listings() == looks);
  table.faults.clear();
  daemon.wait(5min);
  CHECK(flows_of(daemon) == std::set<netlink::Flow>{stays});
  CHECK_FALSE(daemon.see(web_with({test::e1(), test::e2()}, Protocol::udp)).flows_unreadable);
}

TEST_CASE("flows of a Service that goes while none can be listed are cleared later") {
  Daemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}, Protocol::udp));
  daemon.conntrack.track(end_of("10.1.0.1", 4001), end_of("10.96.0.9", 80),
                         end_of("10.244.1.4", 8080));
  daemon.conntrack.faults.fail("list UDP flows", {ErrorKind::missing, EINVAL, "no listing"});
  daemon.see(web_with({test::e1()}, Protocol::udp));
  daemon.see(model::ClusterState{});
  daemon.wait(1h);
  daemon.conntrack.faults.clear();
  daemon.wait(5min);
  CHECK(flows_of(daemon).empty());
}

TEST_CASE("without a flow to look for nothing is unreadable, and nobody asks again") {
  Daemon daemon;
  daemon.ipvs.faults.fail("add real server 10.244.1.4", {ErrorKind::malformed, EINVAL, ""});
  daemon.see(web_with({test::e1(), test::e2()}, Protocol::udp));
  auto other = test::web_service();
  other.name.name = "other";
  other.cluster_ips = {ip("10.96.0.8")};
  other.ports[0].protocol = Protocol::udp;
  auto cluster = web_with({test::e1(), test::e2()}, Protocol::udp);
  daemon.conntrack.faults.fail("list UDP flows", {ErrorKind::missing, EINVAL, "no listing"});
  cluster.put(other);
  CHECK(daemon.see(cluster).flows_unreadable);
  daemon.see(web_with({test::e1(), test::e2()}, Protocol::udp));
  daemon.wait(10min);
  const auto looks = daemon.conntrack.listings();
  CHECK_FALSE(daemon.see(netlink::LinkEvents{.others_changed = true}).flows_unreadable);
  daemon.wait(10min);
  CHECK(daemon.conntrack.listings() == looks);
}

TEST_CASE("very many stale flows are removed in parts") {
  constexpr std::size_t kFlows = 3 * StaleFlows::kFlowsALook;
  Daemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}, Protocol::udp));
  for (std::size_t i = 0; i < kFlows; ++i)
    daemon.conntrack.track({netlink::IpAddress::v4(0x0a010000U + static_cast<std::uint32_t>(i)), 7},
                           end_of("10.96.0.9", 80), end_of("10.244.1.4", 8080));
  daemon.see(web_with({test::e1()}, Protocol::udp));
  CHECK(flows_of(daemon).size() > kFlows / 2);
  CHECK(daemon.wait(10s).flows == kFlows);
  CHECK(flows_of(daemon).empty());
}

}  // namespace
}  // namespace ipvsproxier::sync
