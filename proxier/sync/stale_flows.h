#pragma once

// StaleFlows: flows that the kernel still tracks to a real server that their virtual service no
// longer has. Such a flow would lead nowhere as long as its client sends. They are those of UDP,
// and of virtual services whose in-cluster clients are sent to another one (plan/in_cluster.h)
// those of every protocol: IPVS does not see the packets of such a client behind the first one, so
// it does not cut his connection when the drained real server goes. Sync thread only.
//
// A flow is stale if it goes to exactly the address, protocol and port of a virtual service of ours
// - that exists and has real servers, none of which is the one that answers, or
// - whose answering real server this process removed. Of a virtual service that loses more of them
//   than are remembered, every real server counts as removed that neither it nor one that its
//   in-cluster clients are, or were, sent to has or is to have; but not the address itself.
// A virtual service whose in-cluster clients are sent to another one has the real servers of both
// here, and a removal from the other one counts for it, also when they are sent there no longer.
// That is known of ways that the kernel had when this process began, and of later ones.
//
// Early flows are stale as well, of every protocol: those to a virtual service that was added, or
// whose address was bound, after their first packet. Nobody answered them, and conntrack expects
// the answer of the virtual service's own address. IPVS does not translate what is tracked
// already, so each packet that the client repeats keeps such a flow and leads nowhere if its source
// was masqueraded (ip_vs_update_conntrack(), ip_vs_nfct.c; 6.1). No packet can make one once the
// address is bound, so a look of its own clears them.
//
// Where a flowtable of others forwards connections (ipset/nft/flow_rules.h), those to our virtual
// services that it has are removed as well when note_offloaded() says so: the next packet of the
// client makes the connection anew, and IPVS, which knows it, translates it. A connection that was
// silent then may get into the flowtable with its next packet, so two looks follow.
//
// Where the kernel tracks many flows a look reads them in parts, between which other work is done
// (stale_flows_parts.cc). What changed in the meantime is looked at again.
//
// All other flows are left alone; so are, for now, flows answered by a real server that is desired
// but not known to be in the kernel (its addition was refused, or the answer lost).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "netlink/containers/sorted_vector.h"
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
  // More flows are read in parts.
  static constexpr std::size_t kFlowsAtOnce = 16'384;
  // Virtual services in one look, likewise.
  static constexpr std::size_t kServicesALook = 65'536;
  // Limit of removed real servers that are remembered. Beyond it each virtual service has its share
  // of them, one at least; of one with more none is remembered (Gone::too_many).
  static constexpr std::size_t kServersRemembered = 16'384;

  // `early`: whether early flows are cleared.
  explicit StaleFlows(bool early = true) : early_(early) {}

  // Records the virtual services that this transaction will change; `before` is the state before
  // it.
  void note(const plan::Transaction& transaction, const plan::ActualState& before);
  // Records all our virtual services of UDP, the first time that they are known: an earlier process
  // may have left flows. Connections of other protocols that it made end by themselves.
  void note_left(const plan::DesiredState& desired, const plan::ActualState& state);

  // Rules keep the connections of virtual services of this family out of flowtables from now on.
  void note_offloaded(netlink::Family family, TimePoint now);
  static constexpr std::size_t kOffloadedLooks = 3;
  static constexpr std::chrono::seconds kAfterOffloadedLook{10};  // ten times as long each time

  std::optional<TimePoint> next() const;
  // A look has parts left: purge() goes on with the next one.
  bool running() const { return parts_.has_value(); }

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

  // Removed real servers that are remembered now.
  std::size_t remembered() const { return remembered_; }

 private:
  // The real servers of a virtual service when flows are looked at; valid until either state
  // changes.
  struct Servers {
    // Those in the kernel, and the planned ones; nullptr: none.
    const plan::RealServers* present = nullptr;
    const netlink::SortedVector<netlink::RealServerKey>* planned = nullptr;
    bool sure = true;               // both are the same
    std::uint64_t fingerprint = 0;  // of both

    bool any() const { return present && !present->empty(); }
    // Whether it may be in the kernel: a failed operation may have happened.
    bool may_have(const netlink::RealServerKey& server) const {
      return (present && present->contains(server)) || (planned && planned->contains(server));
    }
  };
  // Those of a virtual service and of the one that its in-cluster clients are sent to.
  struct View {
    Servers own;
    Servers goal;
    // Of those to which they were sent before, if what is gone is not known one by one.
    std::optional<std::vector<Servers>> former;

    bool sure() const { return own.sure && goal.sure; }
    std::uint64_t fingerprint() const { return own.fingerprint * 31 + goal.fingerprint; }
  };
  using Goals = std::map<netlink::VirtualServiceKey, std::optional<Servers>>;
  // The ways of all virtual services that were sent on; made if needed.
  using WaysTo = std::map<netlink::VirtualServiceKey, std::vector<netlink::VirtualServiceKey>>;
  // Real servers that this process removed from a virtual service. They are kept once, for its own
  // flows and for those by all ways to it.
  struct Gone {
    std::set<netlink::RealServerKey> servers;
    bool too_many = false;  // to be remembered
    std::size_t notes = 0;  // that name this virtual service
    bool certain = false;   // at the last look: it neither has any of them nor is to have it
  };
  // A virtual service whose flows must be looked at.
  struct Note {
    std::set<netlink::VirtualServiceKey> gone_from;  // keys of `gone_`
    bool early = false;                              // early flows are stale
    // Of the view at the last look, if no server was removed since.
    std::optional<std::uint64_t> seen;
    unsigned tries = 0;
    unsigned changes = 0;  // noted so often
    TimePoint due{};
  };
  using Notes = std::map<netlink::VirtualServiceKey, Note>;
  using Look = std::map<netlink::VirtualServiceKey, View>;
  struct Found {
    std::optional<netlink::Error> unlisted;  // why the flows could not be listed
    bool more = false;                       // more flows than one look handles
    std::set<netlink::VirtualServiceKey> failed;
  };

  // A look in parts at the flows of a family.
  struct Parts {
    struct Begun {
      std::uint64_t fingerprint = 0;  // of the view
      unsigned changes = 0;           // of the note
    };
    netlink::Family family;
    std::set<netlink::Protocol> protocols;
    bool offloaded = false;  // it is a look at what a flowtable of others has
    bool begun = false;      // the first part was read
    std::map<netlink::VirtualServiceKey, Begun> services;
    Purge purge;
    std::set<netlink::VirtualServiceKey> failed;
  };

  // Whether the kernel cannot list flows at all.
  static bool is_unreadable(const netlink::Error& error);
  // nullopt: nothing is known of its real servers.
  static std::optional<Servers> servers_of(const plan::DesiredState& desired,
                                           const plan::ActualState& state,
                                           const netlink::VirtualServiceKey& key);
  static std::optional<View> view_of(const plan::DesiredState& desired,
                                     const plan::ActualState& state,
                                     const netlink::VirtualServiceKey& key, Goals& goals);
  static const std::optional<Servers>& goal_of(const plan::DesiredState& desired,
                                               const plan::ActualState& state,
                                               const netlink::VirtualServiceKey& key, Goals& goals);
  static std::optional<std::vector<Servers>> goals_of(
      const plan::DesiredState& desired, const plan::ActualState& state,
      const std::vector<netlink::VirtualServiceKey>& keys, Goals& goals);
  void remember(const netlink::VirtualServiceKey& service, const netlink::RealServerKey& gone);
  void note(const netlink::VirtualServiceKey& key, bool lost,
            const netlink::VirtualServiceKey& from);
  void note_early(const netlink::VirtualServiceKey& key);
  void note_bound(const plan::Transaction& transaction, const plan::ActualState& before);
  void release(const netlink::VirtualServiceKey& service);
  void release_gone(Note& note);
  Notes::iterator forget(Notes::iterator note);
  void take_back(const plan::DesiredState& desired, const plan::ActualState& state);
  void postpone(Note& note, TimePoint now) const;
  bool lost_too_many(const Note& note) const;
  Look begin_look(const plan::DesiredState& desired, const plan::ActualState& state, TimePoint now);
  bool is_stale(const netlink::Flow& flow, const Look& look) const;
  static netlink::VirtualServiceKey sent_to(const netlink::Flow& flow) {
    return {flow.destination.address, flow.protocol, flow.destination.port};
  }
  // Returns the virtual services of flows that could not be removed.
  static std::set<netlink::VirtualServiceKey> remove(netlink::ConntrackTable& conntrack,
                                                     const std::vector<netlink::Flow>& flows,
                                                     std::size_t& removed,
                                                     std::vector<Failure>& failures);
  static Found remove_found(netlink::ConntrackTable& conntrack, const netlink::FlowQuery& query,
                            std::size_t& removed, std::vector<Failure>& failures);
  void end_look(const netlink::VirtualServiceKey& key, const View& seen, const Found& found,
                TimePoint now);
  using Purges = std::map<netlink::Family, Purge>;
  bool begin_parts(const Look& look, netlink::ConntrackTable& conntrack);
  void take_part(netlink::ConntrackTable& conntrack, const plan::DesiredState& desired,
                 const plan::ActualState& state, TimePoint now, Purges& purges,
                 std::vector<Failure>& failures);
  std::vector<netlink::Flow> stale_in(const std::vector<netlink::Flow>& flows,
                                      const plan::DesiredState& desired,
                                      const plan::ActualState& state);
  std::optional<View> whole_view_of(const plan::DesiredState& desired,
                                    const plan::ActualState& state,
                                    const netlink::VirtualServiceKey& key, const Note& note,
                                    Goals& goals, WaysTo& ways) const;
  void end_parts(const std::optional<netlink::Error>& unlisted, const plan::DesiredState& desired,
                 const plan::ActualState& state, TimePoint now);
  void not_readable(netlink::Error error, TimePoint now);
  struct OffloadedLook {
    TimePoint due{};
    std::size_t done = 0;
  };
  bool begin_offloaded(TimePoint now);
  static std::vector<netlink::Flow> offloaded_in(std::vector<netlink::Flow> flows,
                                                 const plan::DesiredState& desired);
  void end_offloaded(netlink::Family family, TimePoint now);

  bool early_;
  Notes notes_;
  std::optional<Parts> parts_;
  std::map<netlink::Family, OffloadedLook> offloaded_;
  bool after_offloaded_ = false;  // such a look has just ended
  std::map<netlink::VirtualServiceKey, Gone> gone_;
  plan::InClusterWays ways_;
  bool left_noted_ = false;
  std::size_t remembered_ = 0;  // real servers in `gone_`
  loop::Backoff backoff_;
  std::optional<Failure> unreadable_;
  unsigned unreadable_tries_ = 0;
  TimePoint readable_due_{};
};

}  // namespace ipvsproxier::sync
