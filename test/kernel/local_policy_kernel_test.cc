// New connections to a Service of external policy Local while its endpoints move between nodes and
// its policy changes: none fails, from wherever it comes.

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"
#include "test/support/ip.h"

namespace ipvsproxier::test {
namespace {

constexpr std::size_t kMovingPerSecond = 60;  // from each of three sides
constexpr std::size_t kBetweenMoves = 40;     // connections of each side

ServiceManifest moving_service(const std::vector<const Pod*>& pods, bool local_policy) {
  ServiceManifest service{
      .name = "moving",
      .type = "LoadBalancer",
      .cluster_ips = {"10.96.0.9"},
      .ports = {{.name = "echo", .port = 80, .target = kEchoPort}},
      .spec = std::string("externalTrafficPolicy: ") + (local_policy ? "Local" : "Cluster"),
      .ingress_ips = {"192.0.2.10"}};
  for (const auto* pod : pods) service.endpoints.push_back({pod->v4, pod->node});
  return service;
}

// Waits until the load has made so many connections more.
void go_on(const NewConnections& load) {
  const auto enough = load.made() + kBetweenMoves;
  while (load.made() < enough) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST_CASE("kernel: endpoints of policy Local move and the policy changes: no connection fails",
          "[.local_policy_moves]") {
  const Cluster cluster({.local_pods = 3, .remote_pods = 2});
  Manifests manifests;
  const auto& here = cluster.local(1);
  const auto& also_here = cluster.local(2);
  const auto& far = cluster.remote(1);
  const auto& also_far = cluster.remote(2);
  manifests.put(moving_service({&here, &far}, true));
  auto flags = manifests.flags();
  flags.insert(flags.end(), {"--packet-filter=nftables", "--in-cluster-clients"});
  Daemon daemon(cluster.netns(), flags);
  daemon.start();
  REQUIRE(daemon.logs("synced: "));
  std::vector<std::unique_ptr<NewConnections>> loads;
  for (const Host* host :
       {&cluster.client(), &cluster.node(), static_cast<const Host*>(&cluster.local(3))})
    loads.push_back(
        std::make_unique<NewConnections>(NewConnections::Plan{.host = *host,
                                                              .target = {ip("192.0.2.10"), 80},
                                                              .total = 40'000,
                                                              .per_second = kMovingPerSecond}));

  const auto change = [&](const std::vector<const Pod*>& pods, bool local_policy = true) {
    daemon.mark();
    manifests.put(moving_service(pods, local_policy));
    REQUIRE(daemon.logs("synced: "));
    // From outside nobody is served while no endpoint is here: such connections wait.
    for (std::size_t i = 1; i < loads.size(); ++i) go_on(*loads[i]);
  };
  for (int round = 0; round < 3; ++round) {
    change({&far, &also_far});
    change({&also_here, &far});
    change({&here, &also_here});
    change({&here, &far}, false);
    change({&far}, false);
    change({&far, &here});
    change({&far, &here}, false);
    change({&far, &here});
  }
  for (const auto& load : loads) {
    load->stop();
    const auto counts = load->wait();
    INFO(to_string(counts) << "\n" << daemon.log());
    CHECK(counts.failed() == 0);
    CHECK(counts.servers.contains("remote-1"));
    CHECK(counts.servers.contains("local-1"));
  }
}

}  // namespace
}  // namespace ipvsproxier::test
