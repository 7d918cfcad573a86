#pragma once

// Drain: real servers that are leaving with weight 0. A real server is removed when it was seen
// without connections, or when it drained for longer than the timeout. The kernel says nothing when
// a connection ends, so counts are read: once for each virtual service and pass, in steps between
// which changes are served. Sync thread only.

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "proxier/plan/desired_state.h"
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
  static constexpr std::size_t kServicesAStep = 8;
  static constexpr std::size_t kRemovalsAStep = 64;

  explicit Drain(DrainTimes times) : times_(times) {}

  // These real servers of the virtual service drain now; those that drained before keep their time.
  void set(const netlink::VirtualServiceKey& service,
           const plan::SortedVector<netlink::RealServerKey>& servers, TimePoint now);

  // Something was added to the kernel: removals wait a little, for each removed real server makes
  // every add slower for minutes (it stays in the kernel's trash, ip_vs_ctl.c).
  void yield(TimePoint now);

  // When the next step is due: that of a pass that has begun at once.
  std::optional<TimePoint> next() const;
  // A pass has begun and is not over.
  bool running() const { return pass_.has_value(); }

  struct Step {
    std::vector<netlink::IpvsOp> removals;
    bool surprise = false;  // others deleted a virtual service
    bool silent = false;    // there was no answer in time: the rest is left to the next pass
  };
  // The next step of a pass, or the first of a new one: what may be removed now. Problems with
  // reading are appended; such real servers stay unless their time is over.
  Step step(netlink::IpvsTable& ipvs, TimePoint now, std::vector<Failure>& failures);

  std::size_t size() const { return begins_.size(); }

  struct Leaving {
    std::chrono::milliseconds since{0};             // so long it drains
    std::optional<std::chrono::milliseconds> left;  // until it goes at the latest
  };
  // nullopt: it does not drain.
  std::optional<Leaving> leaving(const netlink::VirtualServiceKey& service,
                                 const netlink::RealServerKey& server, TimePoint now) const;

 private:
  // One that drains.
  struct Entry {
    netlink::RealServerKey server;
    TimePoint since;
  };
  using Entries = plan::SortedVector<Entry, &Entry::server>;
  // One that goes on behind `last`, when what was found before was removed.
  struct Pass {
    std::optional<netlink::VirtualServiceKey> last;
    std::vector<netlink::DeleteServer> found;
  };

  bool over(TimePoint since, TimePoint now) const {
    return times_.timeout && now - since >= *times_.timeout;
  }
  void forget(TimePoint since) { begins_.erase(begins_.find(since)); }
  bool drains(const netlink::DeleteServer& server) const;
  void look(netlink::IpvsTable& ipvs, const netlink::VirtualServiceKey& service,
            const Entries& servers, TimePoint now, Step& step, std::vector<Failure>& failures);

  DrainTimes times_;
  std::map<netlink::VirtualServiceKey, Entries> draining_;
  std::multiset<TimePoint> begins_;  // of all that drain
  std::optional<Pass> pass_;
  std::optional<TimePoint> due_;
  TimePoint last_pass_{};  // when it began
  TimePoint yield_until_{};
};

}  // namespace ipvsproxier::sync
