#pragma once

// StaleFlows: UDP flows that the kernel still tracks to a real server that their virtual service
// no longer has. Such a flow would go on to nowhere for as long as its client sends. Sync thread
// only.
//
// Stale is a flow to exactly the address, protocol and port of a virtual service of ours
// - whose virtual service exists, has real servers, and the one that answers is none of them, or
// - that was answered by a real server which this process took away.
// Everything else is left alone; for now also what is answered by a real server that is wanted and
// not there, as far as is known: its addition was refused, or the answer lost.

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "proxier/loop/backoff.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/desired_state.h"
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
  // Of one look: where there are more, another follows.
  static constexpr std::size_t kFlowsALook = 16'384;
  // Real servers that were taken away and are remembered; of more the flows stay where nothing else
  // tells that they are stale.
  static constexpr std::size_t kServersRemembered = 16'384;

  // Notes the virtual services that this transaction will change, as `before` it.
  void note(const plan::Transaction& transaction, const plan::ActualState& before);
  // After a start: all of ours are to be checked. False while they are not known.
  bool note_all(const plan::DesiredState& desired, const plan::ActualState& state);

  std::optional<TimePoint> next() const;

  // Removes the stale flows of the virtual services noted, now that the kernel is in `state`.
  // Answers what was done in families that have some. What fails is tried again with growing
  // pauses, and so is the rest of a virtual service whose real servers are not known for sure.
  std::map<netlink::Family, Purge> purge(netlink::ConntrackTable& conntrack,
                                         const plan::DesiredState& desired,
                                         const plan::ActualState& state, TimePoint now,
                                         std::vector<Failure>& failures);

  // Why stale flows stay: the kernel cannot list flows, or does not let us. It is asked again with
  // growing pauses; this is no failure of purge().
  const std::optional<Failure>& unreadable() const { return unreadable_; }

 private:
  using Servers = std::set<netlink::RealServerKey>;

  // How a virtual service is when its flows are looked at.
  struct View {
    Servers unsure;       // left out: they may be in the kernel, or not
    bool serves = false;  // it has real servers

    friend bool operator==(const View&, const View&) = default;
  };
  // A virtual service whose flows are to be looked at.
  struct Note {
    Servers gone;              // taken away by this process
    std::optional<View> seen;  // by the last look, since when nothing was taken away
    unsigned tries = 0;
    TimePoint due{};
  };
  using Notes = std::map<netlink::VirtualServiceKey, Note>;
  using Look = std::map<netlink::VirtualServiceKey, View>;
  struct Found {
    std::optional<netlink::Error> unlisted;  // why they could not be listed
    bool more = false;                       // than one look takes
    std::set<netlink::VirtualServiceKey> failed;
  };

  static std::optional<View> view_of(const plan::DesiredState& desired,
                                     const plan::ActualState& state,
                                     const netlink::VirtualServiceKey& key);
  void remember(Note& note, const netlink::RealServerKey& gone);
  Notes::iterator forget(Notes::iterator note);
  void postpone(Note& note, TimePoint now) const;
  Look begin_look(const plan::DesiredState& desired, const plan::ActualState& state, TimePoint now);
  bool is_stale(const netlink::UdpFlow& flow, const Look& look,
                const plan::ActualState& state) const;
  static Found remove_found(netlink::ConntrackTable& conntrack, const netlink::FlowQuery& query,
                            std::size_t& removed, std::vector<Failure>& failures);
  void end_look(const Look& look, netlink::Family family, const Found& found, TimePoint now);
  void not_readable(netlink::Error error, TimePoint now);

  Notes notes_;
  std::size_t remembered_ = 0;  // real servers, in all notes
  loop::Backoff backoff_;
  std::optional<Failure> unreadable_;
  unsigned unreadable_tries_ = 0;
  TimePoint readable_due_{};
};

}  // namespace ipvsproxier::sync
