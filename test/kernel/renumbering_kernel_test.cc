// A Service whose very many real servers are renumbered again and again, in a real kernel: other
// Services' changes wait for one turn, and the node stays healthy.

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <catch2/catch.hpp>

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
  const auto weight = [&](const netlink::VirtualServiceKey& key, const char* address,
                          std::uint16_t port) {
    return view.weight(key, {ip(address), port}).value_or(0);
  };
  netns.inside([&] {
    const auto status = [](const char* path) { return http_get(kRenumberingHealth, path).status; };
    REQUIRE(eventually([&] { return status("/healthz") == 200; }));
    std::uint16_t first = 10'000;
    for (const char* endpoint : {"10.246.0.2", "10.246.0.3", "10.246.0.4"}) {
      const auto last_added = [&, last = std::exchange(first, first + 1000)] {
        const netlink::VirtualServiceKey key{ip("10.96.0.10"), Protocol::tcp,
                                             static_cast<std::uint16_t>(last + 1299)};
        return weight(key, "10.245.0.100", 8299) > 0;
      };
      manifests.put(renumbered(first));
      // Some of it is there, and most is not.
      const netlink::VirtualServiceKey begun{ip("10.96.0.10"), Protocol::tcp, first};
      REQUIRE(eventually([&] { return weight(begun, "10.245.0.1", 8000) > 0; }));
      const auto begin = std::chrono::steady_clock::now();
      manifests.put(other_with(endpoint));
      REQUIRE(eventually([&] { return weight(kOther, endpoint, 8080) > 0; }));
      const auto waited = std::chrono::steady_clock::now() - begin;
      CHECK(status("/healthz") == 200);
      CHECK(status("/livez") == 200);
      REQUIRE(eventually(last_added));
      const auto all = std::chrono::steady_clock::now() - begin;
      fmt::print("the other Service waited {} ms, all took {} ms\n", waited / 1ms, all / 1ms);
      CHECK(2 * waited < all);
    }
    CHECK(status("/healthz") == 200);
  });
}

}  // namespace
}  // namespace ipvsproxier::test
