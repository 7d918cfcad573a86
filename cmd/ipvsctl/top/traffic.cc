#include "cmd/ipvsctl/top/traffic.h"

#include <algorithm>
#include <utility>

namespace ipvsproxier::ctl {

using netlink::ServerReading;
using netlink::ServiceReading;
using netlink::Status;

namespace {

// Seen growth took at least the kernel's interval between two sums. After the interval plus the
// delay of the kernel's timer, a sum has surely been made.
constexpr std::chrono::duration<double> kSummedEvery{2};
constexpr std::chrono::duration<double> kSurelySummed{2.1};

Counters counters_of(const netlink::IpvsTraffic& traffic) {
  return {.connections = traffic.connections,
          .packets_in = traffic.packets_in,
          .packets_out = traffic.packets_out,
          .bytes_in = traffic.bytes_in,
          .bytes_out = traffic.bytes_out};
}

// The counters were zeroed, or the entry was replaced by another one with the same key.
bool went_back(const Counters& from, const Counters& to) {
  return to.connections < from.connections || to.packets_in < from.packets_in ||
         to.packets_out < from.packets_out || to.bytes_in < from.bytes_in ||
         to.bytes_out < from.bytes_out;
}

Rates growth(const Counters& from, const Counters& to, double seconds) {
  const auto rate = [&](std::uint64_t Counters::*counter) {
    return static_cast<double>(to.*counter - from.*counter) / seconds;
  };
  return {.connections = rate(&Counters::connections),
          .packets_in = rate(&Counters::packets_in),
          .packets_out = rate(&Counters::packets_out),
          .bytes_in = rate(&Counters::bytes_in),
          .bytes_out = rate(&Counters::bytes_out)};
}

}  // namespace

netlink::Result<std::vector<ServiceCount>> read_counts(netlink::IpvsReader& reader, Now now) {
  std::vector<ServiceCount> counts;
  const auto status = reader.services([&](const ServiceReading& service) -> Status {
    auto& count = counts.emplace_back();
    count.key = service.service.key;
    count.at = now();
    count.counters = counters_of(service.traffic);
    return reader.servers(count.key, [&](const ServerReading& server) -> Status {
      count.servers.push_back({.key = server.listed.server.key,
                               .active = server.listed.active_connections,
                               .inactive = server.listed.inactive_connections,
                               .weight = server.listed.server.weight,
                               .upper_threshold = server.listed.server.upper_threshold,
                               .counters = counters_of(server.traffic)});
      return {};
    });
  });
  if (!status) return status.error();
  return counts;
}

Rates& Rates::operator+=(const Rates& other) {
  connections += other.connections;
  packets_in += other.packets_in;
  packets_out += other.packets_out;
  bytes_in += other.bytes_in;
  bytes_out += other.bytes_out;
  return *this;
}

void Meter::take(const Counters& counters, TimePoint at) {
  if (!since_ || went_back(base_, counters)) {
    rates_.reset();
  } else {
    const std::chrono::duration<double> passed = at - *since_;
    const bool silent = counters == base_;
    if (passed.count() <= 0 || (silent && passed < (rates_ ? kSurelySummed : kSummedEvery))) return;
    rates_ = growth(base_, counters, std::max(passed, kSummedEvery).count());
  }
  base_ = counters;
  since_ = at;
}

void Traffic::take(std::vector<ServiceCount> reading) {
  std::map<netlink::VirtualServiceKey, Service> services;
  for (auto& count : reading) {
    auto& service = services[count.key];
    if (const auto old = services_.find(count.key); old != services_.end())
      service = std::move(old->second);
    service.meter.take(count.counters, count.at);
    std::ranges::sort(count.servers, {}, &ServerCount::key);
    std::vector<Server> servers;
    servers.reserve(count.servers.size());
    auto old = service.servers.begin();
    for (const auto& one : count.servers) {
      while (old != service.servers.end() && old->key < one.key) ++old;
      const bool known = old != service.servers.end() && old->key == one.key;
      auto& server = servers.emplace_back(known ? *old : Server{.key = one.key});
      server.active = one.active;
      server.inactive = one.inactive;
      server.weight = one.weight;
      server.upper_threshold = one.upper_threshold;
      server.meter.take(one.counters, count.at);
    }
    service.servers = std::move(servers);
  }
  services_ = std::move(services);
}

}  // namespace ipvsproxier::ctl
