// Flows of a kernel that tracks so many of them that a look reads them in parts.

#include <catch2/catch.hpp>

#include "proxier/sync/stale_flows.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using netlink::ErrorKind;
using netlink::Protocol;
using test::ip;
using test::web_with;
using namespace std::chrono_literals;

const netlink::VirtualServiceKey kUdpWeb{test::kWeb.address, Protocol::udp, test::kWeb.port};

// Clients 1 to `clients`, in this order, have the second of two endpoints of the Service.
struct ManyFlows {
  explicit ManyFlows(std::uint16_t count) : clients(count) {
    daemon.see(web_with({test::e1(), test::e2()}, Protocol::udp));
    daemon.conntrack.uncounted = StaleFlows::kFlowsAtOnce;
    daemon.conntrack.flows_a_part = 2;
    for (std::uint16_t port = 1; port <= clients; ++port) track(port, "10.244.1.4");
  }
  void track(std::uint16_t port, const char* server) {
    daemon.conntrack.track({ip("10.1.0.1"), port}, {kUdpWeb.address, kUdpWeb.port},
                           {ip(server), 8080});
  }
  // The second endpoint is removed; nothing of the look is done beyond its first part.
  void begin() { daemon.hear(web_with({test::e1()}, Protocol::udp)); }

  std::uint16_t clients;
  test::FakeDaemon daemon;
};

TEST_CASE("parts of flows: all that is stale is removed, and other work is done in between") {
  ManyFlows many(40);
  many.track(100, "10.244.0.3");
  many.begin();
  many.daemon.run();
  const auto left = many.daemon.conntrack.sources().size();
  CHECK(left > 20);
  CHECK(left < 41);
  // Another Service comes in the midst of it.
  auto both = web_with({test::e1()}, Protocol::udp);
  auto other = test::web_service();
  other.name.name = "other";
  other.cluster_ips = {ip("10.96.0.77")};
  both.put(other);
  many.daemon.hear(both);
  many.daemon.run();
  CHECK(many.daemon.is_bound("10.96.0.77"));
  CHECK(many.daemon.conntrack.sources().size() > 20);
  many.daemon.wait(1s);
  CHECK(many.daemon.conntrack.sources() == std::set<std::uint16_t>{100});
  CHECK(many.daemon.differences().empty());
}

TEST_CASE("parts of flows: what is removed from a Service during a look is looked at again") {
  ManyFlows many(40);
  many.begin();
  many.daemon.run();
  // The first clients were passed already when their endpoint is removed, too.
  for (std::uint16_t port = 1; port <= 40; ++port) many.track(port, "10.244.0.3");
  many.daemon.hear(web_with({}, Protocol::udp));
  many.daemon.wait(1s);
  CHECK(many.daemon.conntrack.sources().empty());
}

TEST_CASE("parts of flows: an endpoint that comes back during a look keeps its flows") {
  ManyFlows many(40);
  many.begin();
  many.daemon.run();
  const auto left = many.daemon.conntrack.sources().size();
  many.daemon.hear(web_with({test::e1(), test::e2()}, Protocol::udp));
  many.daemon.wait(1min);
  // One part was judged before the change was written.
  CHECK(many.daemon.conntrack.sources().size() + many.daemon.conntrack.flows_a_part >= left);
}

TEST_CASE("parts of flows: a part that fails has the look begin again later") {
  ManyFlows many(40);
  many.begin();
  many.daemon.conntrack.faults.fail("list flows", {ErrorKind::overrun, ENOBUFS, ""}, 3);
  many.daemon.wait(200ms);
  CHECK_FALSE(many.daemon.conntrack.sources().empty());
  many.daemon.wait(1min);
  CHECK(many.daemon.conntrack.sources().empty());
}

TEST_CASE("parts of flows: a new process reads them, too") {
  ManyFlows many(40);
  many.daemon.restart();
  many.daemon.hear(web_with({test::e1()}, Protocol::udp));
  many.daemon.wait(1s);
  CHECK(many.daemon.conntrack.sources().empty());
}

}  // namespace
}  // namespace ipvsproxier::sync
