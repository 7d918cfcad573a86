#pragma once

// Holding: after a start, what the kernel holds and nobody asks for stays while an object that may
// be the reason for it cannot be read, or the first lists are in doubt. Sync thread only. Logs.
//
// Only objects that could not be read at the start count, and only what the kernel held then: of
// those that could be read before, their last good state is planned; those that come later had
// nothing in the kernel. So it ends with the last of the first ones, by being read or deleted, and
// nothing that changes meanwhile waits for it: what was asked for once since the start goes as soon
// as nobody asks for it any more.
//
// The first lists are in doubt when they ask for less than half of at least 20 virtual services
// that the kernel holds, or leave more than half of at least 20 that have real servers without any:
// an API server that lost its objects looks so (watch/removal_brake.h says the same of later
// lists). Whoever lists is told, and what it lists again one wait later is believed. Until enough
// of the kernel could be read to tell, they are taken for in doubt, and nobody is told.

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <spdlog/logger.h>

#include "proxier/model/cluster_state.h"
#include "proxier/plan/leftovers.h"
#include "proxier/plan/planner.h"

namespace ipvsproxier::sync {

class Holding {
 public:
  // `doubt_first_lists` tells whoever lists; empty: the first lists are believed.
  Holding(spdlog::logger& logger, std::function<void()> doubt_first_lists)
      : logger_(logger),
        doubt_first_lists_(std::move(doubt_first_lists)),
        unjudged_{.services = bool(doubt_first_lists_),
                  .slices = bool(doubt_first_lists_),
                  .namespaces = {}} {}

  // The first lists are there, nothing of the kernel is known.
  void begin(const model::ClusterState& cluster);
  // Parts of the kernel may be known that were not, and nothing of them was changed yet. True:
  // something is not held any more.
  bool note(const plan::ActualState& kernel, plan::Planner& planner);
  // These came, and are about to be planned. True: something is not held any more.
  bool take(const model::Changes& changes, plan::Planner& planner);

  // Virtual services, and real servers of others, that stay because the first lists are in doubt.
  std::size_t doubted_count(const plan::DesiredState& desired) const;
  std::string doubted(const plan::DesiredState& desired) const;  // in words; "": none

 private:
  using Services = std::map<netlink::VirtualServiceKey, plan::ActualService>;

  plan::Doubt doubt() const;
  void judge_services(const Services& services, const plan::DesiredState& desired);
  void judge_slices();
  void tell_doubt();
  void count_servers(const plan::ActualService& actual, const plan::DesiredState& desired);
  void note_services(const Services& services, plan::Planner& planner);
  void note_servers(const Services& services, plan::Planner& planner);

  spdlog::logger& logger_;
  std::function<void()> doubt_first_lists_;
  std::set<api::ObjectKey> unread_;  // of those at the start
  plan::Doubt lists_;                // what of the first lists is in doubt
  plan::Doubt unjudged_;             // what may be
  bool told_ = false;
  std::size_t serving_ = 0;  // desired virtual services that were seen to have real servers
  std::size_t emptied_ = 0;  // of these, those that are to have none
  bool noted_services_ = false;
  std::set<netlink::VirtualServiceKey> unlisted_;  // of ours, whose real servers were not known yet
  bool noted_addresses_ = false;
  std::set<plan::SetKey> noted_sets_;
};

}  // namespace ipvsproxier::sync
