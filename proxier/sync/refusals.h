#pragma once

// Refusals: entries that the kernel currently refuses because of their object (refusal.h), and when
// they are tried again. Logged when a refusal begins, when its reason changes and when it ends.
// Sync thread only. Logs.
//
// A refused entry is tried again when its Service changes, and otherwise after pauses that grow
// from a second to five minutes, because a change of the node may help (of its subnet's broadcast
// address, for example). If so many entries are refused that the node must be at fault, pauses grow
// to half a minute only. Entries refused together are tried again together, so that a thousand cost
// one run.

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxier/loop/backoff.h"
#include "proxier/loop/line_limit.h"
#include "proxier/plan/planner.h"
#include "proxier/sync/kernel.h"
#include "proxier/sync/refusal.h"

namespace ipvsproxier::sync {

// Numbers of refused entries of a family.
struct RefusedCounts {
  std::size_t virtual_services = 0;  // virtual services, or real servers of them
  std::size_t addresses = 0;
  std::size_t elements = 0;
  std::size_t by_foreign = 0;  // Services that ask for what foreign virtual services have
};

class Refusals {
 public:
  // The refusal of one entry.
  struct Entry {
    std::set<api::NamespacedName> services;  // the Services that ask for the entry
    netlink::Error error;                    // the first
    std::size_t more = 0;                    // further refused operations of the entry
    bool own_fault = false;                  // no node could have what is asked for
    unsigned failures = 0;                   // consecutive
    TimePoint due;
  };
  using Entries = std::map<Thing, Entry>;

  // `log`: for lines of objects; must outlive this.
  explicit Refusals(loop::LineLimit& log) : log_(log) {}

  // Records which of the tried entries were refused. The cost is proportional to `tried`.
  void note(const plan::Scope& tried, const std::vector<Refusal>& refused,
            const plan::Planner& planner, TimePoint now);

  plan::Scope due(TimePoint now) const;
  std::optional<TimePoint> next() const { return next_; }

  bool contains(const Thing& thing) const { return entries_.contains(thing); }
  const Entries& all() const { return entries_; }
  RefusedCounts counts(netlink::Family family) const;

  // This node's addresses: no host has the first or last address of their networks.
  void set_links(const std::vector<netlink::InterfaceAddress>& addresses);

  // Judges whether so many entries are refused that this node must be at fault: virtual services of
  // ten Services in three namespaces, none of which has more than half of these Services, and more
  // than a tenth of all virtual services of the family. The author of one namespace never is
  // enough, unless fewer than three have virtual services; virtual services that name an address
  // which no host can have are not counted. Logs when this state begins and ends.
  void judge(const plan::Planner& planner, TimePoint now);
  bool too_many(netlink::Family family) const { return too_many_.contains(family); }

 private:
  // Virtual services that are affected by refusals.
  struct Affected {
    // Refused, with a refused real server, or with a refused address.
    std::size_t virtual_services = 0;
    std::size_t own_faults = 0;              // refused for an address that no host can have
    std::set<api::NamespacedName> services;  // that ask for those in `virtual_services`
  };

  Affected affected(netlink::Family family, const plan::DesiredState& desired) const;

  using Touched = std::map<Thing, std::optional<Entry>>;

  bool is_own_fault(const Thing& thing, const plan::DesiredState& desired) const;
  Touched take(const plan::Scope& tried);
  void tell(const Touched& before, TimePoint now);

  loop::LineLimit& log_;
  std::set<netlink::IpAddress> broadcasts_;  // of this node's networks
  Entries entries_;
  std::optional<TimePoint> next_;
  std::set<netlink::Family> too_many_;
};

// The Services that lack something that they ask for, by "Service shop/web": refused by the kernel,
// held by others, or not valid. `problems`: of the plan.
std::set<std::string> lacking_services(const api::Problems& problems, const Refusals& refusals);

// "Service default/web: add real server ... (malformed), and 3 more"
std::string to_string(const Refusals::Entry& entry);

}  // namespace ipvsproxier::sync
