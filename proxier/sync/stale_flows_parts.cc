// StaleFlows: a look at many flows, which reads them in parts. Between the parts the kernel and
// what is planned may change, so each part is judged by the states of its moment; a virtual service
// whose state differs at the end from what it was at the beginning is looked at again.

#include <utility>

#include <fmt/format.h>

#include "netlink/conntrack/conntrack_listing.h"
#include "proxier/sync/stale_flows.h"

namespace ipvsproxier::sync {

using netlink::VirtualServiceKey;

std::optional<StaleFlows::View> StaleFlows::whole_view_of(const plan::DesiredState& desired,
                                                          const plan::ActualState& state,
                                                          const VirtualServiceKey& key,
                                                          const Note& note, Goals& goals,
                                                          WaysTo& ways) const {
  auto view = view_of(desired, state, key, goals);
  if (!view || !lost_too_many(note)) return view;
  if (ways.empty()) ways = ways_.goals();
  view->former = goals_of(desired, state, ways[key], goals);
  return view->former ? view : std::nullopt;
}

// False: there is nothing to look at, or it can be read at once. The other family's turn comes
// after the end of this look.
bool StaleFlows::begin_parts(const Look& look, netlink::ConntrackTable& conntrack) {
  if (look.empty() || conntrack.count().value_or(0) <= kFlowsAtOnce) return false;
  parts_ = Parts{.family = look.begin()->first.address.family(),
                 .protocols = {},
                 .offloaded = false,
                 .begun = false,
                 .services = {},
                 .purge = {},
                 .failed = {}};
  for (const auto& [key, view] : look) {
    if (key.address.family() != parts_->family) continue;
    parts_->services[key] = {view.fingerprint(), notes_.at(key).changes};
    parts_->protocols.insert(key.protocol);
  }
  return true;
}

std::vector<netlink::Flow> StaleFlows::stale_in(const std::vector<netlink::Flow>& flows,
                                                const plan::DesiredState& desired,
                                                const plan::ActualState& state) {
  Look look;
  Goals goals;
  WaysTo ways;
  std::vector<netlink::Flow> stale;
  for (const auto& flow : flows) {
    const auto key = sent_to(flow);
    if (!parts_->services.contains(key)) continue;
    if (!look.contains(key)) {
      auto view = whole_view_of(desired, state, key, notes_.at(key), goals, ways);
      if (!view) continue;  // its fingerprint differs at the end, too, or it is unknown then
      look.emplace(key, *std::move(view));
    }
    if (is_stale(flow, look)) stale.push_back(flow);
  }
  netlink::keep_each_once(stale);
  return stale;
}

void StaleFlows::take_part(netlink::ConntrackTable& conntrack, const plan::DesiredState& desired,
                           const plan::ActualState& state, TimePoint now, Purges& purges,
                           std::vector<Failure>& failures) {
  const auto begin = std::chrono::steady_clock::now();
  auto part = std::exchange(parts_->begun, true)
                  ? conntrack.next_list()
                  : conntrack.begin_list(parts_->family, parts_->protocols);
  auto& purge = parts_->purge;
  std::optional<netlink::Error> unlisted;
  if (part) {
    const auto stale = parts_->offloaded ? offloaded_in(std::move(part->flows), desired)
                                         : stale_in(part->flows, desired, state);
    const auto failed_before = failures.size();
    parts_->failed.merge(remove(conntrack, stale, purge.removed, failures));
    purge.failed += failures.size() - failed_before;
  } else {
    unlisted = part.error();
    ++purge.failed;
    if (!is_unreadable(*unlisted))
      failures.push_back(
          {fmt::format("list {} flows", netlink::to_string(parts_->family)), *unlisted});
  }
  purge.took += std::chrono::steady_clock::now() - begin;
  if (part && !part->last) return;
  purges[parts_->family] = purge;
  end_parts(unlisted, desired, state, now);
}

void StaleFlows::end_parts(const std::optional<netlink::Error>& unlisted,
                           const plan::DesiredState& desired, const plan::ActualState& state,
                           TimePoint now) {
  const auto parts = *std::exchange(parts_, std::nullopt);
  if (parts.offloaded) return end_offloaded(parts.family, now);
  if (unlisted && is_unreadable(*unlisted)) return not_readable(*unlisted, now);
  const Found found{.unlisted = unlisted, .more = false, .failed = parts.failed};
  Goals goals;
  WaysTo ways;
  for (const auto& [key, begun] : parts.services) {
    auto& note = notes_.at(key);
    if (note.changes != begun.changes) continue;  // it is due
    const auto view = whole_view_of(desired, state, key, note, goals, ways);
    if (!view || view->fingerprint() != begun.fingerprint)
      postpone(note, now);
    else
      end_look(key, *view, found, now);
  }
  if (unlisted) return;
  unreadable_.reset();
  unreadable_tries_ = 0;
}

}  // namespace ipvsproxier::sync
