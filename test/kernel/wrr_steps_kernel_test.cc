// What a new connection costs under wrr where all real servers are full (proxier/plan/wrr_steps.h).
// Times are compared within one run.

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "netlink/ipvs/ipvs_kernel.h"
#include "proxier/plan/wrr_steps.h"
#include "test/contract/ipvs_contract.h"
#include "test/kernel/net_setup.h"
#include "test/kernel/netns.h"
#include "test/support/ip.h"
#include "test/support/sockets.h"

namespace ipvsproxier::test {
namespace {

constexpr std::uint16_t kServers = 100;
constexpr const char* kVip = "10.96.0.9";

using Weights = std::vector<std::uint32_t>;

netlink::VirtualService wrr_service(std::uint16_t port) {
  netlink::VirtualService service;
  service.key = {ip(kVip), netlink::Protocol::udp, port};
  service.scheduler = "wrr";
  return service;
}

// A datagram from a port of its own: a new connection.
void send_one(std::uint16_t port) {
  const auto socket = bound_socket(netlink::Protocol::udp, ip("0.0.0.0"), 0);
  REQUIRE(socket);
  auto to = socket_address(ip(kVip), port);
  // Refused with an error where nobody takes it.
  static_cast<void>(::sendto(socket->get(), "x", 1, 0, to.raw(), to.size));
}

// One connection fills a real server: how long each further one takes that none may take.
double time_when_full(netlink::IpvsTable& table, std::uint16_t port, const Weights& weights) {
  constexpr int kSent = 100;
  const auto service = wrr_service(port);
  must(table, netlink::AddService{service});
  for (std::uint16_t i = 0; i < kServers; ++i) {
    auto server = real_server("10.244.0." + std::to_string(i + 2), 53, weights[i]);
    server.upper_threshold = 1;
    must(table, netlink::AddServer{service.key, server});
  }
  for (int i = 0; i < 2 * kServers; ++i) send_one(port);
  const auto servers = table.list_servers(service.key);
  REQUIRE(servers);
  for (const auto& one : *servers) REQUIRE(one.active_connections + one.inactive_connections >= 1);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kSent; ++i) send_one(port);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return took.count() / kSent;
}

TEST_CASE("kernel: wrr with full real servers costs a bounded time, whatever weights are asked for",
          "[long]") {
  const FreshNetns netns;
  NetSetup net(netns.netns());
  net.up("lo");
  net.address("lo", std::string(kVip) + "/32");
  const Netns peer;
  net.veth("pods", peer, "eth0");
  net.address("pods", "10.244.0.1/16");
  const auto opened = netlink::KernelIpvsTable::open();
  REQUIRE(opened);
  auto& table = **opened;
  Weights asked(kServers, 1);
  asked.front() = 65535;
  auto planned = asked;
  CHECK(plan::limit_weights(planned, planned.size()));
  const auto equal_us = time_when_full(table, 1, Weights(kServers, 1));
  const auto planned_us = time_when_full(table, 2, planned);
  const auto asked_us = time_when_full(table, 3, asked);
  WARN("a datagram that no real server takes, in microseconds: with equal weights "
       << equal_us << ", with the planned ones " << planned_us << ", with those asked for "
       << asked_us);
  CHECK(asked_us > 5 * planned_us);
  CHECK(planned_us < 20 * equal_us);
}

}  // namespace
}  // namespace ipvsproxier::test
