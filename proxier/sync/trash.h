#pragma once

// Trash: a limit on the real servers that are removed from IPVS in some minutes. The kernel keeps
// each removed real server for two to three minutes in one list of the network namespace, and walks
// this list for each real server that is added, whoever adds it (ip_vs_trash_get_dest() and
// IP_VS_DEST_TRASH_PERIOD, ip_vs_ctl.c and ip_vs.h; 6.1). Without a limit a Service that removes
// many real servers makes every later addition slow. Sync thread only.
//
// A quarter of the limit is reserved for Services that remove few. A namespace may use as much of
// the limit as it leaves free, and a Service that removes more than few three quarters of what its
// namespace may use, so that there is room for who has used little. Real servers of UDP and SCTP,
// whose clients would go on to a removed endpoint, may use three times as much as the namespace
// leaves free, and come first; so do Services that remove few. A real server beyond these
// shares waits with weight 0; so do those of a virtual service that ends, which stays until they
// are gone.
//
// A namespace with more than kMostWaiting real servers that wait gets no further ones meanwhile, as
// those that wait take memory of the kernel.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "proxier/api/names.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/planner.h"
#include "proxier/plan/transaction.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

class Trash {
 public:
  static constexpr std::size_t kMost = 4096;            // removed real servers within kStay
  static constexpr std::size_t kReserved = 1024;        // of these, for Services that remove few
  static constexpr std::size_t kFew = 16;               // real servers of a Service within kStay
  static constexpr std::chrono::seconds kStay{180};     // at most, without connections
  static constexpr std::chrono::seconds kStep{5};       // removals are counted together
  static constexpr std::size_t kMostWaiting = 262'144;  // of a namespace

  explicit Trash(std::size_t most_waiting) : most_waiting_(most_waiting) {}

  // The virtual service is no longer planned, and belonged to this Service.
  void note_leaving(const netlink::VirtualServiceKey& key, const api::NamespacedName& service) {
    leaving_.insert_or_assign(key, service);
  }

  // Takes removals beyond the shares out of the transaction, with the removals of elements that
  // tell whose the virtual services are (plan/ownership.h), and gives these real servers weight 0.
  // Names the virtual services that get no further real servers (Transaction::without_room).
  void hold(plan::Transaction& transaction, const plan::ActualState& kernel,
            const plan::Planner& planner, TimePoint now);

  // The transaction was left early: what hold() counted and is still in the kernel is not counted.
  void give_back(const plan::Transaction& transaction, const plan::ActualState& kernel,
                 const plan::Planner& planner);

  // Whether a real server of this virtual service may be removed now.
  bool has_room(const netlink::VirtualServiceKey& key, const plan::Planner& planner, TimePoint now);

  // These virtual services were compared with the kernel: how many of their real servers wait.
  void note(const plan::ServiceKeySet& services, const plan::DesiredState& desired,
            const plan::ActualState& kernel, const plan::Planner& planner);

  // When removals that wait can be tried again; nullopt: none waits.
  std::optional<TimePoint> next() const;
  // What is to be compared again now, by the Service to which it belongs.
  std::map<api::NamespacedName, plan::Scope> due(const plan::DesiredState& desired, TimePoint now);

  // From now on there is no limit: nothing is added after these removals.
  void lift() { lifted_ = true; }

 private:
  using Counts = std::map<api::NamespacedName, std::size_t>;
  struct Removed {
    TimePoint until;
    Counts counts;
  };
  struct Waiting {
    api::NamespacedName service;
    std::size_t servers = 0;  // not planned
  };
  // By port first, as an element of a set of node ports knows no more.
  using Held = std::tuple<std::uint16_t, netlink::Protocol, netlink::VirtualServiceKey>;
  static Held held_of(const netlink::VirtualServiceKey& key) {
    return {key.port, key.protocol, key};
  }

  api::NamespacedName service_of(const netlink::VirtualServiceKey& key,
                                 const plan::Planner& planner) const;
  void expire(TimePoint now);
  std::size_t room(const api::NamespacedName& service, netlink::Protocol protocol) const;
  void charge(const api::NamespacedName& service, std::size_t count, TimePoint now);
  void hold(std::vector<netlink::IpvsOp>& ops, netlink::Protocol protocol,
            const plan::ActualState& kernel, const plan::Planner& planner, TimePoint now);
  Counts grant(const Counts& asked, netlink::Protocol protocol, TimePoint now);
  static bool release(const netlink::IpvsOp& op, const plan::ActualState& kernel,
                      std::size_t& granted, std::vector<netlink::IpvsOp>& ops);
  bool is_mark(const plan::SetKey& set, const ipset::Element& element,
               const plan::DesiredState& desired) const;
  void keep_marks(plan::Transaction& transaction, const plan::DesiredState& desired) const;
  void refuse_additions(plan::Transaction& transaction, const plan::Planner& planner) const;
  void set_waiting(const netlink::VirtualServiceKey& key, Waiting waiting);
  void set_held(const netlink::VirtualServiceKey& key, bool held);

  const std::size_t most_waiting_;
  std::deque<Removed> removed_;  // oldest first
  std::size_t total_ = 0;        // in `removed_`
  Counts of_service_;
  std::map<std::string, std::size_t> of_namespace_;
  std::map<netlink::VirtualServiceKey, api::NamespacedName> leaving_;
  std::map<netlink::VirtualServiceKey, Waiting> waiting_;
  std::set<Held> held_;                            // of these, whose removals wait
  std::map<std::string, std::size_t> waiting_of_;  // real servers, by namespace
  bool lifted_ = false;
};

}  // namespace ipvsproxier::sync
