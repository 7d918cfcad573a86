// Flows that began before their virtual service was there, as a daemon clears them.

#include <cerrno>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::ErrorKind;
using netlink::Family;
using netlink::Flow;
using netlink::FlowEnd;
using netlink::Protocol;
using test::end_of;
using test::ip;
using test::web_with;

using Daemon = test::FakeDaemon;

const FlowEnd kVip = end_of("10.96.0.9", 80);

// Packets of a client to the VIP while it was nobody's, or another machine's.
struct Clients {
  Daemon& daemon;
  Protocol protocol;
  std::uint16_t port = 4000;

  Flow sends(const FlowEnd& to = kVip) { return track(to, to, false); }
  Flow is_answered_there(const FlowEnd& to = kVip) { return track(to, to, true); }
  Flow is_translated(const std::string& server) { return track(kVip, end_of(server, 8080), false); }
  Flow track(const FlowEnd& to, const FlowEnd& server, bool answered) {
    return daemon.conntrack.track(end_of("10.244.0.12", port++), to, server, protocol, answered);
  }
  std::set<Flow> flows() const {
    const auto all = daemon.conntrack.list({.family = Family::ipv4, .protocol = protocol}).value();
    return {all.begin(), all.end()};
  }
};

TEST_CASE("flows that nobody translated or answered end when their virtual service is added") {
  const auto protocol = GENERATE(Protocol::tcp, Protocol::sctp);
  Daemon daemon;
  daemon.see(model::ClusterState{});
  Clients clients{daemon, protocol};
  clients.sends();
  clients.sends();
  const std::set stay = {clients.is_answered_there(), clients.is_translated("10.244.0.3"),
                         clients.is_translated("10.244.9.9"),
                         clients.sends(end_of("10.96.0.9", 81)),
                         clients.sends(end_of("10.96.0.8", 80))};
  CHECK(daemon.see(web_with({test::e1()}, protocol)).flows == 2);
  CHECK(clients.flows() == stay);

  SECTION("and not when real servers come or leave") {
    clients.sends();
    const auto listings = daemon.conntrack.listings();
    CHECK(daemon.see(web_with({test::e1(), test::e2()}, protocol)).flows == 0);
    CHECK(daemon.see(web_with({test::e2()}, protocol)).flows == 0);
    daemon.wait(10min);
    CHECK(daemon.conntrack.listings() == listings);
  }
  SECTION("and not at a restart") {
    const auto one = clients.sends();
    daemon.restart();
    CHECK(daemon.see(web_with({test::e1()}, protocol)).flows == 0);
    CHECK(clients.flows().contains(one));
  }
  SECTION("and when it is added again") {
    daemon.see(model::ClusterState{});
    CHECK(clients.flows() == stay);
    clients.sends();
    CHECK(daemon.see(web_with({test::e1()}, protocol)).flows == 1);
    CHECK(clients.flows() == stay);
  }
}

TEST_CASE("flows to a node port end when its virtual service is added") {
  Daemon daemon;
  daemon.see(model::ClusterState{});
  Clients clients{daemon, Protocol::tcp};
  clients.sends(end_of("10.0.0.1", 30080));
  const auto stays = clients.sends(end_of("10.0.0.2", 30080));
  auto cluster = web_with({test::e1()});
  auto& web = cluster.services.begin()->second;
  web.type = api::ServiceType::node_port;
  web.ports.front().node_port = 30080;
  CHECK(daemon.see(cluster).flows == 1);
  CHECK(clients.flows() == std::set{stays});
}

// Until then a retransmission takes the way to nowhere again, and makes such a flow anew.
TEST_CASE("flows end when the address is bound, which may be later or again") {
  Daemon daemon;
  daemon.see(model::ClusterState{});
  Clients clients{daemon, Protocol::tcp};
  SECTION("later") {
    daemon.links.faults.fail("add address", {ErrorKind::io, ENOMEM, ""});
    daemon.see(web_with({test::e1()}));
    REQUIRE_FALSE(daemon.is_bound("10.96.0.9"));
    clients.sends();
    daemon.clear_faults();
  }
  SECTION("again") {
    daemon.see(web_with({test::e1()}));
    REQUIRE(daemon.is_bound("10.96.0.9"));
    clients.sends();
    daemon.links.remove_address({"kube-ipvs0", ip("10.96.0.9"), 32});
  }
  const auto established = clients.is_answered_there();
  daemon.wait(2min);
  CHECK(daemon.is_bound("10.96.0.9"));
  CHECK(clients.flows() == std::set{established});
}

TEST_CASE("no flow ends for a virtual service that the kernel refuses, until it has it") {
  Daemon daemon;
  daemon.see(model::ClusterState{});
  Clients clients{daemon, Protocol::tcp};
  daemon.ipvs.faults.fail("add virtual service", {ErrorKind::io, ENOMEM, ""});
  clients.sends();
  daemon.see(web_with({test::e1()}));
  CHECK(clients.flows().size() == 1);
  daemon.clear_faults();
  daemon.wait(2min);
  CHECK(clients.flows().empty());
}

TEST_CASE("as in kube-proxy no look is for flows before a virtual service of TCP or SCTP") {
  StaleFlows flows(false);
  const auto protocol = GENERATE(Protocol::tcp, Protocol::sctp);
  const netlink::VirtualServiceKey key{kVip.address, protocol, kVip.port};
  const std::vector<netlink::IpvsOp> ops = {netlink::AddService{{.key = key}}};
  plan::ActualState before;
  before.services.emplace();
  flows.note({.phases = {{.name = "add", .work = ops}}, .sent_on = {}, .ways = {}, .old_ways = {}},
             before);
  CHECK_FALSE(flows.next());
}

}  // namespace
}  // namespace ipvsproxier::sync
