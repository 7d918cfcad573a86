#pragma once

// Backoff: how long to wait before the next attempt. A value; any thread.

#include <algorithm>
#include <chrono>

namespace ipvsproxier::loop {

struct Backoff {
  std::chrono::milliseconds first{500};
  std::chrono::milliseconds most{30'000};

  // The delay after this many failures in a row (1, 2, ...); doubles each time. `jitter` in [0, 1)
  // subtracts up to a quarter, so that clients that failed together do not retry together.
  std::chrono::milliseconds delay(unsigned failures, double jitter) const {
    auto delay = first;
    for (unsigned i = 1; i < failures && delay < most; ++i) delay *= 2;
    delay = std::min(delay, most);
    return delay - std::chrono::milliseconds(static_cast<std::chrono::milliseconds::rep>(
                       static_cast<double>(delay.count()) * 0.25 * jitter));
  }
};

}  // namespace ipvsproxier::loop
