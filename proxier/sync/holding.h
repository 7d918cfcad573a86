#pragma once

// Holding: after a start, what the kernel holds and nobody asks for stays while an object that may
// be the reason for it cannot be read. Sync thread only. Logs.
//
// Only objects that could not be read at the start count, and only what the kernel held then: of
// those that could be read before, their last good state is planned; those that come later had
// nothing in the kernel. So it ends with the last of the first ones, by being read or deleted, and
// nothing that changes meanwhile waits for it: what was asked for once since the start goes as soon
// as nobody asks for it any more.

#include <map>
#include <set>

#include <spdlog/logger.h>

#include "proxier/model/cluster_state.h"
#include "proxier/plan/leftovers.h"
#include "proxier/plan/planner.h"

namespace ipvsproxier::sync {

class Holding {
 public:
  explicit Holding(spdlog::logger& logger) : logger_(logger) {}

  // The first lists are there, nothing of the kernel is known.
  void begin(const model::ClusterState& cluster);
  // Parts of the kernel may be known that were not, and nothing of them was changed yet.
  void note(const plan::ActualState& kernel, plan::Planner& planner);
  // These came, and are about to be planned. True: something is not held any more.
  bool take(const model::Changes& changes, plan::Planner& planner);

 private:
  using Services = std::map<netlink::VirtualServiceKey, plan::ActualService>;

  plan::Doubt doubt() const;
  void note_services(const Services& services, const plan::Doubt& doubt, plan::Planner& planner);

  spdlog::logger& logger_;
  std::set<api::ObjectKey> unread_;  // of those at the start
  bool noted_services_ = false;
  std::set<netlink::VirtualServiceKey> unlisted_;  // whose real servers were not known yet
  bool noted_addresses_ = false;
  std::set<plan::SetKey> noted_sets_;
};

}  // namespace ipvsproxier::sync
