// Chains of a host's firewall that drop packets of Services: told when they come and when they go.

#include "proxier/sync/firewall_watch.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using test::FakeDaemon;
using Warnings = std::vector<ipset::FirewallWarning>;

struct Firewall {
  Warnings chains;
  std::map<std::string, std::string> unjudged = {};
  std::vector<std::size_t> samples;  // of each look
  bool unreadable = false;
  bool late = false;
  std::vector<std::int64_t> times = {};  // that each look may take, in milliseconds

  FindFirewallWarnings find() {
    return [this](const auto& some,
                  std::chrono::milliseconds longest) -> netlink::Result<ipset::FirewallLook> {
      samples.push_back(some.size());
      times.push_back(longest.count());
      if (unreadable) return netlink::Error{netlink::ErrorKind::busy, 0, "busy"};
      return ipset::FirewallLook{.warnings = chains, .unjudged = unjudged, .was_late = late};
    };
  }
};

TEST_CASE("firewall watch: what drops is a warning once, and is said to be gone") {
  Firewall firewall{
      .chains = {{true, "a", "chain a drops", "t"}, {false, "b", "chain b may drop", "t"}},
      .samples = {}};
  FakeDaemon daemon({.remove_nft_leftovers = {}, .find_firewall_warnings = firewall.find()});
  auto report = daemon.see(test::web_with({test::e1()}));
  CHECK(report.firewall_drops == 1);
  CHECK(daemon.says("[warning] chain a drops"));
  CHECK(daemon.says("[info] chain b may drop"));
  CHECK(firewall.samples.front() > 0);
  firewall.unreadable = true;
  daemon.wait(std::chrono::seconds(31));
  CHECK_FALSE(daemon.says("no longer so"));
  firewall.unreadable = false;
  firewall.chains.clear();
  daemon.wait(std::chrono::seconds(31));
  CHECK(daemon.says("no longer so: chain a drops"));
  const auto log = daemon.log();
  CHECK(log.find("[warning] chain a drops") == log.rfind("[warning] chain a drops"));
}

TEST_CASE("firewall watch: looks soon after a base chain changed, and not all the time") {
  Firewall firewall;
  auto logger = spdlog::logger("none");
  const TimePoint start{std::chrono::hours(1)};
  FirewallWatch watch(firewall.find(), logger, [&] { return start; });
  const plan::DesiredState nothing;
  CHECK_FALSE(watch.next());
  watch.look(nothing, start);
  watch.hurry();
  CHECK_FALSE(watch.is_due(start + std::chrono::milliseconds(900)));
  CHECK(watch.is_due(start + std::chrono::seconds(1)));
  watch.look(nothing, start + std::chrono::seconds(1));
  CHECK_FALSE(watch.next());
  CHECK(firewall.samples == std::vector<std::size_t>{0, 0});
  FirewallWatch blind({}, logger);
  blind.hurry();
  blind.look(nothing, start);
  CHECK_FALSE(blind.next());
}

TEST_CASE("firewall watch: a table that is not judged leaves what was told of it") {
  Firewall firewall{.chains = {{true, "a", "chain a drops", "t"}, {true, "b", "b drops", "u"}},
                    .samples = {}};
  FakeDaemon daemon({.remove_nft_leftovers = {}, .find_firewall_warnings = firewall.find()});
  daemon.see(test::web_with({test::e1()}));
  firewall.chains.clear();
  firewall.unjudged = {{"t", "busy"}};
  daemon.wait(std::chrono::seconds(31));
  CHECK(daemon.says("whether t drops packets of Services is not known: busy"));
  CHECK_FALSE(daemon.says("no longer so: chain a drops"));
  CHECK(daemon.says("no longer so: b drops"));
  firewall.unjudged.clear();
  daemon.wait(std::chrono::seconds(31));
  CHECK(daemon.says("no longer so: chain a drops"));
}

TEST_CASE("firewall watch: looks take at most a tenth of the time") {
  Firewall firewall;
  auto logger = spdlog::logger("none");
  const TimePoint start{std::chrono::hours(1)};
  auto now = start;
  FirewallWatch watch(
      [&, find = firewall.find()](const auto& samples, auto longest) {
        now += std::chrono::seconds(2);
        return find(samples, longest);
      },
      logger, [&] { return now; });
  watch.look(plan::DesiredState{}, start);
  watch.hurry();
  CHECK_FALSE(watch.is_due(start + std::chrono::seconds(21)));
  CHECK(watch.is_due(start + std::chrono::seconds(22)));
}

TEST_CASE("firewall watch: a look that is late is followed by longer ones, up to a limit") {
  Firewall firewall{.chains = {}, .samples = {}, .late = true};
  auto logger = spdlog::logger("none");
  TimePoint now{std::chrono::hours(1)};
  FirewallWatch watch(firewall.find(), logger, [&] { return now; });
  watch.look(plan::DesiredState{}, now);
  while (watch.next() && firewall.times.size() < 10) {
    now = *watch.next();
    watch.look(plan::DesiredState{}, now);
  }
  CHECK(firewall.times == std::vector<std::int64_t>{100, 200, 400});
  firewall.late = false;
  watch.look(plan::DesiredState{}, now);
  CHECK_FALSE(watch.next());
}

TEST_CASE("firewall watch: node ports and IPv4 leave room for the ports of others") {
  plan::DesiredState desired;
  for (std::uint16_t i = 0; i < 2000; ++i) {
    const auto port = static_cast<std::uint16_t>(30000 + i);
    desired.services[{.address = netlink::IpAddress::v4(0x0a000001), .port = port}] = {
        .facet = plan::Facet::node_port};
    desired.services[{.address = netlink::IpAddress::v4(0x0a600000U + i),
                      .port = static_cast<std::uint16_t>(1000 + i)}] = {};
  }
  for (std::uint16_t port = 1; port <= 100; ++port)
    desired.services[{.address = *netlink::IpAddress::parse("fd00::1"), .port = port}] = {};
  const auto samples = firewall_samples(desired);
  const auto count = [&](auto is) { return std::ranges::count_if(samples, is); };
  CHECK(count([](const auto& one) { return one.is_node_port; }) <= 32);
  CHECK(count([](const auto& one) {
          return !one.is_node_port && one.address.family() == netlink::Family::ipv4;
        }) >= 512);
  CHECK(count([](const auto& one) { return one.address.family() == netlink::Family::ipv6; }) ==
        100);
}

TEST_CASE("firewall watch: a sample of the virtual services of each family") {
  plan::DesiredState desired;
  for (std::uint32_t i = 0; i < 1000; ++i)
    desired.services[{.address = netlink::IpAddress::v4(0x0a600000 + i), .port = 80}] = {};
  desired.services[{.address = *netlink::IpAddress::parse("fd00::1"), .port = 80}] = {};
  const auto samples = firewall_samples(desired);
  CHECK(samples.size() > ipset::kMostFirewallSamples / 2);
  CHECK(samples.size() <= ipset::kMostFirewallSamples + 1);
  CHECK(samples.back().address.family() == netlink::Family::ipv6);
  // A port of its own is not left out.
  const netlink::VirtualServiceKey odd{.address = netlink::IpAddress::v4(0x0a600001), .port = 81};
  desired.services[odd] = {};
  CHECK(std::ranges::count(firewall_samples(desired), 81, &ipset::FirewallSample::port) == 1);
}

}  // namespace
}  // namespace ipvsproxier::sync
