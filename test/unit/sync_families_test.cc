// What both families do alike: the node's addresses, what is foreign, when changes were made.

#include <cerrno>
#include <utility>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::ErrorKind;
using netlink::Family;
using netlink::LinkEvents;
using netlink::Protocol;
using test::ip;
using test::prefix;

using Names = std::set<std::string>;
using Changed = std::vector<model::Trigger>;

constexpr std::chrono::system_clock::time_point kChange{1'700'000'000s};

struct OfFamily {
  Family family;
  const char* cluster_ip;
  const char* external_ip;
  const char* node_ip;  // on eth0
  const char* spare;    // on no link
};

constexpr OfFamily kV4{Family::ipv4, "10.96.0.9", "198.51.100.20", "10.0.0.1", "10.0.0.2"};
constexpr OfFamily kV6{Family::ipv6, "fd00:96::9", "2001:db8::20", "fd00:10::1", "fd00:10::2"};

// A Service with a node port and external IPs, and an endpoint of each family, whose slice changed
// at this time.
model::ClusterState two_families(std::chrono::system_clock::time_point v4 = kChange,
                                 std::chrono::system_clock::time_point v6 = kChange) {
  auto web = test::web_service();
  web.cluster_ips = {ip(kV4.cluster_ip), ip(kV6.cluster_ip)};
  web.ip_families = {Family::ipv4, Family::ipv6};
  web.external_ips = {ip(kV4.external_ip), ip(kV6.external_ip)};
  web.ports[0].node_port = 30080;
  auto slice4 = test::slice_of(web, 8080, {test::e1()}, "v4");
  auto slice6 = test::slice_of(web, 8080, {test::endpoint("fd00:244::3", "n1")}, "v6");
  slice4.trigger.time = v4;
  slice6.trigger.time = v6;
  return test::cluster_of({web, slice4, slice6});
}

// Node n1, where both families are.
struct TwoFamilies : test::FakeDaemon {
  explicit TwoFamilies(plan::PlannerOptions options = {})
      : FakeDaemon({.options = std::move(options)}) {
    links.add_address({"eth0", ip(kV6.node_ip), 64});
  }
  // Port 22 there is a virtual service that is not ours, nor one to watch.
  void others_serve(const char* address) {
    const std::vector<netlink::IpvsOp> ops = {
        netlink::AddService{{.key = {ip(address), Protocol::tcp, 22}, .scheduler = "rr"}}};
    auto watched = std::exchange(ipvs.after, nullptr);
    REQUIRE(ipvs.apply(ops).at(0));
    ipvs.after = std::move(watched);
  }
  bool serves(const char* address, std::uint16_t port) {
    return ipvs.list_servers({ip(address), Protocol::tcp, port}).has_value();
  }
};

TEST_CASE("a listing of addresses or links that fails takes nothing away") {
  TwoFamilies node({.cluster_cidrs = {prefix("10.244.0.0/16"), prefix("fd00:244::/48")}});
  REQUIRE(node.see(two_families()).complete());
  const auto before = node.dump();
  // Some came, one went.
  for (const auto& of : {kV4, kV6}) node.links.add_address({"eth0", ip(of.spare), 32});
  node.links.remove_address({"eth0", ip(kV4.node_ip), 24});
  // Refused, interrupted by changes again and again, answers lost.
  const auto error = GENERATE(values<netlink::Error>({{ErrorKind::io, ENOMEM, ""},
                                                      {ErrorKind::busy, EBUSY, ""},
                                                      {ErrorKind::overrun, ENOBUFS, ""}}));
  node.links.faults.fail("list addresses", error, 3);
  const bool overrun = GENERATE(false, true);
  const auto report = node.see(LinkEvents{.others_changed = !overrun, .overrun = overrun});
  CHECK(report.failures == 1);
  CHECK_FALSE(report.settled);
  CHECK(node.dump() == before);
  // Another change meanwhile does not wait for the addresses, and takes nothing with it either.
  auto more = two_families();
  test::edit_slice(more.slices.at({"default", "web"}), "web-v4",
                   [](auto& slice) { slice.endpoints.push_back(test::e2()); });
  CHECK(node.see(more).written == Written{.ipvs = 3});
  CHECK(node.serves(kV4.node_ip, 30080));
  node.wait(5s);
  CHECK(node.fault_hits() == 3);
  CHECK(node.differences() == Names{});
  CHECK(node.serves(kV4.spare, 30080));
  CHECK(node.serves(kV6.spare, 30080));
  CHECK_FALSE(node.serves(kV4.node_ip, 30080));
  CHECK(node.watch.broken == std::vector<std::string>{});
}

TEST_CASE("lost notifications cost a look, and nothing where nothing changed") {
  TwoFamilies node;
  node.see(two_families());
  const auto writes = node.writes();
  const auto listings = node.links.listings();
  CHECK(node.see(LinkEvents{.overrun = true}).empty());
  CHECK(node.links.listings() == listings + 1);
  CHECK(node.writes() == writes);
  for (const auto& of : {kV4, kV6}) node.links.add_address({"eth0", ip(of.spare), 32});
  node.see(LinkEvents{.overrun = true});
  CHECK(node.differences() == Names{});
}

TEST_CASE("an external IP that appears on a link leaves the dummy link, and comes back") {
  TwoFamilies node;
  node.see(two_families());
  const auto of = GENERATE(kV4, kV6);
  for (const auto* address : {of.external_ip, of.cluster_ip})
    node.links.add_address({"eth0", ip(address), 32});
  node.see(LinkEvents{.others_changed = true});
  CHECK_FALSE(node.is_bound(of.external_ip));
  CHECK(node.is_bound(of.cluster_ip));
  CHECK(node.serves(of.external_ip, 80));
  CHECK(node.serves(of.external_ip, 30080));
  CHECK(node.differences() == Names{});
  for (const auto* address : {of.external_ip, of.cluster_ip})
    node.links.remove_address({"eth0", ip(address), 32});
  node.see(LinkEvents{.others_changed = true});
  CHECK(node.is_bound(of.external_ip));
  CHECK_FALSE(node.serves(of.external_ip, 30080));
  CHECK(node.differences() == Names{});
  CHECK(node.watch.broken == std::vector<std::string>{});
}

TEST_CASE("primary node-port addresses follow the Node, and stay while it names none") {
  TwoFamilies node({.node_port_primary = true});
  for (const auto& of : {kV4, kV6}) node.links.add_address({"eth0", ip(of.spare), 32});
  auto cluster = two_families();
  cluster.node = api::Node{.name = "n1", .internal_ips = {ip(kV4.node_ip), ip(kV6.spare)}};
  node.see(cluster);
  CHECK(node.serves(kV4.node_ip, 30080));
  CHECK_FALSE(node.serves(kV4.spare, 30080));
  CHECK_FALSE(node.serves(kV6.node_ip, 30080));
  CHECK(node.serves(kV6.spare, 30080));
  cluster.node->internal_ips = {ip(kV6.node_ip)};
  node.see(cluster);
  const auto check = [&] {
    CHECK(node.serves(kV4.node_ip, 30080));
    CHECK_FALSE(node.serves(kV4.spare, 30080));
    CHECK(node.serves(kV6.node_ip, 30080));
    CHECK_FALSE(node.serves(kV6.spare, 30080));
  };
  check();
  // Made again, and without addresses at first.
  for (const auto& made : {std::optional<api::Node>(), std::optional(api::Node{.name = "n1"})}) {
    cluster.node = made;
    CHECK(node.see(cluster).written == Written{});
    check();
  }
  CHECK(node.says("names no IPv4 address, so its node ports stay at 10.0.0.1"));
  cluster.node = api::Node{.name = "n1", .internal_ips = {ip(kV4.spare)}};
  node.see(cluster);
  CHECK(node.serves(kV4.spare, 30080));
  CHECK_FALSE(node.serves(kV4.node_ip, 30080));
  CHECK(node.watch.broken == std::vector<std::string>{});
}

TEST_CASE("before the Node names an address, primary node ports are nowhere") {
  TwoFamilies node({.node_port_primary = true});
  auto cluster = two_families();
  node.see(cluster);
  for (const auto* address : {kV4.node_ip, kV6.node_ip}) CHECK_FALSE(node.serves(address, 30080));
  CHECK(node.says("names no IPv6 address, so its node ports wait until it does"));
  cluster.node = api::Node{.name = "n1", .internal_ips = {ip(kV4.node_ip)}};
  node.see(cluster);
  CHECK(node.serves(kV4.node_ip, 30080));
  CHECK_FALSE(node.serves(kV6.node_ip, 30080));
  CHECK(node.differences() == Names{});
}

TEST_CASE(
    "a process that begins while the Node names no address leaves node ports where they are") {
  TwoFamilies node({.node_port_primary = true});
  for (const auto& of : {kV4, kV6}) node.links.add_address({"eth0", ip(of.spare), 32});
  auto cluster = two_families();
  cluster.node = api::Node{.name = "n1", .internal_ips = {ip(kV4.node_ip), ip(kV6.spare)}};
  node.see(cluster);
  // A virtual service at an address of the node that is no node port.
  node.others_serve(kV4.spare);
  cluster.node.reset();
  node.restart();
  node.see(cluster);
  CHECK(node.serves(kV4.node_ip, 30080));
  CHECK_FALSE(node.serves(kV4.spare, 30080));
  CHECK(node.serves(kV6.spare, 30080));
  CHECK_FALSE(node.serves(kV6.node_ip, 30080));
  // They follow the Services meanwhile.
  cluster.services.begin()->second.ports[0].node_port = 30090;
  node.see(cluster);
  CHECK(node.serves(kV4.node_ip, 30090));
  CHECK_FALSE(node.serves(kV4.node_ip, 30080));
}

TEST_CASE("node ports that were at several addresses end while none is known to be the Node's") {
  TwoFamilies node;
  auto cluster = two_families();
  for (const auto& of : {kV4, kV6}) node.links.add_address({"eth0", ip(of.spare), 32});
  // That of IPv6 is a Service's own.
  cluster.services.begin()->second.external_ips = {ip(kV6.spare)};
  node.see(cluster);
  node.links.remove_address({"eth0", ip(kV6.node_ip), 64});
  node.restart({.node_port_primary = true});
  node.see(cluster);
  for (const auto& of : {kV4, kV6}) {
    CHECK_FALSE(node.serves(of.node_ip, 30080));
    CHECK_FALSE(node.serves(of.spare, 30080));
  }
}

TEST_CASE("kube-proxy's way, primary node ports of a family without address are everywhere") {
  plan::PlannerOptions options;
  options.node_port_primary = true;
  options.differences = plan::kKubeProxyCompat;
  TwoFamilies node(std::move(options));
  auto cluster = two_families();
  cluster.node = api::Node{.name = "n1", .internal_ips = {ip(kV4.spare)}};
  node.see(cluster);
  CHECK_FALSE(node.serves(kV4.node_ip, 30080));
  CHECK(node.serves(kV6.node_ip, 30080));
  cluster.node.reset();
  node.restart();
  node.see(cluster);
  CHECK(node.serves(kV4.node_ip, 30080));
  CHECK(node.serves(kV6.node_ip, 30080));
}

TEST_CASE("what is in excludeCIDRs stays, of either family, also when it was a Service's") {
  TwoFamilies node({.exclude_cidrs = {prefix("192.168.7.0/24"), prefix("fd00:7::/64")},
                    .differences = {.keep_foreign_services = false}});
  node.see(model::ClusterState{});
  for (const auto* address : {"192.168.7.1", "192.168.8.1", "fd00:7::1", "fd00:8::1"})
    node.others_serve(address);
  node.wait(31s);
  auto cluster = two_families();
  auto& web = cluster.services.at({"default", "web"});
  web.external_ips = {ip("192.168.7.9"), ip("fd00:7::9")};
  node.see(cluster);
  CHECK(node.serves("192.168.7.1", 22));
  CHECK_FALSE(node.serves("192.168.8.1", 22));
  CHECK(node.serves("fd00:7::1", 22));
  CHECK_FALSE(node.serves("fd00:8::1", 22));
  CHECK(node.is_bound("192.168.7.9"));
  CHECK(node.is_bound("fd00:7::9"));
  web.external_ips.clear();
  node.see(cluster);
  node.wait(31s);
  CHECK(node.serves("192.168.7.9", 80));
  CHECK(node.serves("fd00:7::9", 80));
  CHECK_FALSE(node.is_bound("192.168.7.9"));
  CHECK_FALSE(node.is_bound("fd00:7::9"));
}

TEST_CASE("NodeCIDR detection takes the first pod CIDR of each family") {
  TwoFamilies node({.detect_local = plan::DetectLocalMode::node_cidr});
  auto cluster = two_families();
  const auto cluster_ip_rule = [&](Family family) {
    std::string found;
    const auto lines = node.rules.lines(family, ipset::Table::nat);
    for (const auto& line : lines.at("KUBE-SERVICES"))
      if (line.find("CLUSTER-IP ") != std::string::npos &&
          line.find("KUBE-MARK-MASQ") != std::string::npos)
        found = line;
    return found;
  };
  cluster.node = api::Node{
      .name = "n1",
      .pod_cidrs = {prefix("fd00:244::/64"), prefix("10.244.0.0/24"), prefix("10.245.0.0/24")}};
  node.see(cluster);
  CHECK_THAT(cluster_ip_rule(Family::ipv4), Catch::StartsWith("! -s 10.244.0.0/24 "));
  CHECK_THAT(cluster_ip_rule(Family::ipv6), Catch::StartsWith("! -s fd00:244::/64 "));
  // A family without one has no detector.
  cluster.node->pod_cidrs = {prefix("fd00:244::/64")};
  node.restart();
  node.see(cluster);
  CHECK_THAT(cluster_ip_rule(Family::ipv4), Catch::Contains("KUBE-CLUSTER-IP src,dst"));
  CHECK_THAT(cluster_ip_rule(Family::ipv6), Catch::StartsWith("! -s fd00:244::/64 "));
}

TEST_CASE("changes of slices of both families are told when the kernel has them") {
  TwoFamilies node;
  const api::NamespacedName web{"default", "web"};
  const Changed first = {{web, Family::ipv4, kChange}, {web, Family::ipv6, kChange + 1s}};
  CHECK(node.see(two_families(kChange, kChange + 1s)).programmed == first);

  // A kernel that refuses what is of one family does not hold up the other.
  const auto of = GENERATE(kV4, kV6);
  const auto other = of.family == Family::ipv4 ? Family::ipv6 : Family::ipv4;
  node.ipvs.faults.fail(of.family == Family::ipv4 ? "add real server 10." : "add real server [",
                        {ErrorKind::io, EIO, ""}, 2);
  auto next = two_families(kChange + 5s, kChange + 6s);
  auto& slices = next.slices.at(web);
  test::edit_slice(slices, "web-v4", [](auto& slice) { slice.endpoints.push_back(test::e2()); });
  test::edit_slice(slices, "web-v6", [](auto& slice) {
    slice.endpoints.push_back(test::endpoint("fd00:244:0:1::4", "n2"));
  });
  const auto time = [](Family family) { return kChange + (family == Family::ipv4 ? 5s : 6s); };
  CHECK(node.see(next).programmed == Changed{{web, other, time(other)}});
  Changed late;
  for (int i = 0; i < 20 && late.empty(); ++i) late = node.wait(500ms).programmed;
  CHECK(late == Changed{{web, of.family, time(of.family)}});
}

TEST_CASE("a host of one family leaves the other alone") {
  const auto of = GENERATE(kV4, kV6);
  const auto& other = of.family == Family::ipv4 ? kV6 : kV4;
  TwoFamilies node({.families = {of.family}});
  node.see(model::ClusterState{});
  node.others_serve(other.spare);
  REQUIRE(node.see(two_families()).complete());
  CHECK(node.serves(of.cluster_ip, 80));
  CHECK(node.serves(of.node_ip, 30080));
  CHECK(node.is_bound(of.external_ip));
  CHECK_FALSE(node.serves(other.cluster_ip, 80));
  CHECK_FALSE(node.is_bound(other.external_ip));
  node.wait(31s);
  CHECK(node.serves(other.spare, 22));
  CHECK(node.rules.lines(other.family, ipset::Table::nat).empty());
}

}  // namespace
}  // namespace ipvsproxier::sync
