#include "proxier/sync/drain.h"

#include <algorithm>

namespace ipvsproxier::sync {

void Drain::set(const netlink::VirtualServiceKey& service,
                const std::set<netlink::RealServerKey>& servers, TimePoint now) {
  if (servers.empty()) {
    draining_.erase(service);
  } else {
    auto& since = draining_[service];
    std::erase_if(since, [&](const auto& entry) { return !servers.contains(entry.first); });
    for (const auto& server : servers) {
      if (!since.emplace(server, now).second) continue;
      const auto look = now + times_.first_look;
      if (!due_ || look < *due_) due_ = look;
    }
  }
  if (draining_.empty()) due_.reset();
}

void Drain::yield(TimePoint now) {
  yield_until_ = now + times_.grace;
}

std::optional<TimePoint> Drain::next() const {
  if (!due_) return std::nullopt;
  auto when = std::max(*due_, std::min(yield_until_, *due_ + times_.late));
  if (!times_.timeout) return when;
  for (const auto& [service, servers] : draining_)
    for (const auto& [server, since] : servers)
      if (const auto end = since + *times_.timeout; end > last_pass_) when = std::min(when, end);
  return when;
}

Drain::Pass Drain::collect(netlink::IpvsTable& ipvs, TimePoint now,
                           std::vector<Failure>& failures) {
  Pass pass;
  for (const auto& [service, servers] : draining_) {
    auto listed = ipvs.list_servers(service);
    // A virtual service that others deleted took its real servers along.
    const bool gone = !listed && listed.error().kind == netlink::ErrorKind::missing;
    pass.surprise = pass.surprise || gone;
    if (!listed && !gone)
      failures.push_back({"read the connections of " + to_string(service), listed.error()});
    for (const auto& entry : servers) {
      const auto& server = entry.first;
      bool busy = !gone;
      if (listed) {
        const auto it = std::find_if(listed->begin(), listed->end(),
                                     [&](const auto& one) { return one.server.key == server; });
        busy = it != listed->end() && it->active_connections + it->inactive_connections > 0;
      }
      if (!busy || over(entry.second, now))
        pass.removals.emplace_back(netlink::DeleteServer{service, server});
    }
  }
  last_pass_ = now;
  due_ = now + times_.between;
  return pass;
}

std::optional<Drain::Leaving> Drain::leaving(const netlink::VirtualServiceKey& service,
                                             const netlink::RealServerKey& server,
                                             TimePoint now) const {
  using std::chrono::milliseconds;
  const auto of_service = draining_.find(service);
  if (of_service == draining_.end()) return std::nullopt;
  const auto it = of_service->second.find(server);
  if (it == of_service->second.end()) return std::nullopt;
  Leaving leaving{.since = std::chrono::floor<milliseconds>(now - it->second), .left = {}};
  if (times_.timeout) leaving.left = std::max(milliseconds(0), *times_.timeout - leaving.since);
  return leaving;
}

std::size_t Drain::size() const {
  std::size_t count = 0;
  for (const auto& [service, servers] : draining_) count += servers.size();
  return count;
}

}  // namespace ipvsproxier::sync
