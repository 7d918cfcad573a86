#pragma once

// Claims: who gets a virtual service that more than one Service asks for. What the API server gave
// a Service alone (its cluster IP, its node port) comes before what it names (external IPs) or what
// a controller says of it (load-balancer IPs): anybody may name anything. Then the Service that was
// created first keeps it; at equal or missing creation time the one whose namespace/name comes
// first; within one Service the port that comes first. Pure; one thread.

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ipset/sorted_chunks.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::plan {

// One facet of a service port: a virtual service that it asks for.
struct Claim {
  netlink::VirtualServiceKey key;
  Facet facet = Facet::cluster_ip;
  std::uint16_t port = 0;  // index in the Service's spec.ports

  friend auto operator<=>(const Claim&, const Claim&) = default;
};

constexpr bool is_given(Facet facet) {
  return facet == Facet::cluster_ip || facet == Facet::node_port;
}

class Claims {
 public:
  // A Service as far as it matters here.
  struct Claimant {
    const api::NamespacedName* name = nullptr;
    std::optional<std::int64_t> creation_time;
    std::vector<Claim> claims;
    std::string origin;
  };

  // From now on the Service asks for these (for nothing: it is gone). Answers the other Services
  // that may have won or lost one of the same by it; what it costs does not follow how many ask,
  // unless the one that had it leaves. `name` and `claimant`, which is written here only, stay
  // where they are as long as the Service asks for anything.
  std::set<api::NamespacedName> set(const api::NamespacedName& name, Claimant& claimant,
                                    const api::Service* service, std::vector<Claim> claims);

  // Whether set() would change nothing: the Service asked for these.
  static bool is_so(const Claimant& claimant, const api::Service& service,
                    const std::vector<Claim>& claims) {
    return claimant.name != nullptr && claimant.creation_time == service.creation_time &&
           claimant.claims == claims && claimant.origin == service.origin;
  }

  // Whether the port of the Service that this claim is about has the key.
  bool holds(const api::NamespacedName& service, const Claim& claim) const;
  // The Service that has it; nullptr: nobody asks for it. Valid until the next set().
  const api::NamespacedName* owner_of(const netlink::VirtualServiceKey& key) const;

  // One for each claim that lost, in the order of the keys; beyond kMostTold one for all others:
  // these are told at every sync.
  static constexpr std::size_t kMostTold = 100;
  api::Problems problems() const;

 private:
  struct Asked {
    netlink::VirtualServiceKey key;
    const Claimant* by = nullptr;
    Facet facet = Facet::cluster_ip;
    std::uint16_t port = 0;

    bool is_given() const { return plan::is_given(facet); }
    // One port may reach an address in two ways: that is asked for once, in the better way.
    std::strong_ordering operator<=>(const Asked& other) const;
    bool operator==(const Asked& other) const { return *this <=> other == 0; }
  };
  using AskedChunks = ipset::SortedChunks<Asked>;
  // All who ask for one key, those whose name comes first first.
  struct Rivals {
    AskedChunks::const_iterator first;
    AskedChunks::const_iterator last;

    AskedChunks::const_iterator begin() const { return first; }
    AskedChunks::const_iterator end() const { return last; }
  };

  // About a key that is asked for more than once.
  struct Contest {
    Asked winner;
    std::size_t asking = 0;
    std::size_t ageless = 0;  // of these: by a Service whose age is not known

    // If one has none, names decide for all, so that the order has no cycles.
    bool ages_decide() const { return ageless == 0; }
  };

  Rivals rivals_for(const netlink::VirtualServiceKey& key) const;
  std::optional<Asked> winner_of(const netlink::VirtualServiceKey& key) const;
  void judge(const netlink::VirtualServiceKey& key);
  void insert(const Asked& one);
  void erase(const Asked& one);
  static bool precedes(const Asked& one, const Asked& other, bool ages_decide);
  static std::string reason(const Contest& contest, const Asked& loser);
  static api::Problem lost(const Contest& contest, const Asked& loser);

  AskedChunks asked_;
  std::map<netlink::VirtualServiceKey, Contest> contests_;
};

}  // namespace ipvsproxier::plan
