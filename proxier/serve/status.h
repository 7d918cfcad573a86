#pragma once

// Status: what the main and the sync thread publish about themselves, and what /healthz, /livez and
// the Service health servers read. Every function may be called on any thread and is short; the
// comments say whose business each is. Knows nothing of how syncing or watching is done.
//
// Health, per family: a change that was asked for is either in the kernel or it is not. The stamp
// of the oldest one that is not is kept; a family whose stamp is 2 x sync period old is unhealthy,
// and so is one that has had no complete sync yet. A sync that failed counts as a change that is
// asked for, so that an unhealthy kernel shows without one. What the kernel refuses for what it is
// is no failure of a sync, unless that is much (sync/refusals.h). That the API server is away is no
// reason, unless a largest age of the watches is given.
//
// Liveness, per thread: a thread that began an operation and has not ended it for 2 x sync period
// (at least a minute) is stuck.

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

#include "netlink/ip_address.h"
#include "proxier/api/names.h"
#include "proxier/loop/mailbox.h"

namespace ipvsproxier::serve {

// One moment on two clocks: ages come from the steady one, what people read from the other.
struct Stamp {
  std::chrono::system_clock::time_point wall;
  std::chrono::steady_clock::time_point steady;

  static Stamp now() {
    return {std::chrono::system_clock::now(), std::chrono::steady_clock::now()};
  }
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

// Must answer on any thread.
using StampClock = std::function<Stamp()>;

enum class Resource : std::uint8_t { services, endpoint_slices, nodes };

inline constexpr std::array<Resource, 3> kResources = {Resource::services,
                                                       Resource::endpoint_slices, Resource::nodes};

std::string_view to_string(Resource resource);  // "services", "endpointslices", "nodes"

// Of one thread. It beats whenever it begins an operation, and rests while it waits for work that
// need not come.
class Heartbeat {
 public:
  explicit Heartbeat(const StampClock& clock) : clock_(clock) {}

  void beat();
  void rest();
  // How long ago it beat; nullopt while it rests, which it does at first.
  std::optional<std::chrono::nanoseconds> silent_for() const;

 private:
  using Ticks = std::chrono::steady_clock::rep;
  static constexpr Ticks kResting = std::chrono::steady_clock::duration::min().count();

  const StampClock& clock_;
  std::atomic<Ticks> last_{kResting};
};

// What a Service's health server answers. Per family: nullopt has no server.
struct ServiceHealth {
  std::uint16_t port = 0;                       // healthCheckNodePort
  std::optional<std::uint32_t> ipv4_endpoints;  // ready ones on this node
  std::optional<std::uint32_t> ipv6_endpoints;

  friend bool operator==(const ServiceHealth&, const ServiceHealth&) = default;
};

// Where node ports are, and with them the health servers of Services: nullopt is every address of
// the family.
struct NodePortHealthAddresses {
  std::optional<std::set<netlink::IpAddress>> ipv4;
  std::optional<std::set<netlink::IpAddress>> ipv6;

  friend bool operator==(const NodePortHealthAddresses&, const NodePortHealthAddresses&) = default;
};

// Services whose health changed; nullopt: it has no health server any more.
struct ServiceHealthChanges {
  bool whole = false;  // what is not named has no health server any more
  std::map<api::NamespacedName, std::optional<ServiceHealth>> services;
  std::optional<NodePortHealthAddresses> addresses;  // nullopt: as before

  bool empty() const { return !whole && services.empty() && !addresses; }
  void merge(ServiceHealthChanges later);
};

struct StatusSettings {
  std::chrono::nanoseconds sync_period = std::chrono::seconds(30);
  // --healthz-max-watch-age; 0: the API server may be away for as long as it likes.
  std::chrono::nanoseconds max_watch_age{0};
  // Called by publish(), on its thread: to tell another thread to take_service_health().
  std::function<void()> published;
};

struct FamilyHealth {
  std::chrono::system_clock::time_point last_updated;
  bool healthy = false;
  bool complete = false;  // there was a complete sync
};

struct Health {
  std::chrono::system_clock::time_point now;
  std::optional<FamilyHealth> ipv4;  // nullopt: the family never reported
  std::optional<FamilyHealth> ipv6;
  bool families_healthy = false;
  bool node_seen = false;  // it was told whether the Node is eligible
  bool node_eligible = false;
  bool watches_fresh = false;

  bool ready() const { return families_healthy && node_eligible && watches_fresh; }
  // Of the families; nullopt: none reported.
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
  // Changes were taken and are about to be written: success settles what was asked for before.
  void sync_began(netlink::Family family);
  // What was asked for before sync_began() is in the kernel, all of it.
  void sync_succeeded(netlink::Family family);
  void sync_failed(netlink::Family family);
  // After the kernel has it.
  void publish(ServiceHealthChanges changes);
  // beat() when a run begins and before each operation on the kernel, rest() when it ends.
  Heartbeat& sync_heartbeat() { return sync_; }

  // --- the main thread -------------------------------------------------------------------------
  // There are changes for the sync thread. Only the first of several counts.
  void sync_requested(netlink::Family family);
  // The Node is known and is not about to be deleted. False until told; a Node that is gone keeps
  // what was told last.
  void set_node_eligible(bool eligible);
  // The server said something on this watch: its answer's head, an event, a bookmark.
  void watch_heard(Resource resource);
  // Why this watch does not go on as it should, "" while it does.
  void watch_failing(Resource resource, std::string cause);
  // How many objects stay though the last list lacks them.
  void removal_held(Resource resource, std::size_t count);
  // beat() at least every 10 s, from a deadline of its loop.
  Heartbeat& main_heartbeat() { return main_; }

  // --- the servers, and the thread that keeps the Service health servers -------------------------
  Health health() const;
  Liveness liveness() const;
  // healthy() of the families alone: what a Service health server says of the proxy.
  bool families_healthy() const { return health().families_healthy; }
  // What was published since the last call.
  ServiceHealthChanges take_service_health() { return service_health_.take(); }
  // Since the server was last heard, or since the start; nullopt: the resource was never heard.
  std::optional<std::chrono::nanoseconds> watch_age(Resource resource) const;

  std::string watch_failure(Resource resource) const;
  std::size_t removal_held(Resource resource) const;

  Stamp now() const { return clock_(); }

 private:
  struct Syncs {
    std::optional<Stamp> last_updated;  // nullopt: its loop has not started
    std::optional<Stamp> queued;        // the oldest request that no sync has taken up
    std::optional<Stamp> taken;         // the oldest one that a sync has, and has not settled
    bool complete = false;              // there was a complete sync
  };

  Syncs& of(netlink::Family family) IPVSPROXIER_THREADS(requires_capability(mutex_));
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
};

}  // namespace ipvsproxier::serve
