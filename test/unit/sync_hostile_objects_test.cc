// Hostile objects through the reconciler on fakes: they cost themselves, and leave as they came.

#include <algorithm>

#include <catch2/catch.hpp>

#include "proxier/api/wire.h"
#include "test/support/fake_daemon.h"
#include "test/support/foreign_text.h"
#include "test/support/hostile_objects.h"
#include "test/support/random_cluster.h"
#include "test/support/random_run.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using test::HostileCase;

model::ClusterState with_cases(model::ClusterState cluster, const std::vector<HostileCase>& cases) {
  for (const auto& one : cases)
    for (const auto& object : one.objects) {
      const auto kind =
          object.kind == "Service" ? api::ObjectKind::service : api::ObjectKind::endpoint_slice;
      auto item = api::decode_list_item(object.text(), kind);
      if (item.object) cluster.put(*std::move(item.object));
    }
  return cluster;
}

struct HostileRun {
  test::RandomCluster random;
  model::ClusterState cluster;
  test::Victims victims;

  explicit HostileRun(std::uint32_t seed) : random(seed), cluster(random.cluster(10)) {
    for (auto& [name, service] : cluster.services) {
      service.creation_time = 1;
      if (!service.cluster_ips.empty() && !service.ports.empty())
        victims.services.push_back({name.ns, name.name, service.cluster_ips[0].to_string(),
                                    service.ports[0].port,
                                    std::string(netlink::to_string(service.ports[0].protocol))});
    }
    victims.node_addresses = {"10.0.0.1"};
  }
};

// What of `before` is not in `now`.
std::string lost(const std::set<std::string>& before, const std::set<std::string>& now) {
  for (const auto& line : before)
    if (!now.contains(line)) return "lost: " + line;
  return "";
}

// Rules are of all objects together.
std::set<std::string> without_rules(std::set<std::string> lines) {
  std::erase_if(lines, [](const auto& line) { return line.starts_with("rule "); });
  return lines;
}

std::string wrong_on_fakes(const HostileRun& run, const std::vector<HostileCase>& cases) {
  test::FakeDaemon daemon({.drain = {}, .options = {}, .remove_nft_leftovers = {}});
  daemon.see(run.cluster);
  daemon.wait(3min);
  const auto before = daemon.dump();
  daemon.see(with_cases(run.cluster, cases));
  daemon.wait(3min);
  if (auto what = lost(without_rules(before), daemon.dump()); !what.empty()) return what;
  const auto written = daemon.written();
  daemon.wait(3min);
  if (daemon.written() != written) return "it goes on writing";
  if (!daemon.watch.broken.empty()) return daemon.watch.broken.front();
  daemon.see(run.cluster);
  daemon.wait(15min);
  if (auto what = lost(daemon.dump(), before); !what.empty()) return "stays behind; " + what;
  if (auto what = lost(before, daemon.dump()); !what.empty()) return "left with them; " + what;
  return test::raw_text_in(daemon.log());
}

TEST_CASE("hostile objects on fakes: others stay as they are, and nothing stays behind",
          "[random]") {
  auto seed = static_cast<std::uint32_t>(test::environment_number("IPVS_PROXIER_SOAK_SEED", 1));
  using Clock = std::chrono::steady_clock;
  const auto end =
      Clock::now() + std::chrono::seconds(test::environment_number("IPVS_PROXIER_SOAK_SECONDS", 0));
  for (int round = 0; round < 6 || Clock::now() < end; ++round, ++seed) {
    const HostileRun run(seed);
    if (run.victims.services.empty()) continue;
    test::HostileObjects hostile(seed, run.victims);
    std::vector<HostileCase> cases;
    for (int i = 0; i < 4; ++i)
      cases.push_back(hostile.make(static_cast<test::Hostility>(
          (std::size_t(round) * 4 + std::size_t(i)) % test::kHostilities)));
    auto wrong = wrong_on_fakes(run, cases);
    if (wrong.empty()) continue;
    const auto least = test::shrink(
        cases, [&](const auto& some) { return !wrong_on_fakes(run, some).empty(); }, 30);
    for (const auto& one : least)
      wrong += fmt::format("\n{} {}: {}", to_string(one.hostility), one.number,
                           one.objects[0].text().substr(0, 2000));
    FAIL("IPVS_PROXIER_SOAK_SEED=" << seed << ": " << wrong);
  }
}

}  // namespace
}  // namespace ipvsproxier::sync
