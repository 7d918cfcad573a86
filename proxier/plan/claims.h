#pragma once

// Claims: which Service gets a virtual service that several Services ask for. Values that the API
// server gave to one Service (cluster IP, node port, an address made of it) come before external
// IPs, which anybody may write, and load-balancer IPs, which a controller writes. A node port at an
// address of a Service comes last: the address was not given with it. Next, the Service
// that was created first wins; at equal or unknown creation times the one whose namespace/name
// comes first; within one Service the first port. Pure; one thread.

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "netlink/containers/sorted_chunks.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::plan {

// One virtual service that a port of a Service asks for.
struct Claim {
  netlink::VirtualServiceKey key;
  Facet facet = Facet::cluster_ip;
  std::uint16_t port = 0;  // index in the Service's spec.ports
  bool lent = false;       // a node port at an address of a Service

  friend auto operator<=>(const Claim&, const Claim&) = default;
};

// Those that come first win.
enum class ClaimRank : std::uint8_t { given, named, lent };

constexpr ClaimRank rank_of(Facet facet, bool lent) {
  if (lent) return ClaimRank::lent;
  return facet == Facet::external_ip || facet == Facet::load_balancer ? ClaimRank::named
                                                                      : ClaimRank::given;
}

// The field of a Service by which it claims something: "spec.ports[0].nodePort".
std::string field_of(Facet facet, std::size_t port);

class Claims {
 public:
  // A Service with the values that decide about its claims.
  struct Claimant {
    const api::NamespacedName* name = nullptr;
    std::optional<std::int64_t> creation_time;
    std::vector<Claim> claims;
    std::string origin;
  };

  // Replaces the claims of the Service (nullptr: it is gone). Returns the other Services that may
  // have won or lost a virtual service by this change. The cost does not depend on the number of
  // rivals, unless the current owner leaves. `name` and `claimant` (written only by this function)
  // must stay at their addresses as long as the Service has claims.
  std::set<api::NamespacedName> set(const api::NamespacedName& name, Claimant& claimant,
                                    const api::Service* service, std::vector<Claim> claims);

  // Whether set() would change nothing.
  static bool is_so(const Claimant& claimant, const api::Service& service,
                    const std::vector<Claim>& claims) {
    return claimant.name != nullptr && claimant.creation_time == service.creation_time &&
           claimant.claims == claims && claimant.origin == service.origin;
  }

  // Whether the port of this claim owns the virtual service.
  bool holds(const api::NamespacedName& service, const Claim& claim) const;
  // The Service that owns the virtual service; nullptr if nobody claims it. Valid until the next
  // set().
  const api::NamespacedName* owner_of(const netlink::VirtualServiceKey& key) const;

  // One problem for each lost claim, in the order of the keys; one summary for those beyond
  // kMostTold, because problems are reported at every sync.
  static constexpr std::size_t kMostTold = 100;
  api::Problems problems() const;

 private:
  struct Asked {
    netlink::VirtualServiceKey key;
    const Claimant* by = nullptr;
    Facet facet = Facet::cluster_ip;
    std::uint16_t port = 0;
    bool lent = false;

    ClaimRank rank() const { return rank_of(facet, lent); }
    // One port may claim an address by two facets: this counts as one claim, by the stronger facet.
    std::strong_ordering operator<=>(const Asked& other) const;
    bool operator==(const Asked& other) const { return *this <=> other == 0; }
  };
  using AskedChunks = netlink::SortedChunks<Asked>;
  // All claims of one key, ordered by Service name.
  struct Rivals {
    AskedChunks::const_iterator first;
    AskedChunks::const_iterator last;

    AskedChunks::const_iterator begin() const { return first; }
    AskedChunks::const_iterator end() const { return last; }
  };

  // A key that is claimed more than once.
  struct Contest {
    Asked winner;
    std::size_t asking = 0;
    std::size_t ageless = 0;  // number of claims by Services without a known age

    // If one age is unknown, names decide for all, so that the order is free of cycles.
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
