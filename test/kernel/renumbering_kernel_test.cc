// A Service whose very many real servers are renumbered again and again, in a real kernel: other
// Services' changes wait for one turn, and the node stays healthy.

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "proxier/sync/turns.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/manifests.h"

#include "test/support/ip.h"
#include "test/support/raw_http.h"

namespace ipvsproxier::test {
namespace {

using namespace std::chrono_literals;
using netlink::IpAddress;
using netlink::Protocol;

constexpr std::uint16_t kRenumberingHealth = 10256;
constexpr std::uint16_t kRenumberingMetrics = 10249;
const netlink::VirtualServiceKey kOther{ip("10.96.0.20"), Protocol::tcp, 80};

// 30,000 real servers: 300 ports from this number on, of 100 endpoints each.
ServiceManifest renumbered(std::uint16_t first) {
  ServiceManifest service{.name = "wide", .cluster_ips = {"10.96.0.10"}, .ports = {}};
  for (std::uint16_t i = 0; i < 300; ++i)
    service.ports.push_back({.name = fmt::format("p{}", i),
                             .port = static_cast<std::uint16_t>(first + i),
                             .target = static_cast<std::uint16_t>(8000 + i)});
  for (std::uint32_t i = 0; i < 100; ++i)
    service.endpoints.push_back({IpAddress::v4(0x0af50001U + i), "n2"});
  return service;
}

ServiceManifest other_with(const std::string& endpoint) {
  return {.name = "other", .cluster_ips = {"10.96.0.20"}, .endpoints = {{ip(endpoint), "n2"}}};
}

// Requests about IPVS since the daemon began, by its own count.
double ipvs_requests() {
  const auto text = http_get(kRenumberingMetrics, "/metrics").body;
  const std::string name = "ipvsproxier_netlink_messages_total{kind=\"ipvs\"} ";
  const auto at = text.find(name);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + name.size()));
}

TEST_CASE("kernel: 30,000 real servers that are renumbered twice have others wait for a turn",
          "[long][renumbering]") {
  const std::string compat = GENERATE("", "--kube-proxy-compat");
  CAPTURE(compat);
  const Netns netns;
  netns.inside([] { shell("ip link set lo up"); });
  Manifests manifests;
  manifests.configure("ipvs: {minSyncPeriod: 0s}\n");
  manifests.put(renumbered(10'000));
  manifests.put(other_with("10.246.0.1"));
  auto flags = manifests.flags();
  if (!compat.empty()) flags.push_back(compat);
  Daemon daemon(netns, flags);
  daemon.start();
  IpvsView view(netns);
  const auto serves = [&](const std::string& endpoint) {
    return view.weight(kOther, {ip(endpoint), 8080}).value_or(0) > 0;
  };
  netns.inside([&] {
    const auto status = [](const char* path) { return http_get(kRenumberingHealth, path).status; };
    REQUIRE(eventually([&] { return status("/healthz") == 200; }));
    manifests.put(renumbered(20'000));
    std::this_thread::sleep_for(2s);
    manifests.put(renumbered(30'000));
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(2s);
      const auto before = ipvs_requests();
      const auto endpoint = fmt::format("10.246.0.{}", 2 + i);
      manifests.put(other_with(endpoint));
      REQUIRE(eventually([&] { return serves(endpoint); }));
      const auto written = ipvs_requests() - before;
      fmt::print("{} requests until the other Service was served\n", written);
      // The turn under way when the change came, and the one that has the change.
      CHECK(written <= 2 * sync::Turns::kMost + 100);
      CHECK(status("/healthz") == 200);
      CHECK(status("/livez") == 200);
    }
    REQUIRE(eventually([&] {
      return view.weight({ip("10.96.0.10"), Protocol::tcp, 30'299}, {ip("10.245.0.100"), 8299}) ==
             1;
    }));
    CHECK(status("/healthz") == 200);
  });
}

}  // namespace
}  // namespace ipvsproxier::test
