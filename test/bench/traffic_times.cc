#include "test/bench/traffic_times.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "netlink/unique_fd.h"
#include "test/bench/kernel_world.h"
#include "test/support/sockets.h"

namespace ipvsproxier::bench {
namespace {

using netlink::UniqueFd;

constexpr int kConnections = 300;
constexpr int kRoundTrips = 500;
constexpr std::uint16_t kFirstPort = 10'000;

[[noreturn]] void fail_road(const Road& road, const char* what) {
  throw std::system_error(errno, std::generic_category(), road.name + ": " + what);
}

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The kernel completes connections by itself: nobody needs to accept them in time.
UniqueFd listen_behind(const Road& road) {
  return road.server->netns->inside([&] {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    auto address =
        test::socket_address(netlink::IpAddress::any(netlink::Family::ipv4), Ways::kServerPort);
    if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        ::bind(fd.get(), address.raw(), address.size) < 0 ||
        ::listen(fd.get(), 2 * kConnections) < 0)
      fail_road(road, "listen");
    return fd;
  });
}

// From a port that no earlier connection had: what the kernels on the way still know of that one
// could cost the new one its first packets, and each repetition takes a second or more.
UniqueFd connect_by(const Road& road, test::SocketAddress& to) {
  static std::uint16_t port = kFirstPort;
  if (++port < kFirstPort) port = kFirstPort;
  auto from = test::socket_address(netlink::IpAddress::any(netlink::Family::ipv4), port);
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || ::bind(fd.get(), from.raw(), from.size) < 0) fail_road(road, "bind");
  if (::connect(fd.get(), to.raw(), to.size) < 0) fail_road(road, "connect");
  return fd;
}

// A reset leaves nothing that would wait for the end of the connection.
void reset(UniqueFd fd) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

void measure_connections(const Road& road, test::SocketAddress& to, TrafficSample& sample) {
  std::vector<double> times;
  const double begin = now_ms();
  for (int i = 0; i < kConnections; ++i) {
    const double start = now_ms();
    auto fd = connect_by(road, to);
    times.push_back((now_ms() - start) * 1000);
    reset(std::move(fd));
  }
  sample.per_second = kConnections / (now_ms() - begin) * 1000;
  sample.connect_us = median_of(times);
}

void pass_byte(const Road& road, int from, int to) {
  char byte = 'x';
  if (::send(from, &byte, 1, MSG_NOSIGNAL) != 1 || ::recv(to, &byte, 1, 0) != 1)
    fail_road(road, "pass a byte");
}

void measure_round_trips(const Road& road, int client, int server, TrafficSample& sample) {
  const int on = 1;
  for (const int fd : {client, server}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  std::vector<double> times;
  for (int i = 0; i < kRoundTrips; ++i) {
    const double start = now_ms();
    pass_byte(road, client, server);
    pass_byte(road, server, client);
    times.push_back((now_ms() - start) * 1000);
  }
  sample.round_trip_us = median_of(times);
}

}  // namespace

TrafficSample measure_traffic(const Road& road) {
  const auto listener = listen_behind(road);
  auto to = test::socket_address(road.to, road.port);
  TrafficSample sample;
  road.client->netns->inside([&] {
    // The first one fills caches of routes and neighbours.
    reset(connect_by(road, to));
    measure_connections(road, to, sample);
    while (UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))) continue;
    const auto client = connect_by(road, to);
    const UniqueFd server(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!server) fail_road(road, "accept");
    measure_round_trips(road, client.get(), server.get(), sample);
  });
  return sample;
}

}  // namespace ipvsproxier::bench
