#pragma once

// Retries: which parts of the kernel state failed, and when each is to be tried again. Each key has
// its own exponential back-off. What is refused for what it is, is elsewhere (refusals.h). Sync
// thread only.

#include <map>
#include <optional>
#include <random>
#include <set>

#include "proxier/loop/backoff.h"
#include "proxier/plan/scope.h"
#include "proxier/sync/kernel.h"
#include "proxier/sync/refusal.h"

namespace ipvsproxier::sync {

// Whether of all that is `wanted` no virtual service and no address of the family is `waiting`.
bool is_programmed(const plan::Scope& wanted, const plan::Scope& waiting, netlink::Family family);

class Retries {
 public:
  explicit Retries(loop::Backoff backoff = {}) : backoff_(backoff) {}

  // Of all that was looked at, this failed.
  void note(const plan::Scope& tried, const plan::Scope& failed, TimePoint now);

  plan::Scope due(TimePoint now) const;
  plan::Scope all() const;  // due or not
  std::optional<TimePoint> next() const;
  bool waits(netlink::Family family) const;  // anything of it
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
  std::minstd_rand random_;  // spreads retries, nothing depends on its quality
  std::map<netlink::VirtualServiceKey, Wait> services_;
  std::map<netlink::IpAddress, Wait> addresses_;
  std::map<SetElement, Wait> elements_;
  std::map<netlink::Family, Wait> rules_;
};

}  // namespace ipvsproxier::sync
