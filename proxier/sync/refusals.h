#pragma once

// Refusals: what the kernel refuses now for what it is (refusal.h), and when it is tried again.
// Told once when it begins, when its reason changes and when it ends. Sync thread only. Logs.
//
// Such a thing is tried again when its Service changes, and otherwise after pauses that grow from a
// second to five minutes: what can only change with the node (its subnet's broadcast address) may.
// Where so many are refused that it must be the node's fault they grow to half a minute.
// Those that failed together come together, so that a thousand cost one run.

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "proxier/loop/backoff.h"
#include "proxier/plan/planner.h"
#include "proxier/sync/kernel.h"
#include "proxier/sync/refusal.h"

namespace ipvsproxier::sync {

// How many things of a family are refused, by what they are.
struct RefusedCounts {
  std::size_t virtual_services = 0;  // they, or real servers of them
  std::size_t addresses = 0;
  std::size_t elements = 0;
};

class Refusals {
 public:
  // Of one thing.
  struct Entry {
    std::set<api::NamespacedName> services;  // that ask for it
    netlink::Error error;                    // the first
    std::size_t more = 0;                    // operations that are refused besides
    bool own_fault = false;                  // no node could have what is asked for
    unsigned failures = 0;                   // in a row
    TimePoint due;
  };
  using Entries = std::map<Thing, Entry>;

  explicit Refusals(spdlog::logger& logger) : logger_(logger) {}

  // Of all that was tried, this was refused. Costs what was tried.
  void note(const plan::Scope& tried, const std::vector<Refusal>& refused,
            const plan::Planner& planner, TimePoint now);

  plan::Scope due(TimePoint now) const;
  std::optional<TimePoint> next() const { return next_; }

  bool contains(const Thing& thing) const { return entries_.contains(thing); }
  const Entries& all() const { return entries_; }
  RefusedCounts counts(netlink::Family family) const;

  // Judges whether so many are that it must be this node's fault: ten virtual services of ten
  // Services, and more than a tenth of all virtual services of the family. One Service alone, with
  // whatever ports and addresses, is none; nor are those counted that ask for an address that no
  // host can have, however many somebody makes. Tells when that begins and ends.
  void judge(const plan::DesiredState& desired);
  bool too_many(netlink::Family family) const { return too_many_.contains(family); }

 private:
  // What is not as it should be because of it.
  struct Affected {
    std::size_t virtual_services = 0;  // refused, with a refused real server, or without address
    std::size_t own_faults = 0;        // refused, but no host could have what they ask for
    std::set<api::NamespacedName> services;  // that ask for the first ones
  };

  Affected affected(netlink::Family family, const plan::DesiredState& desired) const;

  using Touched = std::map<Thing, std::optional<Entry>>;

  Touched take(const plan::Scope& tried);
  void tell(const Touched& before);

  spdlog::logger& logger_;
  Entries entries_;
  std::optional<TimePoint> next_;
  std::set<netlink::Family> too_many_;
};

// "Service default/web: add real server ... (malformed), and 3 more"
std::string to_string(const Refusals::Entry& entry);

}  // namespace ipvsproxier::sync
