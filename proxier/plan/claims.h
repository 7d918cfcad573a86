#pragma once

// Claims: who gets a virtual service that more than one Service asks for. The Service that was
// created first keeps it; at equal or missing creation time the one whose namespace/name comes
// first; within one Service the port that comes first. Pure; one thread.

#include <compare>
#include <cstdint>
#include <iterator>
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
  // that asked or ask for one of the same, and may have won or lost it now. `name` and `claimant`,
  // which is written here only, stay where they are as long as the Service asks for anything.
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

  // One for each claim that lost, in the order of the keys.
  api::Problems problems() const;

 private:
  struct Asked {
    netlink::VirtualServiceKey key;
    const Claimant* by = nullptr;
    Facet facet = Facet::cluster_ip;
    std::uint16_t port = 0;

    // One port may reach an address in two ways: that is asked for once.
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
    bool empty() const { return first == last; }
    bool contested() const { return !empty() && std::next(first) != last; }
  };

  Rivals rivals_for(const netlink::VirtualServiceKey& key) const;
  void forget(const Claimant& claimant, std::set<api::NamespacedName>& others);
  static bool ages_decide(const Rivals& asked);
  static const Asked& winner_of(const Rivals& asked);
  static std::string reason(const Rivals& asked, const Asked& winner, const Asked& loser);
  static api::Problem lost(const Rivals& asked, const Asked& winner, const Asked& loser);

  AskedChunks asked_;
  std::set<netlink::VirtualServiceKey> contested_;  // asked for more than once
};

}  // namespace ipvsproxier::plan
