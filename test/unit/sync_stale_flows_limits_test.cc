// What flows of many virtual services cost, and of many ways to one of them (stale_flows.h).

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/sync/stale_flows.h"
#include "test/fakes/fake_conntrack_table.h"
#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::Family;
using netlink::FlowEnd;
using netlink::IpAddress;
using netlink::Protocol;
using netlink::VirtualServiceKey;

const plan::SetKey kWaysOn{Family::ipv4, ipset::SetId::nft_in_cluster};

VirtualServiceKey numbered(std::uint32_t number, Protocol protocol) {
  return {IpAddress::v4(0xc6120000U + number), protocol, 80};
}

netlink::RealServerKey numbered_server(std::uint32_t number) {
  return {IpAddress::v4(0x0af50000U + number), 8080};
}

// The kernel as it is and is to be, and what looks at its flows.
struct FlowsOfMany {
  // Virtual services without real servers.
  void add(std::uint32_t services, Protocol protocol) {
    for (std::uint32_t i = 0; i < services; ++i) add(numbered(i, protocol), 0);
  }
  void add(const VirtualServiceKey& key, std::uint32_t servers) {
    std::vector<netlink::RealServer> all;
    auto& planned = desired.services[key];
    for (std::uint32_t i = 0; i < servers; ++i) {
      all.push_back({.key = numbered_server(i)});
      planned.servers.insert(numbered_server(i));
    }
    state.services->insert({key, {{.key = key}, plan::RealServers(std::move(all))}});
  }
  // From each virtual service of its protocol to this one.
  void send_on(const VirtualServiceKey& to) {
    auto& map = desired.sets[kWaysOn];
    for (const auto& [key, service] : desired.services)
      if (key.protocol == to.protocol && key != to)
        map.insert(
            ipset::DestinationElement{key.address, key.protocol, key.port, to.address, to.port});
    state.sets[kWaysOn] = map;
  }
  std::size_t purge(netlink::ConntrackTable& table) {
    std::size_t removed = 0;
    for (const auto& [family, purge] : flows.purge(table, desired, state, now, failures))
      removed += purge.removed;
    return removed;
  }

  FlowsOfMany() { state.services.emplace(); }

  plan::DesiredState desired;
  plan::ActualState state;
  StaleFlows flows;
  TimePoint now{1h};
  std::vector<Failure> failures;
};

plan::Transaction removing(const VirtualServiceKey& key, std::uint32_t servers) {
  std::vector<netlink::IpvsOp> ops;
  for (std::uint32_t i = 0; i < servers; ++i)
    ops.emplace_back(netlink::DeleteServer{key, numbered_server(i)});
  return {.phases = {{.name = "remove virtual services", .work = std::move(ops)}},
          .sent_on = {},
          .old_ways = {}};
}

TEST_CASE("real servers that go are remembered once, whatever the number of ways to them") {
  constexpr std::uint32_t kServers = 1'000;
  const auto protocol = GENERATE(Protocol::udp, Protocol::tcp);
  const VirtualServiceKey goal{IpAddress::v4(0x0a600001), protocol, 80};
  FlowsOfMany many;
  many.add(1'024, protocol);
  many.add(goal, kServers);
  many.send_on(goal);
  many.flows.note_left(many.desired, many.state);
  test::FakeConntrackTable table;
  CHECK(many.purge(table) == 0);
  CHECK_FALSE(many.flows.next());
  many.flows.note(removing(goal, kServers), many.state);
  CHECK(many.flows.remembered() == kServers);
  // Any of them, by any way.
  for (const std::uint32_t way : {0U, 517U, 1'023U})
    for (const std::uint32_t server : {0U, kServers / 2, kServers - 1}) {
      const auto key = numbered(way, protocol);
      const auto answering = numbered_server(server);
      table.track({IpAddress::v4(0x0a010001), static_cast<std::uint16_t>(4'000 + server)},
                  {key.address, key.port}, {answering.address, answering.port}, protocol);
    }
  many.desired.services[goal].servers = {};
  many.state.services->at(goal).servers.emplace();
  CHECK(many.purge(table) == 9);
  CHECK(many.failures.empty());
  // Nothing is kept once the flows are gone.
  CHECK_FALSE(many.flows.next());
  CHECK(many.flows.remembered() == 0);
}

// A Service may keep an endpoint that the kernel refuses for ever.
TEST_CASE("a Service that is never as planned remembers no real server once its flows are gone") {
  const auto protocol = GENERATE(Protocol::udp, Protocol::tcp);
  const VirtualServiceKey goal{IpAddress::v4(0x0a600001), protocol, 80};
  FlowsOfMany many;
  many.add(100, protocol);
  many.add(goal, 3);
  many.send_on(goal);
  many.flows.note_left(many.desired, many.state);
  test::FakeConntrackTable table;
  many.purge(table);
  const netlink::RealServerKey refused{IpAddress::v4(0xef010101), 8080};
  many.flows.note(removing(goal, 2), many.state);
  const auto track = [&](std::uint16_t port, std::uint32_t server) {
    const auto key = numbered(7, protocol);
    table.track({IpAddress::v4(0x0a010001), port}, {key.address, key.port},
                {numbered_server(server).address, 8080}, protocol);
  };
  track(4'000, 0);
  track(4'002, 2);
  many.desired.services[goal].servers = {numbered_server(2), refused};
  // The answer to one of the removals was lost.
  std::vector<netlink::RealServer> left{{.key = numbered_server(1)}, {.key = numbered_server(2)}};
  many.state.services->at(goal).servers = plan::RealServers(left);
  CHECK(many.purge(table) == 1);
  CHECK(many.flows.remembered() == 2);
  left.erase(left.begin());
  many.state.services->at(goal).servers = plan::RealServers(left);
  track(4'001, 1);
  many.now += 60s;
  CHECK(many.purge(table) == 1);
  CHECK(many.flows.remembered() == 0);
  CHECK(table.list({.family = Family::ipv4, .protocol = protocol}).value().size() == 1);
}

// What is remembered for one way to a virtual service is remembered for all of them.
TEST_CASE("a real server that came back is not gone for flows by a way that was turned since") {
  const VirtualServiceKey goal{IpAddress::v4(0x0a600001), Protocol::tcp, 80};
  const VirtualServiceKey other{IpAddress::v4(0x0a600002), Protocol::tcp, 80};
  const auto waits = numbered(0, Protocol::tcp);
  const auto turned = numbered(1, Protocol::tcp);
  FlowsOfMany many;
  many.add(2, Protocol::tcp);
  many.add(goal, 3);
  many.send_on(goal);
  many.add(other, 0);
  many.flows.note_left(many.desired, many.state);
  // One that the kernel refuses, so its flows are looked at again later.
  many.desired.services[waits].servers.insert(numbered_server(9));
  const auto leave = [&](std::uint32_t server) {
    const netlink::DeleteServer op{goal, numbered_server(server)};
    const std::vector<netlink::IpvsOp> ops = {op};
    many.flows.note(
        {.phases = {{.name = "remove", .work = ops}}, .sent_on = {}, .ways = {}, .old_ways = {}},
        many.state);
    many.state.commit(ops.front());
    many.desired.services[goal].servers.erase(numbered_server(server));
  };
  test::FakeConntrackTable table;
  leave(0);
  // It is wanted again before the flows are looked at, and not yet there.
  many.desired.services[goal].servers.insert(numbered_server(0));
  CHECK(many.purge(table) == 0);
  CHECK(many.flows.remembered() == 1);
  many.state.commit(netlink::IpvsOp(netlink::AddServer{goal, {.key = numbered_server(0)}}));
  many.desired.sets[kWaysOn] = {};
  for (const auto& [key, to] : {std::pair(waits, goal), std::pair(turned, other)})
    many.desired.sets[kWaysOn].insert(
        ipset::DestinationElement{key.address, key.protocol, key.port, to.address, to.port});
  for (const std::uint32_t server : {0U, 1U})
    table.track({IpAddress::v4(0x0a010001), static_cast<std::uint16_t>(4'000 + server)},
                {turned.address, turned.port}, {numbered_server(server).address, 8080},
                Protocol::tcp);
  leave(1);
  CHECK(many.purge(table) == 1);
  const auto flows = table.list({.family = Family::ipv4, .protocol = Protocol::tcp}).value();
  REQUIRE(flows.size() == 1);
  CHECK(flows.front().server.address == numbered_server(0).address);
}

// Who changes more real servers than are remembered takes nothing from others.
TEST_CASE("flows to real servers that went while very many others did are cut as well") {
  const auto protocol = GENERATE(Protocol::tcp, Protocol::udp, Protocol::sctp);
  const bool scaled_to_zero = GENERATE(false, true);
  constexpr std::uint32_t kLoud = 1'000;
  constexpr std::uint32_t kServersOfLoud = 20;
  constexpr std::uint32_t kServers = 20;  // more than its share of what is remembered
  const auto loud = [&](std::uint32_t number) {
    return VirtualServiceKey{IpAddress::v4(0x0a700000 + number), protocol, 80};
  };
  const VirtualServiceKey goal{IpAddress::v4(0x0a600002), protocol, 80};
  const VirtualServiceKey earlier_goal{IpAddress::v4(0x0a600003), protocol, 80};
  const netlink::RealServerKey earlier{IpAddress::v4(0x0af60000), 8080};
  const auto victim = numbered(kLoud, protocol);
  const auto way = [&](const VirtualServiceKey& from, const VirtualServiceKey& to) {
    return ipset::DestinationElement{from.address, protocol, 80, to.address, to.port};
  };
  FlowsOfMany many;
  many.add(kLoud + 1, protocol);
  many.add(goal, kServers + 1);
  many.add(earlier_goal, 0);
  many.desired.services[earlier_goal].servers.insert(earlier);
  many.state.services->at(earlier_goal).servers->insert({.key = earlier});
  auto& ways = many.desired.sets[kWaysOn];
  for (std::uint32_t i = 0; i < kLoud; ++i) {
    many.add(loud(i), kServersOfLoud);
    ways.insert(way(numbered(i, protocol), loud(i)));
  }
  ways.insert(way(victim, earlier_goal));
  many.state.sets[kWaysOn] = ways;
  many.flows.note_left(many.desired, many.state);
  test::FakeConntrackTable table;
  many.purge(table);
  const std::vector<ipset::ElementOp> turn = {{false, way(victim, earlier_goal)},
                                              {true, way(victim, goal)}};
  many.flows.note(
      {.phases = {{.name = "add elements", .work = std::vector<plan::SetChange>{{kWaysOn, turn}}}},
       .sent_on = {},
       .old_ways = {}},
      many.state);
  ways.erase(way(victim, earlier_goal));
  ways.insert(way(victim, goal));
  many.state.sets[kWaysOn] = ways;

  for (std::uint32_t i = 0; i < kLoud; ++i) {
    many.flows.note(removing(loud(i), kServersOfLoud), many.state);
    many.desired.services[loud(i)].servers = {};
    many.state.services->at(loud(i)).servers.emplace();
  }
  many.flows.note(removing(goal, kServers), many.state);
  CHECK(many.flows.remembered() <= StaleFlows::kServersRemembered + kLoud + 1);
  many.desired.services[goal].servers = {};
  many.state.services->at(goal).servers.emplace();
  if (!scaled_to_zero) {
    many.desired.services[goal].servers.insert(numbered_server(kServers));
    many.state.services->at(goal).servers->insert({.key = numbered_server(kServers)});
  }
  const auto track = [&](const VirtualServiceKey& to, std::uint32_t port, const FlowEnd& server) {
    return table.track({IpAddress::v4(0x0a010001), static_cast<std::uint16_t>(port)},
                       {to.address, to.port}, server, protocol);
  };
  for (std::uint32_t i = 0; i < kServers; ++i)
    track(victim, 4'000 + i, {numbered_server(i).address, 8080});
  for (std::uint32_t i = 0; i < kServersOfLoud; ++i)
    for (const auto number : {0U, kLoud / 2, kLoud - 1})
      track(numbered(number, protocol), 4'000 + i, {numbered_server(i).address, 8080});
  std::set<netlink::Flow> stay;
  if (!scaled_to_zero) stay.insert(track(victim, 5'000, {numbered_server(kServers).address, 8080}));
  if (protocol != Protocol::udp) {
    stay.insert(track(victim, 5'001, {earlier.address, earlier.port}));
    stay.insert(track(victim, 5'002, {victim.address, victim.port}));  // answered there
  }
  CHECK(many.purge(table) == kServers + 3 * kServersOfLoud);
  const auto flows = table.list({.family = Family::ipv4, .protocol = protocol}).value();
  CHECK(std::set<netlink::Flow>(flows.begin(), flows.end()) == stay);
  CHECK(many.failures.empty());
  CHECK_FALSE(many.flows.next());
  CHECK(many.flows.remembered() == 0);
}

// Of another protocol than UDP no flow is stale unless this process removed the real server.
TEST_CASE("at a start only UDP flows are looked at") {
  FlowsOfMany many;
  const VirtualServiceKey goal{IpAddress::v4(0x0a600001), Protocol::tcp, 80};
  many.add(3, Protocol::tcp);
  many.add(goal, 1);
  many.send_on(goal);
  many.flows.note_left(many.desired, many.state);
  CHECK_FALSE(many.flows.next());
}

// Tells how many virtual services were asked for at once.
class AskedFor final : public netlink::ConntrackTable {
 public:
  netlink::Result<std::vector<netlink::Flow>> list(const netlink::FlowQuery& query) override {
    sizes.push_back(query.destinations.size());
    return std::vector<netlink::Flow>();
  }
  netlink::Result<std::size_t> count() override { return std::size_t{0}; }
  netlink::Result<FlowsPart> begin_list(netlink::Family,
                                        const std::set<netlink::Protocol>&) override {
    return FlowsPart{.flows = {}, .last = true};
  }
  netlink::Result<FlowsPart> next_list() override { return FlowsPart{.flows = {}, .last = true}; }
  std::vector<netlink::Status> remove(std::span<const netlink::Flow>) override { return {}; }

  std::vector<std::size_t> sizes;
};

TEST_CASE("flows of very many virtual services are looked at by several looks") {
  constexpr std::size_t kMore = 100;
  FlowsOfMany many;
  many.add(StaleFlows::kServicesALook + kMore, Protocol::udp);
  many.flows.note_left(many.desired, many.state);
  AskedFor table;
  many.purge(table);
  CHECK(table.sizes == std::vector{StaleFlows::kServicesALook});
  REQUIRE(many.flows.next());
  CHECK(*many.flows.next() <= many.now);
  many.purge(table);
  CHECK(table.sizes == std::vector{StaleFlows::kServicesALook, kMore});
  CHECK_FALSE(many.flows.next());
}

// As a daemon does it, with both packet filters.
TEST_CASE("UDP flows by any address to any endpoint go with a Service that is scaled to zero") {
  constexpr std::uint32_t kAddresses = 40;
  constexpr std::uint32_t kEndpoints = 600;
  test::FakeDaemonSettings settings;
  settings.options.packet_filter = ipset::PacketFilter::nftables;
  test::FakeDaemon daemon(settings);
  auto service = test::web_service();
  service.type = api::ServiceType::load_balancer;
  service.ports.front().protocol = Protocol::udp;
  service.external_policy_local = true;
  for (std::uint32_t i = 0; i < kAddresses; ++i)
    service.load_balancer_ips.push_back(IpAddress::v4(0xc0000200U + i));
  std::vector<api::Endpoint> endpoints;
  for (std::uint32_t i = 0; i < kEndpoints; ++i) {
    endpoints.push_back(test::e2());
    endpoints.back().address = numbered_server(i).address;
  }
  daemon.see(test::cluster_of({service, test::slice_of(service, 8080, endpoints)}));
  for (const std::uint32_t way : {0U, kAddresses - 1})
    daemon.conntrack.track({test::ip("10.244.0.9"), 4000}, {IpAddress::v4(0xc0000200U + way), 80},
                           {numbered_server(kEndpoints - 1).address, 8080});
  CHECK(daemon.see(test::cluster_of({service, test::slice_of(service, 8080, {})})).flows == 2);
}

}  // namespace
}  // namespace ipvsproxier::sync
