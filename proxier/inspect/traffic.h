#pragma once

// Traffic: how much of what goes through each virtual service and real server now, from readings of
// the kernel's counters one after another. Values and arithmetic; pure, any thread.
//
// The kernel (6.1) sums its counters up every two seconds (net/netfilter/ipvs/ip_vs_est.c): between
// two such moments they stand still. A rate is therefore the growth between two readings in which
// the counters moved, divided by the time between these (two seconds at least), and stays until
// they move again or must have.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "netlink/ipvs_reader.h"
#include "netlink/ipvs_readings.h"
#include "netlink/ipvs_types.h"
#include "netlink/result.h"

namespace ipvsproxier::inspect {

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
  Counters counters;
};

struct ServiceCount {
  netlink::VirtualServiceKey key;
  TimePoint at;  // when it and its servers were read
  Counters counters;
  std::vector<ServerCount> servers;
};

// The whole table, in one pass. The error is the reader's.
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

// One entry's rates.
class Meter {
 public:
  void take(const Counters& counters, TimePoint at);
  // nullopt until there is a time to divide by.
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
    Meter meter;
  };
  struct Service {
    Meter meter;
    std::vector<Server> servers;  // sorted
  };

  // The next reading. What is not in it is forgotten; what is new has no rate yet.
  void take(std::vector<ServiceCount> reading);

  const std::map<netlink::VirtualServiceKey, Service>& services() const { return services_; }

 private:
  std::map<netlink::VirtualServiceKey, Service> services_;
};

}  // namespace ipvsproxier::inspect
