// What a namespace that asks for all it can costs its neighbours: the operations on the kernel for
// which a neighbour's change waits, lines of the log, and the health of the node stay within bounds
// that do not depend on it.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "proxier/sync/turns.h"
#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"
#include "test/support/random_run.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::IpAddress;
using netlink::Protocol;

constexpr int kTenantServices = 12;
// The turn of the namespace, and one of what the node has to try again.
constexpr std::size_t kMostWait = 2 * Turns::kMost + 200;
constexpr std::size_t kMostLinesAMinute = 200;

// A namespace whose Services change at random, in everything that their writers and the writers of
// their EndpointSlices can ask for.
class HostileTenant {
 public:
  explicit HostileTenant(std::uint32_t seed) : random_(seed) {}

  void change(model::ClusterState& cluster) {
    const auto index = number(0, kTenantServices - 1);
    const api::NamespacedName name{"tenant", fmt::format("s{}", index)};
    if (one_in(10)) {
      cluster.services.erase(name);
      cluster.slices.erase(name);
      return;
    }
    auto service = test::web_service();
    service.name = name;
    service.cluster_ips = {IpAddress::v4(0x0a610001U + static_cast<std::uint32_t>(index))};
    const auto ports = one_in(3) ? number(50, 300) : number(1, 5);
    const auto endpoints = one_in(3) ? number(100, 2000) / ports + 1 : number(0, 20);
    put_ports(service, ports);
    ask_for_more(service);
    cluster.put(service);
    cluster.slices.erase(name);
    cluster.put(slice(service, endpoints));
  }

 private:
  std::uint32_t number(int from, int to) {
    return static_cast<std::uint32_t>(std::uniform_int_distribution<int>(from, to)(random_));
  }
  bool one_in(int count) { return number(1, count) == 1; }

  void put_ports(api::Service& service, std::uint32_t ports) {
    const auto first = number(1, 60'000);
    const auto protocol = one_in(3) ? Protocol::udp : Protocol::tcp;
    service.ports.clear();
    for (std::uint32_t i = 0; i < ports; ++i)
      service.ports.push_back({.name = fmt::format("p{}", i),
                               .protocol = protocol,
                               .port = static_cast<std::uint16_t>(first + i),
                               .node_port = 0});
  }

  void ask_for_more(api::Service& service) {
    constexpr std::array kSchedulers = {"rr", "wrr", "mh", "sh", "lc", "ovf", "nonsense"};
    if (one_in(2))
      service.annotations.push_back(
          {"ipvs-proxier/scheduler", kSchedulers.at(number(0, std::ssize(kSchedulers) - 1))});
    if (one_in(2))
      service.annotations.push_back(
          {"ipvs-proxier/weights", fmt::format("local:{}", number(0, 70'000))});
    if (one_in(2))
      service.annotations.push_back({"ipvs-proxier/max-connections", std::to_string(number(0, 3))});
    if (one_in(3)) service.annotations.push_back({"ipvs-proxier/drain-timeout", "0s"});
    std::ranges::sort(service.annotations);
    if (one_in(3)) service.affinity_seconds = number(1, 86'400);
    service.external_policy_local = one_in(3);
    if (one_in(4))
      for (std::uint32_t i = 0; i < number(1, 50); ++i)
        service.external_ips.push_back(IpAddress::v4(0xcb007100U + number(0, 200)));
    if (!one_in(4)) return;
    service.type = api::ServiceType::load_balancer;
    service.load_balancer_ips = {IpAddress::v4(0xc6336400U + number(0, 20))};
    for (std::uint32_t i = 0; i < number(0, 100); ++i)
      service.source_ranges.push_back(
          *netlink::IpPrefix::parse(fmt::format("10.{}.{}.0/24", number(0, 255), number(0, 255))));
  }

  api::EndpointSlice slice(const api::Service& service, std::uint32_t endpoints) {
    // Some that every kernel refuses.
    const auto base = one_in(4) ? 0xe0000001U : 0x0af50001U + 1000 * number(0, 3);
    std::vector<api::Endpoint> all;
    for (std::uint32_t i = 0; i < endpoints; ++i) {
      auto endpoint = test::e2();
      endpoint.address = IpAddress::v4(base + i);
      all.push_back(endpoint);
    }
    auto slice = test::slice_of(service, 8080, all);
    slice.ports.clear();
    for (const auto& port : service.ports)
      slice.ports.push_back({.name = port.name, .protocol = port.protocol, .port = 8080});
    return slice;
  }

  std::mt19937 random_;
};

std::size_t count_lines(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

// "" if a neighbour's change is served soon; else what is wrong.
std::string what_a_neighbour_feels(std::uint32_t seed, int changes) {
  test::FakeDaemon daemon;
  daemon.input_waits = true;  // the tenant never rests
  HostileTenant tenant(seed);
  auto cluster = test::web_with({test::e1()});
  for (const char* other : {"b", "c"}) {
    auto service = test::web_service();
    service.name = {other, "web"};
    service.cluster_ips = {IpAddress::v4(0x0a620001U + static_cast<unsigned char>(*other))};
    cluster.put(service);
    cluster.put(test::slice_of(service, 8080, {test::e1()}));
  }
  daemon.see(cluster);
  std::size_t lines = count_lines(daemon.log());
  auto minute = daemon.now + 1min;
  for (int i = 0; i < changes; ++i) {
    for (int more = 0; more < 3; ++more) tenant.change(cluster);
    daemon.hear(cluster);
    daemon.run();
    daemon.now += 100ms * (i % 20);
    auto endpoint = test::e2();
    endpoint.address = IpAddress::v4(0x0af40200U + static_cast<std::uint32_t>(i));
    const auto web = test::web_with({endpoint});
    cluster.slices[test::web_service().name] = web.slices.at(test::web_service().name);
    daemon.hear(cluster);
    const auto before = daemon.writes();
    while (daemon.weights(test::kWeb)[{endpoint.address, 8080}] == 0) {
      if (!daemon.has_turns()) return "the neighbour is not served";
      const auto report = daemon.run();
      if (!report.well.contains(netlink::Family::ipv4))
        return "the node is not well\n" + daemon.log();
    }
    if (const auto waited = daemon.writes() - before; waited > kMostWait)
      return fmt::format("the neighbour waits for {} operations", waited);
    if (!daemon.watch.broken.empty()) return daemon.watch.broken.front();
    if (daemon.now < minute) continue;
    const auto now = count_lines(daemon.log());
    if (now - lines > kMostLinesAMinute) return fmt::format("{} lines in a minute", now - lines);
    lines = now;
    minute = daemon.now + 1min;
  }
  return "";
}

TEST_CASE("what one namespace asks for costs a neighbour a bounded wait, and no health or log",
          "[random]") {
  auto seed = static_cast<std::uint32_t>(test::environment_number("IPVS_PROXIER_SOAK_SEED", 1));
  using Clock = std::chrono::steady_clock;
  const auto end =
      Clock::now() + std::chrono::seconds(test::environment_number("IPVS_PROXIER_SOAK_SECONDS", 0));
  for (int round = 0; round < 1 || Clock::now() < end; ++round, ++seed) {
    INFO("IPVS_PROXIER_SOAK_SEED=" << seed);
    CHECK(what_a_neighbour_feels(seed, end > Clock::now() ? 60 : 8) == "");
  }
}

}  // namespace
}  // namespace ipvsproxier::sync
