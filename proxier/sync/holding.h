#pragma once

// Holding: after a start, keeps kernel entries that no object asks for, while an object that may be
// their reason cannot be read, or while the first lists are in doubt. Sync thread only. Logs.
//
// Only objects that were unreadable at the start count, and only entries that the kernel held then.
// An object that was readable before is planned in its last good state; an object that appears
// later had nothing in the kernel. Holding therefore ends when the last of these objects is read or
// deleted. It does not delay later changes: an entry that some object asked for since the start is
// removed as soon as no object asks for it.
//
// The first lists are in doubt if they ask for less than half of at least 20 virtual services in
// the kernel, or leave more than half of at least 20 virtual services without the real servers that
// these have. This looks like an API server that lost its objects (watch/removal_brake.h treats
// later lists in the same way). The source of the lists is then told to list again, and the second
// lists, one wait later, are believed. Until enough of the kernel was read to judge, the lists
// count as doubted, but the source is not told.

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
  // `doubt_first_lists` tells the source to list again; empty: the first lists are believed.
  Holding(spdlog::logger& logger, std::function<void()> doubt_first_lists)
      : logger_(logger),
        doubt_first_lists_(std::move(doubt_first_lists)),
        unjudged_{.services = bool(doubt_first_lists_),
                  .slices = bool(doubt_first_lists_),
                  .namespaces = {}} {}

  // The first lists have arrived; nothing is known of the kernel yet.
  void begin(const model::ClusterState& cluster);
  // Call when further parts of the kernel may have become known, before changing them. True: some
  // entries are no longer held.
  bool note(const plan::ActualState& kernel, plan::Planner& planner);
  // Call with changes before they are planned. True: some entries are no longer held.
  bool take(const model::Changes& changes, plan::Planner& planner);

  // Virtual services, and real servers of other services, that are kept because of doubted lists.
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
  std::set<api::ObjectKey> unread_;  // objects that have been unreadable since the start
  plan::Doubt lists_;                // which of the first lists are in doubt
  plan::Doubt unjudged_;             // which of the first lists are not judged yet
  bool told_ = false;
  std::size_t serving_ = 0;  // desired virtual services that had real servers in the kernel
  std::size_t emptied_ = 0;  // those of them that no longer get any
  bool noted_services_ = false;
  // Our virtual services whose real servers are not known yet.
  std::set<netlink::VirtualServiceKey> unlisted_;
  bool noted_addresses_ = false;
  std::set<plan::SetKey> noted_sets_;
};

}  // namespace ipvsproxier::sync
