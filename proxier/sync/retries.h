#pragma once

// Retries: failed parts of the kernel state and the time of their next attempt. Each key has its
// own exponential backoff. Entries refused because of their object are in refusals.h. Sync thread
// only.

#include <map>
#include <optional>
#include <random>
#include <set>

#include "proxier/loop/backoff.h"
#include "proxier/plan/scope.h"
#include "proxier/sync/kernel.h"
#include "proxier/sync/refusal.h"

namespace ipvsproxier::sync {

// Whether no virtual service and no address of the family is both in `wanted` and in `waiting`.
bool is_programmed(const plan::Scope& wanted, const plan::Scope& waiting, netlink::Family family);

class Retries {
 public:
  explicit Retries(loop::Backoff backoff = {}) : backoff_(backoff) {}

  // Records which of the tried entries failed.
  void note(const plan::Scope& tried, const plan::Scope& failed, TimePoint now);

  plan::Scope due(TimePoint now) const;
  plan::Scope all() const;  // due or not
  std::optional<TimePoint> next() const;
  bool waits(netlink::Family family) const;  // any entry of the family
  std::size_t size() const;
  bool empty() const { return size() == 0; }

 private:
  struct Wait {
    unsigned failures = 0;
    TimePoint due;
  };
  template <typename Key, typename Keys>
  void note(std::map<Key, Wait>& waits, const Keys& tried, const Keys& failed, TimePoint now);

  loop::Backoff backoff_;
  std::minstd_rand random_;  // spreads retries; its quality does not matter
  std::map<netlink::VirtualServiceKey, Wait> services_;
  std::map<netlink::IpAddress, Wait> addresses_;
  std::map<SetElement, Wait> elements_;
  std::map<netlink::Family, Wait> rules_;
};

}  // namespace ipvsproxier::sync
