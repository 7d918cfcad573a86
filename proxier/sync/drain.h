#pragma once

// Drain: real servers that are leaving with weight 0. A real server is removed when it was seen
// without connections, or when it drained for longer than the timeout. The kernel says nothing when
// a connection ends, so counts are read: once for each virtual service and pass. Sync thread only.

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

struct DrainTimes {
  std::chrono::milliseconds first_look{1'000};       // after the weight became 0
  std::chrono::milliseconds between{5'000};          // passes
  std::chrono::milliseconds grace{2'000};            // after other changes: adds come first...
  std::chrono::milliseconds late{5'000};             // ...but no pass is late by more than this
  std::optional<std::chrono::milliseconds> timeout;  // nullopt: as long as connections last
};

class Drain {
 public:
  explicit Drain(DrainTimes times) : times_(times) {}

  // These real servers of the virtual service drain now; those that drained before keep their time.
  void set(const netlink::VirtualServiceKey& service,
           const std::set<netlink::RealServerKey>& servers, TimePoint now);

  // Something was added to the kernel: removals wait a little, for each removed real server makes
  // every add slower for minutes (it stays in the kernel's trash, ip_vs_ctl.c).
  void yield(TimePoint now);

  // When the next pass is due.
  std::optional<TimePoint> next() const;

  struct Pass {
    std::vector<netlink::IpvsOp> removals;
    bool surprise = false;  // others deleted a virtual service
  };
  // One pass: what may be removed now. Problems with reading are appended; such real servers stay
  // unless their time is over.
  Pass collect(netlink::IpvsTable& ipvs, TimePoint now, std::vector<Failure>& failures);

  std::size_t size() const;

  struct Leaving {
    std::chrono::milliseconds since{0};             // so long it drains
    std::optional<std::chrono::milliseconds> left;  // until it goes at the latest
  };
  // nullopt: it does not drain.
  std::optional<Leaving> leaving(const netlink::VirtualServiceKey& service,
                                 const netlink::RealServerKey& server, TimePoint now) const;

 private:
  using Since = std::map<netlink::RealServerKey, TimePoint>;
  bool over(TimePoint since, TimePoint now) const {
    return times_.timeout && now - since >= *times_.timeout;
  }

  DrainTimes times_;
  std::map<netlink::VirtualServiceKey, Since> draining_;
  std::optional<TimePoint> due_;
  TimePoint last_pass_{};
  TimePoint yield_until_{};
};

}  // namespace ipvsproxier::sync
