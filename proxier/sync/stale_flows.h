#pragma once

// StaleFlows: UDP flows that the kernel still tracks to a real server that their virtual service
// no longer has. Such a flow would go on to nowhere for as long as its client sends. Sync thread
// only.
//
// Stale is a flow to exactly the address, protocol and port of a virtual service
// - whose virtual service exists, has real servers, and the one that answers is none of them, or
// - that was answered by a real server which this process took away.
// Everything else is left alone.

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "proxier/loop/backoff.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/transaction.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

// What one look at the flows of a family did.
struct Purge {
  std::size_t removed = 0;
  std::size_t failed = 0;  // listings and removals
  std::chrono::steady_clock::duration took{};
};

class StaleFlows {
 public:
  // Notes the virtual services that this transaction will change, as `before` it.
  void note(const plan::Transaction& transaction, const plan::ActualState& before);
  // After a start: all of them are to be checked. False while they are not known.
  bool note_all(const plan::ActualState& state);

  std::optional<TimePoint> next() const;

  // Removes the stale flows of the virtual services noted, now that the kernel is in `state`.
  // Answers what was done in families that have some. What fails is kept and tried again later, and
  // so are the virtual services that are not known for sure: their real servers could not be read,
  // or they are `unsettled`.
  std::map<netlink::Family, Purge> purge(netlink::ConntrackTable& conntrack,
                                         const plan::ActualState& state,
                                         const plan::ServiceKeySet& unsettled, TimePoint now,
                                         std::vector<Failure>& failures);

 private:
  // Few virtual services are asked for one by one, many by one listing of all UDP flows.
  static constexpr std::size_t kAskOneByOne = 4;

  using Servers = std::set<netlink::RealServerKey>;  // taken away
  using Noted = std::map<netlink::VirtualServiceKey, Servers>;

  bool has(netlink::Family family) const;
  std::size_t purge(netlink::ConntrackTable& conntrack, netlink::Family family,
                    const plan::ActualState& state, std::vector<Failure>& failures) const;
  bool is_stale(const netlink::UdpFlow& flow, const plan::ActualState& state) const;
  netlink::Result<std::vector<netlink::UdpFlow>> list(netlink::ConntrackTable& conntrack,
                                                      netlink::Family family) const;
  Noted take_unsure(const plan::ActualState& state, const plan::ServiceKeySet& unsettled);
  void postpone(TimePoint now);

  Noted noted_;
  loop::Backoff backoff_;
  unsigned failed_ = 0;
  TimePoint due_{};
};

}  // namespace ipvsproxier::sync
