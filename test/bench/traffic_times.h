#pragma once

// How long a connection and a round trip take. Client and server are one thread that never waits
// for another one, so what is measured is the kernel's work for the packets. Failures throw
// std::system_error.

#include "test/bench/traffic_ways.h"

namespace ipvsproxier::bench {

struct TrafficSample {
  double connect_us = 0;     // of one connect(), the median
  double round_trip_us = 0;  // a byte there and one back, the median
  double per_second = 0;     // connections, made and closed one after the other
};

TrafficSample measure_traffic(const Road& road);

}  // namespace ipvsproxier::bench
