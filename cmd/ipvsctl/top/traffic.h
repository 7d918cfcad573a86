#pragma once

// Traffic: the current rates of each virtual service and real server, from successive readings of
// the kernel's counters. Values; pure, any thread.
//
// The kernel (6.1) adds up its counters every two seconds (net/netfilter/ipvs/ip_vs_est.c) and they
// stand still in between. A rate is therefore the growth between two readings at which the counters
// had moved, divided by the time between these (at least two seconds). It stays until they move
// again or should have.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "netlink/ipvs/ipvs_reader.h"
#include "netlink/ipvs/ipvs_readings.h"
#include "netlink/ipvs/ipvs_types.h"
#include "netlink/result.h"

namespace ipvsproxier::ctl {

using TimePoint = std::chrono::steady_clock::time_point;

struct Counters {
  std::uint64_t connections = 0;
  std::uint64_t packets_in = 0;
  std::uint64_t packets_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;

  friend bool operator==(const Counters&, const Counters&) = default;
};

struct ServerCount {
  netlink::RealServerKey key;
  std::uint32_t active = 0;
  std::uint32_t inactive = 0;
  std::uint32_t weight = 1;
  std::uint32_t upper_threshold = 0;
  Counters counters;
};

struct ServiceCount {
  netlink::VirtualServiceKey key;
  TimePoint at;  // when the service and its servers were read
  Counters counters;
  std::vector<ServerCount> servers;
};

// Reads the whole table in one pass. Returns the reader's error.
using Now = TimePoint (*)();
netlink::Result<std::vector<ServiceCount>> read_counts(netlink::IpvsReader& reader, Now now);

// Per second.
struct Rates {
  double connections = 0;
  double packets_in = 0;
  double packets_out = 0;
  double bytes_in = 0;
  double bytes_out = 0;

  Rates& operator+=(const Rates& other);
  friend bool operator==(const Rates&, const Rates&) = default;
};

// The rates of one entry.
class Meter {
 public:
  void take(const Counters& counters, TimePoint at);
  // nullopt until two readings allow a rate.
  const std::optional<Rates>& rates() const { return rates_; }

 private:
  Counters base_;
  std::optional<TimePoint> since_;
  std::optional<Rates> rates_;
};

class Traffic {
 public:
  struct Server {
    netlink::RealServerKey key;
    std::uint32_t active = 0;
    std::uint32_t inactive = 0;
    std::uint32_t weight = 1;
    std::uint32_t upper_threshold = 0;
    Meter meter;
  };
  struct Service {
    Meter meter;
    std::vector<Server> servers;  // sorted
  };

  // Takes the next reading. Absent entries are dropped; new ones have no rate yet.
  void take(std::vector<ServiceCount> reading);

  const std::map<netlink::VirtualServiceKey, Service>& services() const { return services_; }

 private:
  std::map<netlink::VirtualServiceKey, Service> services_;
};

}  // namespace ipvsproxier::ctl
