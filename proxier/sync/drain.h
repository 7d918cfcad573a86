#pragma once

// Drain: real servers that are leaving, with weight 0. A real server is removed once it was seen
// without connections, or once it has drained for longer than the timeout. The kernel does not
// report the end of a connection, so connection counts are read: one listing for each virtual
// service and pass, in steps between which changes are handled. Sync thread only.

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "proxier/plan/desired_state.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

struct DrainTimes {
  std::chrono::milliseconds first_look{1'000};       // after the weight became 0
  std::chrono::milliseconds between{5'000};          // between two passes
  std::chrono::milliseconds grace{2'000};            // after other changes: additions come first
  std::chrono::milliseconds late{5'000};             // limit of the delay by `grace`
  std::optional<std::chrono::milliseconds> timeout;  // nullopt: until the last connection ends
  // The limit, where there is no other, of what no Service asks for any more: virtual services of
  // deleted Services, of ports and addresses that Services no longer have. Their addresses are
  // bound for so long.
  std::chrono::milliseconds deleted = std::chrono::hours(1);
};

class Drain {
 public:
  static constexpr std::size_t kServicesAStep = 8;
  static constexpr std::size_t kRemovalsAStep = 64;
  static constexpr std::size_t kPassedAStep =
      4096;  // virtual services, those without room included

  explicit Drain(DrainTimes times) : times_(times) {}

  // Sets the limit that a Service asks for its virtual service, of which DrainTimes::timeout is the
  // upper bound; 0: until the last connection ends; nullopt: the node's. It stays while they drain,
  // also when the virtual service is no longer wanted. Takes effect with the next set().
  void set_timeout(const netlink::VirtualServiceKey& service,
                   std::optional<std::chrono::milliseconds> timeout);

  // Sets the real servers of the virtual service that drain now. Those that were draining before
  // keep their start time. `deleted`: no Service asks for the virtual service any more.
  void set(const netlink::VirtualServiceKey& service,
           const plan::SortedVector<netlink::RealServerKey>& servers, bool deleted, TimePoint now);

  // Something was added to the kernel: delays removals a little, because for minutes after it each
  // removed real server slows down every addition (it stays in the kernel's trash list,
  // ip_vs_ctl.c).
  void yield(TimePoint now);

  // The time of the next step; at once while a pass is running.
  std::optional<TimePoint> next() const;
  // Whether a pass has begun and not ended.
  bool running() const { return pass_.has_value(); }

  struct Step {
    std::vector<netlink::IpvsOp> removals;
    bool surprise = false;  // another program deleted a virtual service
    bool silent = false;    // no answer in time: the rest waits for the next pass
  };
  // Runs the next step of the pass, or the first step of a new one; returns the removals that are
  // now allowed. Read failures are appended; their real servers stay unless they have timed out.
  // Virtual services without room for removals (trash.h) are passed over.
  using HasRoom = std::function<bool(const netlink::VirtualServiceKey&)>;
  Step step(netlink::IpvsTable& ipvs, TimePoint now, const HasRoom& has_room,
            std::vector<Failure>& failures);

  std::size_t size() const { return size_; }

  struct Leaving {
    std::chrono::milliseconds since{0};             // time that it has been draining
    std::optional<std::chrono::milliseconds> left;  // time until it is removed at the latest
  };
  // nullopt: it is not draining.
  std::optional<Leaving> leaving(const netlink::VirtualServiceKey& service,
                                 const netlink::RealServerKey& server, TimePoint now) const;

 private:
  // A draining real server.
  struct Entry {
    netlink::RealServerKey server;
    TimePoint since;
    std::optional<TimePoint> end;  // when it is removed at the latest
  };
  using Entries = plan::SortedVector<Entry, &Entry::server>;
  // A running pass: it continues after `last` once the servers in `found` are removed.
  struct Pass {
    std::optional<netlink::VirtualServiceKey> last;
    std::vector<netlink::DeleteServer> found;
  };

  std::optional<std::chrono::milliseconds> timeout_of(const netlink::VirtualServiceKey& service,
                                                      bool deleted) const;
  void remember(const Entry& entry);
  void forget(const Entry& entry);
  bool drains(const netlink::DeleteServer& server) const;
  void look(netlink::IpvsTable& ipvs, const netlink::VirtualServiceKey& service,
            const Entries& servers, TimePoint now, Step& step, std::vector<Failure>& failures);

  DrainTimes times_;
  std::map<netlink::VirtualServiceKey, Entries> draining_;
  std::size_t size_ = 0;           // of all draining servers
  std::multiset<TimePoint> ends_;  // of those that have one
  std::map<netlink::VirtualServiceKey, std::chrono::milliseconds> timeouts_;  // set_timeout()
  std::optional<Pass> pass_;
  std::optional<TimePoint> due_;
  TimePoint last_pass_{};  // begin of the last pass
  TimePoint yield_until_{};
};

}  // namespace ipvsproxier::sync
