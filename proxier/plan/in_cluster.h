#pragma once

// Which virtual services are reached by way of others: clients within the cluster that ask for an
// address of external policy Local are sent to its Service's cluster IP (traffic.h), and packets to
// node ports on localhost to an address behind the loop. Connection tracking keeps the first
// address, and the endpoint that the other virtual service chose.
// Pure; any thread.

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ipset/sets/set_types.h"
#include "netlink/ipvs/ipvs_types.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/desired_state.h"
#include "proxier/plan/transaction.h"

namespace ipvsproxier::plan {

// Where such clients of the virtual service are sent; nullopt: nowhere else.
std::optional<netlink::VirtualServiceKey> in_cluster_way_of(const DesiredState& desired,
                                                            const netlink::VirtualServiceKey& key);

// The ways that the kernel has, and had: what was sent on before a way ended goes on behind it. A
// goal is remembered until its virtual service goes.
class InClusterWays {
 public:
  using Keys = std::set<netlink::VirtualServiceKey>;

  // From so many on, each time that they have doubled, those are forgotten that begin or end where
  // the kernel has no virtual service; if more than half are left, all that the kernel has no more.
  static constexpr std::size_t kMany = 65'536;

  // Those of the kernel. Cost: all of them.
  void note(const ActualState& kernel);
  // Those that the transaction makes.
  void note(const Transaction& transaction, const ActualState& before);
  void forget(const netlink::VirtualServiceKey& goal);
  // The virtual services from which clients are, or were, sent to this one. Also ways that are
  // gone: their connections go on.
  Keys to(const netlink::VirtualServiceKey& goal) const;
  // All of them by the virtual service from which they lead. Cost: all of them.
  std::map<netlink::VirtualServiceKey, std::vector<netlink::VirtualServiceKey>> goals() const;
  std::size_t size() const { return size_; }

 private:
  void note(const netlink::VirtualServiceKey& from, const netlink::VirtualServiceKey& goal);
  void note(const ipset::Element& element);
  void prune(const ActualState& kernel);

  std::map<netlink::VirtualServiceKey, Keys> from_;  // by goal
  std::size_t size_ = 0;
  std::size_t prune_at_ = kMany;
};

}  // namespace ipvsproxier::plan
