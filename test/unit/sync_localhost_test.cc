// The loop of node ports on localhost, and what comes of the lack of it, on fakes.

#include <cerrno>
#include <chrono>

#include <catch2/catch.hpp>

#include "ipset/rules/localhost_rules.h"
#include "proxier/plan/localhost.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::ErrorKind;
using netlink::Family;
using netlink::Protocol;
using test::ip;

using Daemon = test::FakeDaemon;
using Lines = std::vector<std::string>;

const netlink::VirtualServiceKey kOnNode{ip("10.0.0.1"), Protocol::tcp, 30080};
const netlink::VirtualServiceKey kBehindLoop{ip("169.254.107.3"), Protocol::tcp, 30080};

model::ClusterState port_with(const std::vector<api::Endpoint>& endpoints,
                              Protocol protocol = Protocol::tcp) {
  auto web = test::web_service();
  web.type = api::ServiceType::node_port;
  web.ports[0].protocol = protocol;
  web.ports[0].node_port = 30080;
  return test::cluster_of({web, test::slice_of(web, 8080, endpoints)});
}

plan::PlannerOptions with_localhost(bool on = true) {
  plan::PlannerOptions options{.families = {Family::ipv4}};
  options.node_port_addresses = {*netlink::IpPrefix::parse("10.0.0.0/24")};
  options.node_port_localhost = on;
  options.packet_filter = ipset::PacketFilter::nftables;
  return options;
}

Daemon on_localhost() {
  return Daemon({.options = with_localhost()});
}

Lines loop_links(Daemon& daemon) {
  Lines names;
  const auto links = daemon.links.list_links().value();
  for (const auto& name : links)
    if (name.starts_with(ipset::kLoopLinks)) names.push_back(name);
  return names;
}

const Lines kBothLinks{"kube-local0", "kube-local1"};

bool has_rules(Daemon& daemon) {
  for (const auto& [chain, lines] : daemon.rules.lines(Family::ipv4, ipset::Table::kube_ipvs))
    for (const auto& line : lines)
      if (line.find("169.254.107.") != std::string::npos) return true;
  return false;
}

TEST_CASE("localhost: the loop is there before the rules, and another process writes nothing") {
  auto daemon = on_localhost();
  const auto report = daemon.see(port_with({test::e1()}));
  CHECK(report.settled);
  CHECK(loop_links(daemon) == kBothLinks);
  CHECK(daemon.links.loop_routes().size() == 2);
  CHECK(has_rules(daemon));
  CHECK(daemon.weights(kBehindLoop) == daemon.weights(kOnNode));
  CHECK(daemon.differences().empty());
  CHECK(daemon.watch.broken == Lines{});
  daemon.restart();
  const auto before = daemon.writes();
  CHECK(daemon.see(port_with({test::e1()})).settled);
  CHECK(daemon.writes() == before);
}

TEST_CASE("localhost: links that others remove come back at once, routes with the next reading") {
  auto daemon = on_localhost();
  daemon.see(port_with({test::e1()}));
  daemon.links.remove_link("kube-local1");
  const auto report = daemon.see(netlink::LinkEvents{.link_lost = true});
  CHECK(report.repairs > 0);
  CHECK(loop_links(daemon) == kBothLinks);
  CHECK(daemon.says("others removed or changed links kube-local0 and kube-local1"));
  daemon.links.loop_routes().erase(ip("169.254.107.1"));
  daemon.wait(31s);
  CHECK(daemon.links.loop_routes().contains(ip("169.254.107.1")));
  CHECK(daemon.says("others removed or changed route 169.254.107.1"));
  CHECK(daemon.differences().empty());
}

TEST_CASE("localhost: once it is off nothing of it is left, whatever an earlier process had done") {
  auto daemon = on_localhost();
  const bool served = GENERATE(true, false);
  if (served)
    daemon.see(port_with({test::e1()}));
  else  // killed early
    REQUIRE(daemon.links.ensure_loop(plan::localhost_links({Family::ipv4}), false));
  CHECK(loop_links(daemon) == kBothLinks);
  daemon.restart(with_localhost(false));
  const auto report = daemon.see(port_with({test::e1()}));
  CHECK(report.settled);
  CHECK(loop_links(daemon).empty());
  CHECK(daemon.links.loop_routes().empty());
  CHECK_FALSE(has_rules(daemon));
  CHECK_FALSE(daemon.is_bound("169.254.107.3"));
  CHECK(daemon.weights(kBehindLoop).empty());
  CHECK(daemon.differences().empty());
  CHECK(daemon.says("removed links kube-local0 and kube-local1"));
}

TEST_CASE("localhost: a link that cannot be removed is tried again with the next reading") {
  auto daemon = on_localhost();
  daemon.see(port_with({test::e1()}));
  daemon.links.faults.fail("remove link kube-local0", {ErrorKind::io, EIO, ""}, 1);
  daemon.restart(with_localhost(false));
  daemon.see(port_with({test::e1()}));
  CHECK(loop_links(daemon) == kBothLinks);
  daemon.wait(31s);
  CHECK(loop_links(daemon).empty());
}

// All else works; one problem says it.
void check_without(Daemon& daemon, const std::string& why) {
  INFO(daemon.log());
  CHECK(daemon.says("nodePortAddresses: localhost: no node port is on 127.0.0.1, all others are: " +
                    why));
  CHECK_FALSE(daemon.weights(kOnNode).empty());
  CHECK(daemon.weights(kBehindLoop).empty());
  CHECK_FALSE(has_rules(daemon));
  CHECK_FALSE(daemon.is_bound("169.254.107.3"));
}

TEST_CASE(
    "localhost: where the kernel has no veth links all else works, and it comes when it can") {
  auto daemon = on_localhost();
  daemon.links.faults.fail("make links",
                           {ErrorKind::missing, EOPNOTSUPP, "this kernel has no veth links"});
  const auto report = daemon.see(port_with({test::e1()}));
  CHECK(report.failures == 0);
  CHECK(report.problems == 1);
  check_without(daemon, "");
  daemon.clear_faults();
  daemon.wait(31s);
  CHECK(has_rules(daemon));
  CHECK_FALSE(daemon.weights(kBehindLoop).empty());
}

TEST_CASE("localhost: a link of another's is left alone and named") {
  auto daemon = on_localhost();
  daemon.links.add_link("kube-local0", "bridge");
  daemon.see(port_with({test::e1()}));
  check_without(daemon, "a link kube-local0 exists and is not ours");
  CHECK(loop_links(daemon) == Lines{"kube-local0"});
  // Nor is it removed.
  daemon.restart(with_localhost(false));
  CHECK(daemon.see(port_with({test::e1()})).settled);
  CHECK(loop_links(daemon) == Lines{"kube-local0"});
}

TEST_CASE("localhost: a question without an answer changes nothing") {
  auto daemon = on_localhost();
  daemon.see(port_with({test::e1()}));
  daemon.links.faults.fail("make links", {ErrorKind::timeout, ETIMEDOUT, ""}, 1);
  daemon.wait(31s);
  CHECK(daemon.fault_hits() == 1);
  CHECK(has_rules(daemon));
  CHECK_FALSE(daemon.weights(kBehindLoop).empty());
}

TEST_CASE("localhost: flows to an endpoint that is gone are cut, by the address of the loop") {
  for (const auto protocol : {Protocol::udp, Protocol::tcp}) {
    auto daemon = on_localhost();
    daemon.see(port_with({test::e1(), test::e2()}, protocol));
    const netlink::FlowEnd near{ip("169.254.107.1"), 30080};
    const auto track = [&](std::uint16_t from, const char* server) {
      return daemon.conntrack.track({ip("169.254.107.2"), from}, near, {ip(server), 8080},
                                    protocol);
    };
    const auto stays = track(40000, "10.244.0.3");
    track(40001, "10.244.1.4");
    daemon.see(port_with({test::e1()}, protocol));
    daemon.wait(20min);  // TCP drains first
    const auto left = daemon.conntrack.list({.family = Family::ipv4,
                                             .protocol = protocol,
                                             .destinations = {near},
                                             .wanted = [](const auto&) { return true; },
                                             .most = 10});
    CHECK(left.value() == std::vector{stays});
  }
}

}  // namespace
}  // namespace ipvsproxier::sync
