// Changes at 100 a second, from the bytes of each event to the kernel's answer.

#include <algorithm>
#include <ctime>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>

#include "test/bench/event_feed.h"
#include "test/bench/kernel_parts.h"
#include "test/bench/measurements.h"

namespace ipvsproxier::bench {
namespace {

constexpr double kPeriodMs = 10;
constexpr std::uint16_t kServerPort = 8080;
constexpr std::uint32_t kNewPods = 0x0b000000;  // 11.0.0.0

int events_of(const Size& size) {
  return std::min(1000, size.services);
}

netlink::RealServerKey key_of(const api::Endpoint& endpoint) {
  return {endpoint.address, kServerPort};
}

// Sleeps until now_ms() is this.
void sleep_until(double when_ms) {
  const auto seconds = static_cast<std::time_t>(when_ms / 1e3);
  const timespec when{seconds,
                      static_cast<long>((when_ms - static_cast<double>(seconds) * 1e3) * 1e6)};
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr);
}

// An event that is ready to be sent, and the real server that it brings or takes.
struct Ready {
  std::string event;
  netlink::RealServerKey server;
};

// What one event waited for, in milliseconds.
struct Wait {
  int number = 0;
  double late = 0;  // for those before it
  double decoding = 0;
  double handing_over = 0;  // and planning
  double kernel = 0;
  double ahead = 0;  // operations and listings of the sync thread between its coming and its own
  const char* doing = "";  // the sync thread, when it came

  double all() const { return late + decoding + handing_over + kernel; }
};

// Events at their times. One that is late because another before it took so long counts from when
// it was due, as it would have waited.
std::vector<Wait> send_paced(EventFeed& feed, const std::vector<Ready>& all) {
  std::vector<Wait> waits;
  double due = now_ms();
  for (const auto& [event, server] : all) {
    due += kPeriodMs;
    const bool late = now_ms() > due;
    if (!late) sleep_until(due);
    const auto way = feed.send(event, server);
    waits.push_back({.number = static_cast<int>(waits.size()),
                     .late = late ? way.sent - due : 0,
                     .decoding = way.decoded - way.sent,
                     .handing_over = way.kernel.reached - way.decoded,
                     .kernel = way.kernel.answered - way.kernel.reached,
                     .ahead = static_cast<double>(way.kernel.asked - way.asked),
                     .doing = way.doing});
  }
  return waits;
}

void print_part(const char* name, const std::vector<Wait>& waits, double Wait::*part) {
  std::vector<double> times;
  for (const auto& wait : waits) times.push_back(wait.*part);
  print_times(std::string("event, ") + name, times);
}

// The longest in a hundred, for who wants to know what they waited for.
void tell_longest(std::vector<Wait> waits) {
  std::sort(waits.begin(), waits.end(),
            [](const Wait& a, const Wait& b) { return a.all() > b.all(); });
  for (std::size_t i = 0; i < waits.size() / 100; ++i) {
    const auto& wait = waits[i];
    fmt::print(stderr,
               "event {}: {:.2f} ms: late {:.2f}, decoding {:.2f}, handing over and planning "
               "{:.2f}, kernel {:.2f}; {} requests ahead {}\n",
               wait.number, wait.all(), wait.late, wait.decoding, wait.handing_over, wait.kernel,
               wait.ahead, wait.doing);
  }
}

void send_and_print(KernelWorld& world, EventFeed& feed, const std::vector<Ready>& all) {
  const auto before = world.sent();
  const auto waits = send_paced(feed, all);
  const auto after = world.sent();
  const auto print = [](const char* name, std::uint64_t from, std::uint64_t to) {
    print_figure(name, static_cast<double>(to - from), "");
  };
  std::vector<double> times;
  for (const auto& wait : waits) times.push_back(wait.all());
  print_figure("events", static_cast<double>(all.size()), "");
  print("ipvs messages", before.ipvs_writes, after.ipvs_writes);
  print("ipvs dumps", before.ipvs_dumps, after.ipvs_dumps);
  print("link messages", before.link_writes, after.link_writes);
  print("datagrams but for sets", before.datagrams, after.datagrams);
  print_figure("over 2 ms",
               static_cast<double>(
                   std::count_if(times.begin(), times.end(), [](double time) { return time > 2; })),
               "");
  print_times("event", times);
  double ahead = 0;
  for (const auto& wait : waits) ahead = std::max(ahead, wait.ahead);
  print_figure("most requests ahead of an event", ahead, "");
  print_part("decoding", waits, &Wait::decoding);
  print_part("handing over and planning", waits, &Wait::handing_over);
  print_part("kernel", waits, &Wait::kernel);
  tell_longest(waits);
}

}  // namespace

void measure_silence(KernelWorld& world, const Size& size) {
  constexpr int kWrites = 100;
  EventFeed feed(world, size);
  world.tap().take();
  const auto before = world.sent();
  for (int i = 0; i < kWrites; ++i) {
    const auto event = feed.event_of(slice_of(size, i), i + 1);
    feed.send(event);
    feed.send(event);
  }
  // What is behind them is in the kernel when they are done with.
  auto slice = slice_of(size, 1);
  auto list = endpoints_of(slice);
  list[1].address = netlink::IpAddress::v4(kNewPods);
  slice.endpoints = list;
  feed.send(feed.event_of(slice), key_of(list[1]));
  const auto after = world.sent();
  print_figure("metadata-only writes", kWrites, "");
  print_figure("events that came twice", kWrites, "");
  print_figure("messages of all and of one endpoint replaced",
               static_cast<double>(world.tap().take().total()), "");
  print_figure("datagrams but for sets", static_cast<double>(after.datagrams - before.datagrams),
               "");
}

void measure_load(KernelWorld& world, const Size& size) {
  EventFeed feed(world, size);
  std::vector<Ready> all;
  const int events = events_of(size);
  for (int i = 0; i < events; ++i) {
    // One comes, then it goes; every fifth of them is local.
    const int number = i / 2;
    auto slice = slice_of(size, 1 + number * (size.services / events) % size.services);
    auto list = endpoints_of(slice);
    auto endpoint = list[static_cast<std::size_t>(number % 5)];
    endpoint.address = netlink::IpAddress::v4(kNewPods + static_cast<std::uint32_t>(number));
    if (i % 2 == 0) list.push_back(endpoint);
    slice.endpoints = list;
    all.push_back({feed.event_of(slice), key_of(endpoint)});
  }
  send_and_print(world, feed, all);
}

// What is the daemon's share of the waits: before 6.2 a timer of the kernel goes through all
// virtual and real servers every two seconds, in one go (estimation_timer(), ip_vs_est.c).
void measure_load_unestimated(KernelWorld& world, const Size& size) {
  std::ofstream switch_off("/proc/sys/net/ipv4/vs/run_estimation");
  if (!(switch_off << 0 << std::flush)) throw std::runtime_error("cannot switch estimation off");
  measure_load(world, size);
}

void measure_rolling_update(KernelWorld& world, const Size& size) {
  constexpr int kPerSlice = 100;
  const int endpoints = events_of(size);
  const int first = size.services + 7;  // neither node ports nor a load balancer
  Size large{.name = "", .services = first + 1, .ports = 1, .endpoints = endpoints};
  const auto service = service_of(large, first);
  const auto model = slice_of({.services = first + 1, .endpoints = kPerSlice}, first);
  std::vector<api::EndpointSlice> slices;
  std::uint32_t next = kNewPods;
  for (int i = 0; i < endpoints / kPerSlice; ++i) {
    slices.push_back(model);
    slices.back().name.name += fmt::format("-{}", i);
    auto list = endpoints_of(model);
    for (auto& endpoint : list) endpoint.address = netlink::IpAddress::v4(next++);
    slices.back().endpoints = list;
  }
  EventFeed feed(world, size, &service, slices);
  std::vector<Ready> all;
  for (int i = 0; i < endpoints; ++i) {
    auto& slice = slices[static_cast<std::size_t>(i / kPerSlice)];
    auto list = endpoints_of(slice);
    auto& endpoint = list[static_cast<std::size_t>(i % kPerSlice)];
    endpoint.address = netlink::IpAddress::v4(next++);
    slice.endpoints = list;
    all.push_back({feed.event_of(slice), key_of(endpoint)});
  }
  send_and_print(world, feed, all);
}

}  // namespace ipvsproxier::bench
