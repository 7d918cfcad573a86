#include "proxier/sync/drain.h"

#include <algorithm>
#include <iterator>

namespace ipvsproxier::sync {

void Drain::set_timeout(const netlink::VirtualServiceKey& service,
                        std::optional<std::chrono::milliseconds> timeout) {
  if (timeout)
    timeouts_.insert_or_assign(service, *timeout);
  else
    timeouts_.erase(service);
}

std::optional<std::chrono::milliseconds> Drain::timeout_of(
    const netlink::VirtualServiceKey& service, bool deleted) const {
  auto limit = times_.timeout;
  if (!limit && deleted) limit = times_.deleted;
  const auto own = timeouts_.find(service);
  if (own == timeouts_.end() || own->second.count() == 0) return limit;
  return limit ? std::min(*limit, own->second) : own->second;
}

void Drain::remember(const Entry& entry) {
  ++size_;
  if (entry.end) ends_.insert(*entry.end);
}

void Drain::forget(const Entry& entry) {
  --size_;
  if (entry.end) ends_.erase(ends_.find(*entry.end));
}

void Drain::set(const netlink::VirtualServiceKey& service,
                const plan::SortedVector<netlink::RealServerKey>& servers, bool deleted,
                TimePoint now) {
  const auto known = draining_.find(service);
  if (known == draining_.end() && servers.empty()) return;
  std::vector<Entry> entries;
  entries.reserve(servers.size());
  const auto none = Entries();
  const auto& before = known == draining_.end() ? none : known->second;
  const auto timeout = timeout_of(service, deleted);
  auto it = before.begin();
  for (const auto& server : servers) {
    for (; it != before.end() && it->server < server; ++it) forget(*it);
    Entry entry{.server = server, .since = now, .end = {}};
    if (it != before.end() && it->server == server) {
      entry.since = it->since;
      forget(*it++);
    } else if (const auto look = now + times_.first_look; !due_ || look < *due_) {
      due_ = look;
    }
    // Longer than any node runs; the sum of longer ones would overflow.
    constexpr std::chrono::hours kForEver{24 * 36'500};
    if (timeout && *timeout < kForEver) entry.end = entry.since + *timeout;
    remember(entry);
    entries.push_back(entry);
  }
  for (; it != before.end(); ++it) forget(*it);
  if (servers.empty())
    draining_.erase(known);
  else
    draining_.insert_or_assign(service, Entries(std::move(entries)));
  if (!draining_.empty()) return;
  due_.reset();
  pass_.reset();
}

void Drain::yield(TimePoint now) {
  yield_until_ = now + times_.grace;
}

std::optional<TimePoint> Drain::next() const {
  if (!due_) return std::nullopt;
  if (running()) return TimePoint::min();
  const auto when = std::max(*due_, std::min(yield_until_, *due_ + times_.late));
  // Servers that had timed out when the pass began are handled by that pass.
  const auto end = ends_.upper_bound(last_pass_);
  return end == ends_.end() ? when : std::min(when, *end);
}

Drain::Step Drain::step(netlink::IpvsTable& ipvs, TimePoint now, const HasRoom& has_room,
                        std::vector<Failure>& failures) {
  if (!running()) {
    pass_.emplace();
    last_pass_ = now;
    due_ = now + times_.between;
  }
  Step step;
  auto next = pass_->last ? draining_.upper_bound(*pass_->last) : draining_.begin();
  std::size_t looks = 0;
  for (std::size_t count = 0;
       count < kPassedAStep && looks < kServicesAStep && pass_->found.size() < kRemovalsAStep &&
       next != draining_.end() && !step.silent;
       ++count, ++next) {
    pass_->last = next->first;
    if (!has_room(next->first)) continue;
    ++looks;
    look(ipvs, next->first, next->second, now, step, failures);
  }
  auto& found = pass_->found;
  // Between two steps a server may have become desired again.
  std::erase_if(found, [this](const auto& server) { return !drains(server); });
  const auto count = std::min(found.size(), kRemovalsAStep);
  const auto rest = found.begin() + static_cast<std::ptrdiff_t>(count);
  step.removals.assign(found.begin(), rest);
  found.erase(found.begin(), rest);
  if (step.silent || (next == draining_.end() && found.empty())) pass_.reset();
  return step;
}

std::optional<Drain::Leaving> Drain::leaving(const netlink::VirtualServiceKey& service,
                                             const netlink::RealServerKey& server,
                                             TimePoint now) const {
  using std::chrono::milliseconds;
  const auto of_service = draining_.find(service);
  if (of_service == draining_.end()) return std::nullopt;
  const auto it = of_service->second.find(server);
  if (it == of_service->second.end()) return std::nullopt;
  Leaving leaving{.since = std::chrono::floor<milliseconds>(now - it->since), .left = {}};
  if (it->end)
    leaving.left = std::max(milliseconds(0), std::chrono::ceil<milliseconds>(*it->end - now));
  return leaving;
}

bool Drain::drains(const netlink::DeleteServer& server) const {
  const auto service = draining_.find(server.service);
  return service != draining_.end() && service->second.contains(server.server);
}

// Records the real servers of the virtual service that may be removed.
void Drain::look(netlink::IpvsTable& ipvs, const netlink::VirtualServiceKey& service,
                 const Entries& servers, TimePoint now, Step& step,
                 std::vector<Failure>& failures) {
  const auto listed = ipvs.list_servers(service);
  // The deletion of a virtual service by another program removed its real servers as well.
  const bool gone = !listed && listed.error().kind == netlink::ErrorKind::missing;
  step.surprise = step.surprise || gone;
  step.silent = !listed && listed.error().kind == netlink::ErrorKind::timeout;
  if (!listed && !gone)
    failures.push_back({"read the connections of " + to_string(service), listed.error()});
  std::set<netlink::RealServerKey> connected;
  if (listed)
    for (const auto& one : *listed)
      if (one.active_connections + one.inactive_connections > 0) connected.insert(one.server.key);
  for (const auto& [server, since, end] : servers) {
    const bool busy = listed ? connected.contains(server) : !gone;
    if (!busy || (end && now >= *end)) pass_->found.push_back({service, server});
  }
}

}  // namespace ipvsproxier::sync
