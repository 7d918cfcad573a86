#include "proxier/serve/status.h"

#include <algorithm>

namespace ipvsproxier::serve {

namespace {

constexpr std::chrono::minutes kShortestStuck{1};

std::optional<Stamp> older(const std::optional<Stamp>& a, const std::optional<Stamp>& b) {
  if (!a || !b) return a ? a : b;
  return b->steady < a->steady ? b : a;
}

}  // namespace

std::string_view to_string(Resource resource) {
  switch (resource) {
    case Resource::services:
      return "services";
    case Resource::endpoint_slices:
      return "endpointslices";
    case Resource::nodes:
      return "nodes";
  }
  return "";
}

void Heartbeat::beat() {
  last_.store(clock_().steady.time_since_epoch().count(), std::memory_order_relaxed);
}

void Heartbeat::rest() {
  last_.store(kResting, std::memory_order_relaxed);
}

std::optional<std::chrono::nanoseconds> Heartbeat::silent_for() const {
  const Ticks last = last_.load(std::memory_order_relaxed);
  if (last == kResting) return std::nullopt;
  return clock_().steady.time_since_epoch() - std::chrono::steady_clock::duration(last);
}

void ServiceHealthChanges::merge(ServiceHealthChanges later) {
  if (later.addresses) addresses = std::move(later.addresses);
  if (later.whole) {
    whole = true;
    services = std::move(later.services);
    return;
  }
  for (auto& [name, health] : later.services) services.insert_or_assign(name, health);
}

std::optional<std::chrono::system_clock::time_point> Health::last_updated() const {
  if (!ipv4 || !ipv6) {
    const auto& only = ipv4 ? ipv4 : ipv6;
    return only ? std::optional(only->last_updated) : std::nullopt;
  }
  return std::max(ipv4->last_updated, ipv6->last_updated);
}

Status::Status(StatusSettings settings, StampClock clock)
    : settings_(std::move(settings)), clock_(std::move(clock)), started_(clock_()) {}

Status::Syncs& Status::of(netlink::Family family) {
  return family == netlink::Family::ipv4 ? ipv4_ : ipv6_;
}

void Status::sync_loop_started(netlink::Family family) {
  const auto now = clock_();
  const loop::MutexLock lock(mutex_);
  of(family).last_updated = now;
}

void Status::sync_began(netlink::Family family) {
  const loop::MutexLock lock(mutex_);
  auto& syncs = of(family);
  syncs.taken = older(syncs.taken, std::exchange(syncs.queued, std::nullopt));
}

void Status::sync_succeeded(netlink::Family family) {
  const auto now = clock_();
  const loop::MutexLock lock(mutex_);
  auto& syncs = of(family);
  syncs.last_updated = now;
  syncs.taken.reset();
  syncs.failing.reset();
  syncs.complete = true;
}

void Status::sync_failed(netlink::Family family) {
  const auto now = clock_();
  const loop::MutexLock lock(mutex_);
  auto& syncs = of(family);
  if (!syncs.taken) syncs.taken = now;
  syncs.failing = older(syncs.failing, syncs.taken);
}

void Status::count_family(netlink::Family family, bool counts) {
  const loop::MutexLock lock(mutex_);
  of(family).counts = counts;
}

void Status::publish(ServiceHealthChanges changes) {
  if (changes.empty()) return;
  service_health_.put(std::move(changes));
  if (settings_.published) settings_.published();
}

void Status::sync_requested(netlink::Family family) {
  const auto now = clock_();
  const loop::MutexLock lock(mutex_);
  auto& syncs = of(family);
  if (!syncs.queued) syncs.queued = now;
}

void Status::set_node_eligible(bool eligible) {
  const loop::MutexLock lock(mutex_);
  node_eligible_ = eligible;
}

void Status::watch_heard(Resource resource) {
  const auto now = clock_();
  const loop::MutexLock lock(mutex_);
  heard_.at(static_cast<std::size_t>(resource)) = now;
}

void Status::watch_failing(Resource resource, std::string cause) {
  const loop::MutexLock lock(mutex_);
  failing_.at(static_cast<std::size_t>(resource)) = std::move(cause);
}

std::string Status::watch_failure(Resource resource) const {
  const loop::MutexLock lock(mutex_);
  return failing_.at(static_cast<std::size_t>(resource));
}

void Status::removal_held(Resource resource, std::size_t count) {
  const loop::MutexLock lock(mutex_);
  held_.at(static_cast<std::size_t>(resource)) = count;
}

std::size_t Status::removal_held(Resource resource) const {
  const loop::MutexLock lock(mutex_);
  return held_.at(static_cast<std::size_t>(resource));
}

void Status::set_wrong(const std::string& matter, std::vector<std::string> lines) {
  const loop::MutexLock lock(mutex_);
  if (lines.empty())
    wrong_.erase(matter);
  else
    wrong_.insert_or_assign(matter, std::move(lines));
}

std::vector<std::string> Status::wrong() const {
  const loop::MutexLock lock(mutex_);
  std::vector<std::string> all;
  for (const auto& [matter, lines] : wrong_) all.insert(all.end(), lines.begin(), lines.end());
  return all;
}

bool Status::is_late(const std::optional<Stamp>& stamp, const Stamp& now) const {
  return stamp && now.steady - stamp->steady >= 2 * settings_.sync_period;
}

std::optional<FamilyHealth> Status::health_of(netlink::Family family, const Stamp& now) const {
  const auto& syncs = family == netlink::Family::ipv4 ? ipv4_ : ipv6_;
  if (!syncs.last_updated) return std::nullopt;
  const auto silent = sync_.silent_for();
  const bool advances = silent && *silent < 2 * settings_.sync_period;
  const bool late =
      is_late(syncs.failing, now) || (!advances && is_late(older(syncs.queued, syncs.taken), now));
  return FamilyHealth{.last_updated = syncs.last_updated->wall,
                      .healthy = syncs.complete && !late,
                      .complete = syncs.complete,
                      .counts = syncs.counts};
}

bool Status::watches_fresh(const Stamp& now) const {
  if (settings_.max_watch_age <= std::chrono::nanoseconds(0)) return true;
  return std::all_of(heard_.begin(), heard_.end(), [&](const auto& heard) {
    return now.steady - heard.value_or(started_).steady <= settings_.max_watch_age;
  });
}

Health Status::health() const {
  const auto now = clock_();
  const loop::MutexLock lock(mutex_);
  Health health{.now = now.wall,
                .ipv4 = health_of(netlink::Family::ipv4, now),
                .ipv6 = health_of(netlink::Family::ipv6, now),
                .node_seen = node_eligible_.has_value(),
                .node_eligible = node_eligible_.value_or(false),
                .watches_fresh = watches_fresh(now)};
  const auto well = [](const std::optional<FamilyHealth>& family) {
    return !family || family->healthy || !family->counts;
  };
  health.families_healthy = (health.ipv4 || health.ipv6) && well(health.ipv4) && well(health.ipv6);
  return health;
}

Liveness Status::liveness() const {
  const auto stuck = std::max<std::chrono::nanoseconds>(2 * settings_.sync_period, kShortestStuck);
  const auto moves = [&](const Heartbeat& heartbeat) {
    return heartbeat.silent_for().value_or(std::chrono::nanoseconds(0)) < stuck;
  };
  return {.main = moves(main_), .sync = moves(sync_)};
}

std::optional<std::chrono::nanoseconds> Status::watch_age(Resource resource) const {
  const auto now = clock_();
  const loop::MutexLock lock(mutex_);
  const auto& heard = heard_.at(static_cast<std::size_t>(resource));
  if (!heard) return std::nullopt;
  return now.steady - heard->steady;
}

}  // namespace ipvsproxier::serve
