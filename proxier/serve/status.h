#pragma once

// Status: the state that the main thread and the sync thread publish, for /healthz, /livez and the
// Service health servers. Every function may be called on any thread and is short; the section
// comments name the usual caller. Independent of how syncing and watching work.
//
// Health of a family: it is unhealthy before its first complete sync, if a sync has been failing
// for 2 x sync period since its change was requested, or if a change was requested so long ago
// while the sync thread makes no progress. A sync that takes long is no fault as long as it goes
// on: its thread calls beat() after each part. A failed sync counts as a requested change, so that
// a broken kernel shows without one. Refusals because of an object are no failure, unless there are
// too many (sync/refusals.h). An absent API server does not matter, unless a maximum age of the
// watches is configured.
//
// Liveness of a thread: a thread is stuck if one operation has taken 2 x sync period (at least a
// minute).

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "netlink/ip_address.h"
#include "proxier/api/names.h"
#include "proxier/loop/mailbox.h"

namespace ipvsproxier::serve {

// One moment on two clocks: the steady clock for ages, the wall clock for display.
struct Stamp {
  std::chrono::system_clock::time_point wall;
  std::chrono::steady_clock::time_point steady;

  static Stamp now() {
    return {std::chrono::system_clock::now(), std::chrono::steady_clock::now()};
  }
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

// Must be callable on any thread.
using StampClock = std::function<Stamp()>;

enum class Resource : std::uint8_t { services, endpoint_slices, nodes };

inline constexpr std::array<Resource, 3> kResources = {Resource::services,
                                                       Resource::endpoint_slices, Resource::nodes};

std::string_view to_string(Resource resource);  // "services", "endpointslices", "nodes"

// The heartbeat of one thread, which calls beat() at the begin of each operation and rest() while
// it waits for work that may never come.
class Heartbeat {
 public:
  explicit Heartbeat(const StampClock& clock) : clock_(clock) {}

  void beat();
  void rest();
  // Time since the last beat; nullopt while resting, as at first.
  std::optional<std::chrono::nanoseconds> silent_for() const;

 private:
  using Ticks = std::chrono::steady_clock::rep;
  static constexpr Ticks kResting = std::chrono::steady_clock::duration::min().count();

  const StampClock& clock_;
  std::atomic<Ticks> last_{kResting};
};

// The values of a Service's health server. A family with nullopt has no server.
struct ServiceHealth {
  std::uint16_t port = 0;                       // healthCheckNodePort
  std::optional<std::uint32_t> ipv4_endpoints;  // ready ones on this node
  std::optional<std::uint32_t> ipv6_endpoints;
  // Addresses of the Service's load balancers, at which it is asked, too, wherever node ports are.
  std::set<netlink::IpAddress> load_balancers;

  friend bool operator==(const ServiceHealth&, const ServiceHealth&) = default;
};

// The addresses of node ports, and thereby of the Services' health servers; nullopt: all addresses
// of the family.
struct NodePortHealthAddresses {
  std::optional<std::set<netlink::IpAddress>> ipv4;
  std::optional<std::set<netlink::IpAddress>> ipv6;

  friend bool operator==(const NodePortHealthAddresses&, const NodePortHealthAddresses&) = default;
};

// Services whose health changed; nullopt: no health server any more.
struct ServiceHealthChanges {
  bool whole = false;  // Services that are not listed no longer have a health server
  std::map<api::NamespacedName, std::optional<ServiceHealth>> services;
  std::optional<NodePortHealthAddresses> addresses;  // nullopt: unchanged

  bool empty() const { return !whole && services.empty() && !addresses; }
  void merge(ServiceHealthChanges later);
};

struct StatusSettings {
  std::chrono::nanoseconds sync_period = std::chrono::seconds(30);
  // --healthz-max-watch-age; 0: no limit on the API server's absence.
  std::chrono::nanoseconds max_watch_age{0};
  // Called by publish() on its thread, to make another thread call take_service_health().
  std::function<void()> published;
};

struct FamilyHealth {
  std::chrono::system_clock::time_point last_updated;
  bool healthy = false;
  bool complete = false;  // there was a complete sync
  bool counts = true;     // for Health::families_healthy
};

struct Health {
  std::chrono::system_clock::time_point now;
  std::optional<FamilyHealth> ipv4;  // nullopt: the family never reported
  std::optional<FamilyHealth> ipv6;
  bool families_healthy = false;
  bool node_seen = false;  // the Node's eligibility was reported
  bool node_eligible = false;
  bool watches_fresh = false;

  bool ready() const { return families_healthy && node_eligible && watches_fresh; }
  // The later one of the families'; nullopt: none has reported.
  std::optional<std::chrono::system_clock::time_point> last_updated() const;
};

struct Liveness {
  bool main = false;
  bool sync = false;
};

class Status {
 public:
  explicit Status(StatusSettings settings = {}, StampClock clock = Stamp::now);
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;

  // --- the sync thread -------------------------------------------------------------------------
  void sync_loop_started(netlink::Family family);
  // A sync has taken all changes requested so far; its success settles them.
  void sync_began(netlink::Family family);
  // All changes requested before sync_began() are in the kernel.
  void sync_succeeded(netlink::Family family);
  void sync_failed(netlink::Family family);
  // Whether the family counts for families_healthy; false only while another one does.
  void count_family(netlink::Family family, bool counts);
  // Call after the kernel has the change.
  void publish(ServiceHealthChanges changes);
  // beat() when a run begins and before each operation on the kernel, rest() when it ends.
  Heartbeat& sync_heartbeat() { return sync_; }

  // --- the main thread -------------------------------------------------------------------------
  // There are changes for the sync thread. The first of several requests counts.
  void sync_requested(netlink::Family family);
  // The Node exists and is not about to be deleted. False until reported; after the Node's deletion
  // the last report stays.
  void set_node_eligible(bool eligible);
  // The server sent data on this watch: a response head, an event or a bookmark.
  void watch_heard(Resource resource);
  // Why this watch is failing; "" if it is not.
  void watch_failing(Resource resource, std::string cause);
  // Number of objects that are kept although the last list lacks them.
  void removal_held(Resource resource, std::size_t count);
  // What is wrong with one matter now ("manifests"), one line each; none: nothing any more.
  void set_wrong(const std::string& matter, std::vector<std::string> lines);
  // beat() at least every 10 s, from a deadline of its loop.
  Heartbeat& main_heartbeat() { return main_; }

  // --- the HTTP servers, and the thread that runs the Service health servers ---------------------
  Health health() const;
  Liveness liveness() const;
  // The health of the families only, as a Service health server reports it.
  bool families_healthy() const { return health().families_healthy; }
  // The changes published since the last call.
  ServiceHealthChanges take_service_health() { return service_health_.take(); }
  // Time since the last data, or since the start; nullopt: no data was ever received.
  std::optional<std::chrono::nanoseconds> watch_age(Resource resource) const;

  std::string watch_failure(Resource resource) const;
  std::size_t removal_held(Resource resource) const;
  // The lines of set_wrong(), by matter.
  std::vector<std::string> wrong() const;

  Stamp now() const { return clock_(); }

 private:
  struct Syncs {
    std::optional<Stamp> last_updated;  // nullopt: the sync loop has not started
    std::optional<Stamp> queued;        // oldest request that no sync has taken
    std::optional<Stamp> taken;         // oldest request that a sync has taken and not settled
    std::optional<Stamp> failing;       // oldest request of syncs that failed since a success
    bool complete = false;              // there was a complete sync
    bool counts = true;
  };

  Syncs& of(netlink::Family family) IPVSPROXIER_THREADS(requires_capability(mutex_));
  bool is_late(const std::optional<Stamp>& stamp, const Stamp& now) const;
  std::optional<FamilyHealth> health_of(netlink::Family family, const Stamp& now) const
      IPVSPROXIER_THREADS(requires_capability(mutex_));
  bool watches_fresh(const Stamp& now) const IPVSPROXIER_THREADS(requires_capability(mutex_));

  const StatusSettings settings_;
  const StampClock clock_;
  const Stamp started_;
  Heartbeat main_{clock_};
  Heartbeat sync_{clock_};
  loop::Mailbox<ServiceHealthChanges> service_health_;

  mutable loop::Mutex mutex_;
  Syncs ipv4_ IPVSPROXIER_THREADS(guarded_by(mutex_));
  Syncs ipv6_ IPVSPROXIER_THREADS(guarded_by(mutex_));
  std::optional<bool> node_eligible_ IPVSPROXIER_THREADS(guarded_by(mutex_));
  std::array<std::optional<Stamp>, kResources.size()> heard_
      IPVSPROXIER_THREADS(guarded_by(mutex_));
  std::array<std::string, kResources.size()> failing_ IPVSPROXIER_THREADS(guarded_by(mutex_));
  std::array<std::size_t, kResources.size()> held_ IPVSPROXIER_THREADS(guarded_by(mutex_)){};
  std::map<std::string, std::vector<std::string>> wrong_ IPVSPROXIER_THREADS(guarded_by(mutex_));
};

}  // namespace ipvsproxier::serve
