#pragma once

// StaleFlows: flows that the kernel still tracks to a real server that their virtual service no
// longer has. Such a flow would lead nowhere as long as its client sends. They are those of UDP,
// and of virtual services whose in-cluster clients are sent to another one (plan/in_cluster.h)
// those of every protocol: IPVS does not see the packets of such a client behind the first one, so
// it does not cut his connection when the drained real server goes. Sync thread only.
//
// A flow is stale if it goes to exactly the address, protocol and port of a virtual service of ours
// - that exists and has real servers, none of which is the one that answers, or
// - whose answering real server this process removed.
// A virtual service whose in-cluster clients are sent to another one has the real servers of both
// here, and a removal from the other one counts for it; also after nobody is sent on any more, as
// the connections of those who were go on.
// All other flows are left alone; so are, for now, flows answered by a real server that is desired
// but not known to be in the kernel (its addition was refused, or the answer lost).

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "proxier/loop/backoff.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/desired_state.h"
#include "proxier/plan/in_cluster.h"
#include "proxier/plan/transaction.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

// The result of one look at the flows of a family.
struct Purge {
  std::size_t removed = 0;
  std::size_t failed = 0;  // listings and removals
  std::chrono::steady_clock::duration took{};
};

class StaleFlows {
 public:
  // Flows in one look; if there are more, another look follows.
  static constexpr std::size_t kFlowsALook = 16'384;
  // Limit of removed real servers that are remembered. Beyond it, flows stay unless another reason
  // shows that they are stale.
  static constexpr std::size_t kServersRemembered = 16'384;

  // Virtual services that once sent in-cluster clients on and are remembered.
  static constexpr std::size_t kWaysRemembered = 16'384;

  // Records the virtual services that this transaction will change; `before` is the state before
  // it.
  void note(const plan::Transaction& transaction, const plan::ActualState& before);
  // Records all our virtual services, the first time that they are known: an earlier process may
  // have left flows.
  void note_left(const plan::DesiredState& desired, const plan::ActualState& state);

  std::optional<TimePoint> next() const;

  // Removes the stale flows of the recorded virtual services; `state` is the current kernel state.
  // Returns results for the families with such flows. Failures are retried with growing pauses, and
  // so are virtual services whose real servers are not known for certain.
  std::map<netlink::Family, Purge> purge(netlink::ConntrackTable& conntrack,
                                         const plan::DesiredState& desired,
                                         const plan::ActualState& state, TimePoint now,
                                         std::vector<Failure>& failures);

  // Why stale flows stay: the kernel cannot list flows, or denies it. Retried with growing pauses;
  // not a failure of purge().
  const std::optional<Failure>& unreadable() const { return unreadable_; }

 private:
  using Servers = std::set<netlink::RealServerKey>;

  // The state of a virtual service when its flows are looked at.
  struct View {
    Servers has;
    Servers unsure;  // may or may not be in the kernel: their flows are left alone

    friend bool operator==(const View&, const View&) = default;
  };
  // A virtual service whose flows must be looked at.
  struct Note {
    Servers gone;              // removed by this process
    std::optional<View> seen;  // state at the last look, if no server was removed since
    unsigned tries = 0;
    TimePoint due{};
  };
  using Notes = std::map<netlink::VirtualServiceKey, Note>;
  using Look = std::map<netlink::VirtualServiceKey, View>;
  struct Found {
    std::optional<netlink::Error> unlisted;  // why the flows could not be listed
    bool more = false;                       // more flows than one look handles
    std::set<netlink::VirtualServiceKey> failed;
  };

  // False: nothing is known of its real servers.
  static bool add_servers(const plan::DesiredState& desired, const plan::ActualState& state,
                          const netlink::VirtualServiceKey& key, View& view);
  static std::optional<View> view_of(const plan::DesiredState& desired,
                                     const plan::ActualState& state,
                                     const netlink::VirtualServiceKey& key);
  void remember(Note& note, const netlink::RealServerKey& gone);
  void remember_ways(const plan::Transaction& transaction, const plan::ActualState& before);
  plan::InClusterWays ways_in(const plan::ActualState& before) const;
  Notes::iterator forget(Notes::iterator note);
  void postpone(Note& note, TimePoint now) const;
  Look begin_look(const plan::DesiredState& desired, const plan::ActualState& state, TimePoint now);
  bool is_stale(const netlink::Flow& flow, const Look& look) const;
  static Found remove_found(netlink::ConntrackTable& conntrack, const netlink::FlowQuery& query,
                            std::size_t& removed, std::vector<Failure>& failures);
  void end_look(const Look& look, const netlink::FlowQuery& query, const Found& found,
                TimePoint now);
  void not_readable(netlink::Error error, TimePoint now);

  Notes notes_;
  // Where a virtual service sent in-cluster clients that does so no longer.
  std::map<netlink::VirtualServiceKey, netlink::VirtualServiceKey> former_ways_;
  bool left_noted_ = false;
  std::size_t remembered_ = 0;  // real servers, in all notes
  loop::Backoff backoff_;
  std::optional<Failure> unreadable_;
  unsigned unreadable_tries_ = 0;
  TimePoint readable_due_{};
};

}  // namespace ipvsproxier::sync
