// What is remembered of the ways of in-cluster clients (in_cluster.h).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/plan/in_cluster.h"

namespace ipvsproxier::plan {
namespace {

using ipset::DestinationElement;
using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;
using netlink::VirtualServiceKey;
using Keys = InClusterWays::Keys;

const SetKey kWays{Family::ipv4, ipset::SetId::nft_in_cluster};

// A port of the cluster IP of a Service.
VirtualServiceKey goal(std::uint16_t port) {
  return {IpAddress::v4(0x0a600001), Protocol::tcp, port};
}
// The same port of one of its other addresses.
VirtualServiceKey from(std::uint32_t number, std::uint16_t port) {
  return {IpAddress::v4(0xc6120000U + number), Protocol::tcp, port};
}

ipset::Element element(const VirtualServiceKey& key, const VirtualServiceKey& to) {
  return DestinationElement{key.address, key.protocol, key.port, to.address, to.port};
}

Transaction adding(const std::vector<ipset::Element>& elements) {
  SetChange change{.set = kWays, .ops = {}};
  for (const auto& one : elements) change.ops.push_back({.add = true, .element = one});
  return {.phases = {{.name = "let in", .work = std::vector{change}}},
          .sent_on = {},
          .ways = {},
          .old_ways = {}};
}

// A Service has many ports, and its addresses change for ever.
TEST_CASE("ways of in-cluster clients: what is gone is forgotten, whatever the number of goals") {
  constexpr std::uint16_t kPorts = 200;
  constexpr std::uint32_t kAddresses = 1'000;
  InClusterWays ways;
  ActualState kernel;
  auto& services = kernel.services.emplace();
  auto& map = kernel.sets[kWays].emplace();
  // Of the first address the kernel has the virtual services, of the second the ways.
  std::vector<ipset::Element> lasting;
  for (std::uint16_t port = 1; port <= kPorts; ++port) {
    services[goal(port)];
    services[from(1, port)];
    lasting.push_back(element(from(1, port), goal(port)));
    map.insert(element(from(2, port), goal(port)));
  }
  ways.note(kernel);
  ways.note(adding(lasting), kernel);
  std::size_t most = 0;
  for (std::uint32_t i = 3; i < kAddresses; ++i) {
    std::vector<ipset::Element> some;
    for (std::uint16_t port = 1; port <= kPorts; ++port)
      some.push_back(element(from(i, port), goal(port)));
    ways.note(adding(some), kernel);
    most = std::max(most, ways.size());
    // None of this transaction is forgotten, though no virtual service is there yet.
    if (!ways.to(goal(1)).contains(from(i, 1)) || !ways.to(goal(kPorts)).contains(from(i, kPorts)))
      FAIL("a way is not known at once");
  }
  CHECK(most <= InClusterWays::kMany + kPorts);
  for (const std::uint16_t port : {std::uint16_t{1}, kPorts}) {
    CHECK(ways.to(goal(port)).contains(from(1, port)));
    CHECK(ways.to(goal(port)).contains(from(2, port)));
  }
  ways.forget(goal(1));
  CHECK(ways.to(goal(1)).empty());
}

// Virtual services that change places for ever, though all of them stay.
TEST_CASE("ways of in-cluster clients: those that are past are forgotten where they are too many") {
  constexpr std::uint16_t kServices = 600;
  InClusterWays ways;
  ActualState kernel;
  auto& services = kernel.services.emplace();
  for (std::uint16_t i = 0; i < kServices; ++i) {
    services[goal(i)];
    services[from(i, 80)];
  }
  for (std::uint16_t round = 0; round < kServices; ++round) {
    std::vector<ipset::Element> turned;
    for (std::uint16_t i = 0; i < kServices; ++i)
      turned.push_back(
          element(from(i, 80), goal(static_cast<std::uint16_t>((i + round) % kServices))));
    ways.note(adding(turned), kernel);
    auto& map = kernel.sets[kWays].emplace();
    for (const auto& one : turned) map.insert(one);
    if (ways.size() > InClusterWays::kMany + kServices) FAIL("too many: " << ways.size());
  }
  CHECK(ways.to(goal(0)).contains(from(1, 80)));  // now
  CHECK(ways.to(goal(0)).contains(from(2, 80)));  // before
}

}  // namespace
}  // namespace ipvsproxier::plan
